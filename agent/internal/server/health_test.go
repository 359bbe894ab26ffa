package server

import (
	"testing"

	"quarry.storage/quarry/agent/internal/plan"
)

func TestWithPoolHealth(t *testing.T) {
	g := plan.Group{Pools: []plan.Pool{{Name: "full", DataPermyriad: 10000}, {Name: "bad", Health: "needs check"}, {Name: "good"}, {Name: "held", Suspended: true, Health: "needs check"}}}
	for want, v := range map[string]plan.Volume{
		"":                                  {Pool: "good"},
		"thin pool full: out of data space": {Pool: "full"},
		"thin pool bad: needs check":        {Pool: "bad"},
		"thin pool held: its device is suspended: a command that changed it was killed, or somebody suspended it": {Pool: "held"},
		"partial": {Pool: "bad", Health: "partial", Suspended: true},
		"its device is suspended: a command that changed it was killed, or somebody suspended it": {Pool: "full", Suspended: true},
	} {
		if got := withPoolHealth(g, v).Health; got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}
