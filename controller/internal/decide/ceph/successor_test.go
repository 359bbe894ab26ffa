package ceph

import (
	"slices"
	"testing"
)

// TestPlanMonitors_successorThatIsNotAble: a monitor whose host leaves waits for its successor, even if the host that could take it is not able to now.
func TestPlanMonitors_successorThatIsNotAble(t *testing.T) {
	names := []string{"a", "b", "c"}
	w := Monitors{Count: 3, Records: records("a@h1", "b@h2", "c@h3"), Formed: true, Next: "d", Deployed: &names, Hosts: hosts("h1", "h2", "h3-", "h4")}
	able := lines(PlanMonitors(w, Facts{Quorum: quorum("a", "b", "c")}))
	i := slices.IndexFunc(w.Hosts, func(h Host) bool { return h.Name == "h4" })
	w.Hosts[i].Unable = true
	unable := lines(PlanMonitors(w, Facts{Quorum: quorum("a", "b", "c")}))
	if len(able) == 0 || len(unable) != 0 {
		t.Errorf("with an able host %q, without %q", able, unable)
	}
}
