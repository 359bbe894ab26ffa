package option

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestMonitors(t *testing.T) {
	for name, tt := range map[string]struct {
		options map[string]string
		want    []string
	}{
		"theirs outranks that of all": {map[string]string{"global.a": "1", "mon.a": "2"}, []string{"2", "1"}},
		"that of all":                 {map[string]string{"global.a": "1", "mon.b": "2"}, []string{"1"}},
		"those of others":             {map[string]string{"osd.a": "1", "mgr.a": "2"}, nil},
		"none":                        {nil, nil},
	} {
		if got := Monitors(tt.options, "a"); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestWanted(t *testing.T) {
	const grace, ping = "mds_beacon_mon_down_grace", "mon_client_ping_timeout"
	for name, tt := range map[string]struct{ spec, differs map[string]string }{
		"the spec says nothing":                {},
		"it has another option":                {map[string]string{"osd.a": "1"}, map[string]string{"osd.a": "1"}},
		"it has one of ours":                   {map[string]string{"mon." + grace: "60"}, map[string]string{"mon." + grace: "60"}},
		"it has one of ours for all":           {map[string]string{"global." + ping: "30"}, map[string]string{"global." + ping: "30", "mds." + ping: "", "osd." + ping: ""}},
		"it has one of ours for other daemons": {map[string]string{"mgr." + ping: "30"}, map[string]string{"mgr." + ping: "30"}},
	} {
		want := maps.Clone(own)
		maps.Copy(want, tt.differs)
		maps.DeleteFunc(want, func(_, value string) bool { return value == "" })
		if got := Wanted(tt.spec); !maps.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for key := range own {
		if who, _, ok := strings.Cut(key, "."); !ok || who == all {
			t.Errorf("%s is for no kind of daemon", key)
		}
	}
}
