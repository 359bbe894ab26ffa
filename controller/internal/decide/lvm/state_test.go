package lvm

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
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
		"a member whose recorded group is seen":    {c, well, recorded(), false, nodestate.Online, ""},
		"no member":                                {c, well, nil, false, "", "it is not a member of the Cluster"},
		"a member of an earlier Cluster":           {c, well, recorded(func(m *v1alpha1.Member) { m.Spec.Of.UID = "old" }), false, "", "it is not a member of the Cluster"},
		"being removed, with volumes":              {c, up("n1", []decide.Group{filled(one, "v")}), recorded(deleted), false, nodestate.Failed, "it is failed"},
		"being removed, without volumes":           {c, well, recorded(deleted), false, nodestate.Abandoned, "it is abandoned"},
		"leaving":                                  {c, well, recorded(leaves), false, nodestate.Quiesced, "it is leaving the Cluster"},
		"declared lost":                            {c, well, recorded(lostMember), false, nodestate.Abandoned, "it is declared lost"},
		"taken off the list a moment ago":          {unlisted, well, recorded(), false, nodestate.Quiesced, "it is leaving the Cluster"},
		"chosen by a selector":                     {clusterOf(selects("ssd")), well, recorded(), false, nodestate.Online, ""},
		"the Cluster is being deleted":             {clusterOf(everything, func(c *v1alpha1.Cluster) { c.Status.LostGroups = nil }), well, recorded(), false, nodestate.Abandoned, "it is abandoned"},
		"maintenance of the Member":                {c, well, recorded(func(m *v1alpha1.Member) { m.Spec.Maintenance = true }), false, nodestate.Quiesced, "it is quiesced"},
		"maintenance of the Cluster":               {maintained, well, recorded(), false, nodestate.Quiesced, "it is quiesced"},
		"maintenance of the StorageNode":           {c, well, recorded(), true, nodestate.Quiesced, "it is quiesced"},
		"an agent that does not answer":            {c, away(one), recorded(), false, nodestate.Offline, "it is offline (cut off)"},
		"too early to say":                         {c, decide.Node{Name: "n1", Agent: decide.AgentConnecting, Groups: []decide.Group{one}}, recorded(), false, nodestate.Offline, "its agent is not connected yet"},
		"LVM cannot be run":                        {c, decide.Node{Name: "n1", Agent: decide.AgentUp, LVMError: "no lvm", Groups: []decide.Group{one}}, recorded(), false, nodestate.Online, "LVM cannot be run: no lvm"},
		"LVM cannot report the group":              {c, unreported("uid"), recorded(), false, nodestate.Online, "LVM cannot report a volume group whose metadata cannot be read on /dev/disk/by-id/sdz (locked)"},
		"LVM cannot report the group any more":     {c, unreported("uid", func() decide.Group { g := one; g.Unknown = true; return g }()), recorded(), false, nodestate.Online, "LVM cannot report a volume group whose metadata cannot be read on /dev/disk/by-id/sdz (locked)"},
		"nobody can tell whose another group is":   {c, unreported("", one), recorded(), false, nodestate.Online, ""},
		"LVM cannot report one of others":          {c, unreported("other", one), recorded(), false, nodestate.Online, ""},
		"nothing is recorded yet":                  {c, well, memberOf(c), false, nodestate.Online, "its volume group is not on record yet"},
		"a group that is being made":               {c, well, memberOf(c, records("", "pv-sda")), false, nodestate.Online, "its volume group is not on record yet"},
		"no group":                                 {c, up("n1", nil), recorded(), false, nodestate.Online, "it has no volume group of the Cluster"},
		"no group, and a disk that cannot be read": {c, dying("n1"), recorded(), false, nodestate.Online, "its volume group is not seen: it may be on what cannot be read: /dev/disk/by-id/sdz"},
		"never a group, and such a disk":           {c, dying("n1"), memberOf(c), false, nodestate.Online, "it has no volume group of the Cluster"},
		"the group is seen, beside such a disk":    {c, dying("n1", one), recorded(), false, nodestate.Online, ""},
		"another group":                            {c, up("n1", []decide.Group{groupOf("B")}), recorded(), false, nodestate.Online, "the volume group that it has is not the recorded one"},
		"the recorded group and another one":       {c, up("n1", []decide.Group{groupOf("B"), one}), recorded(), false, nodestate.Online, "it has 2 volume groups of the Cluster"},
		"a group of a member that was lost":        {lost, well, recorded(), false, nodestate.Online, "it has no volume group of the Cluster"},
		"a disk is missing":                        {c, up("n1", []decide.Group{partial}), recorded(), false, nodestate.Online, "a disk of its volume group is missing, and LVM makes nothing there"},
	} {
		t.Run(name, func(t *testing.T) {
			got := State(Of(in.cluster), in.node, in.member, in.maintenance, nil)
			if got.State != in.state || got.Problem != in.problem {
				t.Errorf("%q, %q", got.State, got.Problem)
			}
			if got.Soon != (in.problem == "its volume group is not on record yet") {
				t.Errorf("soon: %t", got.Soon)
			}
			if got.Unknown != (strings.HasPrefix(in.problem, "LVM cannot") || strings.Contains(in.problem, "is not seen:")) {
				t.Errorf("unknown: %t", got.Unknown)
			}
			if in.problem == "" && (got.Group == nil || got.Group.UUID != "A") {
				t.Errorf("%+v", got.Group)
			}
		})
	}
}

// dying is a node with a disk that cannot be read.
func dying(name string, groups ...decide.Group) decide.Node {
	n := up(name, groups)
	n.Devices = append(n.Devices, decide.Device{
		Path: "/dev/disk/by-id/sdz", KernelName: "sdz", Type: "disk", Refusals: []v1alpha1.Refusal{{Reason: v1alpha1.RefusalUnreadable}},
	})
	return n
}

// TestState_vanishedVolumes: what was removed by mistake can be brought back as long as nothing takes its place.
func TestState_vanishedVolumes(t *testing.T) {
	const handle, says = "n1/quarry-a/" + lv, "no logical volume exists of v1 (claim ns/v1), and its space is kept until it is back, or nothing needs it any more"
	one := groupOf("A", "sda")
	deleted := expected("v1", "A", handle)
	deleted.Expected = false
	partial := one
	partial.Partial = true
	for name, in := range map[string]struct {
		group   decide.Group
		volume  backend.Volume
		problem string
	}{
		"it is there":                           {filled(one, lv), expected("v1", "A", handle), ""},
		"it is gone":                            {one, expected("v1", "A", handle), says},
		"it is gone, of a time before records":  {one, expected("v1", "", handle), says},
		"another one is there":                  {filled(one, "snap-"+lv[4:]), expected("v1", "A", handle), says},
		"nothing needs it any more":             {one, deleted, ""},
		"it is in another group":                {one, expected("v1", "B", handle), ""},
		"it is in a group of another name":      {one, expected("v1", "", "n1/other/"+lv), ""},
		"it is on another node":                 {one, expected("v1", "A", "n2/quarry-a/"+lv), ""},
		"its handle is none of the driver":      {one, expected("v1", "A", "v1"), ""},
		"a disk is missing, which may hold it":  {partial, expected("v1", "A", handle), "a disk of its volume group is missing, and LVM makes nothing there"},
		"the group was renamed, and it is gone": {func() decide.Group { g := one; g.Name = "mine"; return g }(), expected("v1", "A", handle), says},
	} {
		t.Run(name, func(t *testing.T) {
			c := clusterOf()
			got := State(Of(c), up("n1", []decide.Group{in.group}), memberOf(c, records("A")), false, []backend.Volume{in.volume})
			if got.Problem != in.problem || got.State != nodestate.Online || got.Soon {
				t.Errorf("%+v", got)
			}
		})
	}
}
