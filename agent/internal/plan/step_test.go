package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPlan_changes(t *testing.T) {
	token := func(path string) Token { return Token{device: Identity{Path: path}} }
	for name, tt := range map[string]struct {
		steps []Step
		want  []string
	}{
		"nothing":                     {nil, nil},
		"a group is made":             {[]Step{CreatePV{token: token("b")}, CreateVG{Devices: []string{"b", "a"}}}, []string{"a", "b"}},
		"a group grows":               {[]Step{ExtendVG{GroupDevices: []string{"x"}, Devices: []string{"a"}}}, []string{"a"}},
		"a group shrinks":             {[]Step{ReduceVG{GroupDevices: []string{"x", "a"}, Devices: []string{"a"}}, ReleasePV{token: token("a")}}, []string{"a"}},
		"a group goes":                {[]Step{RemoveVG{GroupDevices: []string{"b", "a"}}}, []string{"a", "b"}},
		"a group forgets a dead disk": {[]Step{ReduceMissing{GroupDevices: []string{"x"}}}, nil},
		"a disk is wiped":             {[]Step{WipeDevice{token: token("a")}}, []string{"a"}},
	} {
		if diff := cmp.Diff(tt.want, Plan{Steps: tt.steps}.Changes()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
