package option

import (
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
