package option

import (
	"maps"
	"slices"
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

// TestWanted: what the spec says outranks ours, and takes away what goes with it: an interval of theirs beside a timeout of ours would have daemons leave monitors that live.
func TestWanted(t *testing.T) {
	const grace, interval, timeout = "mds_beacon_mon_down_grace", "mon_client_ping_interval", "mon_client_ping_timeout"
	osd := map[string]string{"osd." + interval: "5", "osd." + timeout: "12"}
	server := map[string]string{"mon." + grace: "20", "mds." + interval: "5", "mds." + timeout: "12"}
	for name, tt := range map[string]struct {
		spec map[string]string
		ours []map[string]string
	}{
		"the spec says nothing":          {map[string]string{}, []map[string]string{osd, server}},
		"it has another option":          {map[string]string{"osd.a": "1"}, []map[string]string{osd, server}},
		"it has the grace":               {map[string]string{"mon." + grace: "60"}, []map[string]string{osd}},
		"it has an interval":             {map[string]string{"osd." + interval: "15"}, []map[string]string{server}},
		"it has a timeout":               {map[string]string{"mds." + timeout: "30"}, []map[string]string{osd}},
		"it has an interval for all":     {map[string]string{"global." + interval: "15"}, nil},
		"it has one for other daemons":   {map[string]string{"mgr." + timeout: "30"}, []map[string]string{osd, server}},
		"it has one that says nothing":   {map[string]string{"osd." + timeout: ""}, []map[string]string{server}},
		"it has the same value for some": {map[string]string{"osd." + timeout: "12"}, []map[string]string{server}},
	} {
		want := maps.Clone(tt.spec)
		for _, set := range tt.ours {
			maps.Copy(want, set)
		}
		got := Wanted(tt.spec)
		if !maps.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		for key := range got {
			if _, theirs := tt.spec[key]; len(Refused(map[string]string{key: "no"}, tt.spec)) > 0 != theirs {
				t.Errorf("%s: that %s is refused is told: %t", name, key, !theirs)
			}
		}
	}
}

func TestDiffering(t *testing.T) {
	got := Differing(map[string]string{"osd.a": "1", "osd.b": "2", "osd.c": "3"}, map[string]string{"osd.a": "1", "osd.b": "4", "mon.d": "5"})
	want := []string{`mon.d is to be "5"`, `osd.b is to be "4", and was "2"`, `osd.c is to have no value any more, and was "3"`}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
