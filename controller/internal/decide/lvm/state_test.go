package lvm

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

func TestState(t *testing.T) {
	c := clusterOf()
	one, partial := groupOf("A", "sda"), groupOf("A", "sda")
	partial.Partial = true
	well := up("n1", []decide.Group{one})
	recorded := func(edits ...func(*v1alpha1.Member)) *v1alpha1.Member {
		return memberOf(c, append([]func(*v1alpha1.Member){records("A")}, edits...)...)
	}
	deleted := func(m *v1alpha1.Member) { m.DeletionTimestamp = new(metav1.NewTime(start)) }
	leaves := func(m *v1alpha1.Member) {
		m.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionLeaving, Status: metav1.ConditionTrue}}
	}
	maintained := clusterOf(func(c *v1alpha1.Cluster) { c.Spec.Maintenance = []v1alpha1.HostName{"n1"} })
	unlisted := clusterOf(func(c *v1alpha1.Cluster) { c.Spec.Hosts = c.Spec.Hosts[1:] })
	lost := clusterOf(func(c *v1alpha1.Cluster) { c.Status.LostGroups = []string{"A"} })
	for name, in := range map[string]struct {
		cluster     *v1alpha1.Cluster
		node        decide.Node
		member      *v1alpha1.Member
		maintenance bool
		state       nodestate.State
		problem     string
	}{
		"a member whose recorded group is seen": {c, well, recorded(), false, nodestate.Online, ""},
		"no member":                             {c, well, nil, false, "", "it is not a member of the Cluster"},
		"a member of an earlier Cluster":        {c, well, recorded(func(m *v1alpha1.Member) { m.Spec.Of.UID = "old" }), false, "", "it is not a member of the Cluster"},
		"being removed, with volumes":           {c, up("n1", []decide.Group{filled(one, "v")}), recorded(deleted), false, nodestate.Failed, "it is failed"},
		"being removed, without volumes":        {c, well, recorded(deleted), false, nodestate.Abandoned, "it is abandoned"},
		"leaving":                               {c, well, recorded(leaves), false, nodestate.Quiesced, "it is leaving the Cluster"},
		"declared lost":                         {c, well, recorded(lostMember), false, nodestate.Abandoned, "it is declared lost"},
		"taken off the list a moment ago":       {unlisted, well, recorded(), false, nodestate.Quiesced, "it is leaving the Cluster"},
		"chosen by a selector":                  {clusterOf(selects("ssd")), well, recorded(), false, nodestate.Online, ""},
		"the Cluster is being deleted":          {clusterOf(everything, func(c *v1alpha1.Cluster) { c.Status.LostGroups = nil }), well, recorded(), false, nodestate.Abandoned, "it is abandoned"},
		"maintenance of the Member":             {c, well, recorded(func(m *v1alpha1.Member) { m.Spec.Maintenance = true }), false, nodestate.Quiesced, "it is quiesced"},
		"maintenance of the Cluster":            {maintained, well, recorded(), false, nodestate.Quiesced, "it is quiesced"},
		"maintenance of the StorageNode":        {c, well, recorded(), true, nodestate.Quiesced, "it is quiesced"},
		"an agent that does not answer":         {c, away(one), recorded(), false, nodestate.Offline, "it is offline (cut off)"},
		"too early to say":                      {c, decide.Node{Name: "n1", Agent: decide.AgentConnecting, Groups: []decide.Group{one}}, recorded(), false, nodestate.Offline, "its agent is not connected yet"},
		"LVM cannot be run":                     {c, decide.Node{Name: "n1", Agent: decide.AgentUp, LVMError: "no lvm", Groups: []decide.Group{one}}, recorded(), false, nodestate.Online, "LVM cannot be run: no lvm"},
		"nothing is recorded yet":               {c, well, memberOf(c), false, nodestate.Online, "its volume group is not on record yet"},
		"a group that is being made":            {c, well, memberOf(c, records("", "pv-sda")), false, nodestate.Online, "its volume group is not on record yet"},
		"no group":                              {c, up("n1", nil), recorded(), false, nodestate.Online, "it has no volume group of the Cluster"},
		"another group":                         {c, up("n1", []decide.Group{groupOf("B")}), recorded(), false, nodestate.Online, "the volume group that it has is not the recorded one"},
		"the recorded group and another one":    {c, up("n1", []decide.Group{groupOf("B"), one}), recorded(), false, nodestate.Online, "it has 2 volume groups of the Cluster"},
		"a group of a member that was lost":     {lost, well, recorded(), false, nodestate.Online, "it has no volume group of the Cluster"},
		"a disk is missing":                     {c, up("n1", []decide.Group{partial}), recorded(), false, nodestate.Online, "a disk of its volume group is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			got := State(Of(in.cluster), in.node, in.member, in.maintenance)
			if got.State != in.state || got.Problem != in.problem {
				t.Errorf("%q, %q", got.State, got.Problem)
			}
			if got.Soon != (in.problem == "its volume group is not on record yet") {
				t.Errorf("soon: %t", got.Soon)
			}
			if in.problem == "" && (got.Group == nil || got.Group.UUID != "A") {
				t.Errorf("%+v", got.Group)
			}
		})
	}
}
