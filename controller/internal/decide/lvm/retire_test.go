package lvm

import (
	"strings"
	"testing"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestDecide_retire: a device that the Member lists is emptied, then leaves the group. It stays while the member is frozen, and once it is taken
// off the list.
func TestDecide_retire(t *testing.T) {
	g := groupOf("A", "sda", "sdb")
	g.PVs[1].FreeBytes = g.PVs[1].SizeBytes
	empty, partial := g, g
	empty.PVs = []decide.PV{g.PVs[0], g.PVs[1]}
	empty.PVs[0].FreeBytes = empty.PVs[0].SizeBytes
	partial.Partial = true
	retires := func(m *v1alpha1.Member) {
		m.Spec.Retire = []v1alpha1.RetiredDevice{{Path: "/dev/disk/by-id/sda", Serial: "Ssda"}}
	}
	listed := memberOf(clusterOf(), records("A"), retires)
	own := func(d decide.Device) decide.Device { d.OwnerUID = "uid"; return d }
	node := func(g decide.Group) decide.Node {
		return up("n1", []decide.Group{g}, own(device("sda")), own(device("sdb")))
	}
	for name, c := range map[string]struct {
		in     scene
		steps  string
		reason string
	}{
		"it holds extents":         {scene{node: node(g), object: listed}, "MoveExtents quarry-a sda\n", v1alpha1.ReasonRetiring},
		"it is empty":              {scene{node: node(empty), object: listed}, "ReduceVolumeGroup quarry-a sda\n", v1alpha1.ReasonRetiring},
		"the member is frozen":     {scene{node: node(g), object: listed, edit: frozen}, "", v1alpha1.ReasonRetiring},
		"a disk is missing":        {scene{node: node(partial), object: listed}, "", v1alpha1.ReasonPartial},
		"another node sees a disk": {scene{node: up("n1", []decide.Group{g}, own(device("sda")), sharedDisk(own(device("sdb")))), object: listed}, "", v1alpha1.ReasonSharedDisk},
		"the agent is silent":      {scene{node: away(g), object: listed}, "", v1alpha1.ReasonAgentUnreachable},
		"it is listed no more":     {scene{node: node(g), object: memberOf(clusterOf(), records("A"))}, "", ""},
		"the member is being gone": {scene{node: node(g), object: listed, edit: failing}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.in.decide()
			if !strings.HasSuffix(tell(got), c.steps) || c.steps == "" && len(got.Steps) > 0 {
				t.Errorf("%s", tell(got))
			}
			reason := ""
			if got.Retired != nil {
				reason = got.Retired.Reason
			}
			if reason != c.reason {
				t.Errorf("condition %+v, want reason %q", got.Retired, c.reason)
			}
			for _, s := range got.Steps {
				if s.Destroys() {
					t.Errorf("%v destroys", s)
				}
			}
		})
	}
}

// TestDecide_unfinishedMove: a move that the agent leaves alone is told, with what a person does about it. Nothing grows, shrinks or is placed there.
func TestDecide_unfinishedMove(t *testing.T) {
	own := func(d decide.Device) decide.Device { d.OwnerUID = "uid"; return d }
	left := groupOf("A", "sda", "sdb")
	left.Moving = &decide.Moving{Left: "a person began it"}
	ends := left
	ends.Moving = &decide.Moving{Bytes: 1 << 20, From: "/dev/disk/by-id/sda"}
	partial := left
	partial.Partial = true
	damaged := left
	damaged.Pools = []decide.ThinPool{{Name: "quarry-thin", Damage: "broken", RepairDigest: "v1:d"}}
	for name, c := range map[string]struct {
		group  decide.Group
		reason string
		says   string
		steps  bool
	}{
		"the agent leaves it alone":          {left, v1alpha1.ReasonMoveUnfinished, "a person began it; the volumes work, and none is made", false},
		"the agent ends it":                  {ends, "", "", true},
		"a pool is damaged too":              {damaged, v1alpha1.ReasonThinPoolDamaged, "broken", false},
		"a disk of the group is missing too": {partial, v1alpha1.ReasonPartial, "; extents were being moved in it: a person began it", false},
	} {
		t.Run(name, func(t *testing.T) {
			node := up("n1", []decide.Group{c.group}, own(device("sda")), own(device("sdb")), device("sdc"))
			m := memberOf(clusterOf(), records("A"))
			got := scene{node: node, object: m}.decide()
			if got.Finding.Reason != c.reason || !strings.Contains(got.Finding.Message, c.says) || (len(got.Steps) > 0) != c.steps {
				t.Errorf("%s", tell(got))
			}
			if standing := State(Of(clusterOf()), node, m, false, nil); (standing.Problem == "") != (c.reason == "") {
				t.Errorf("problem %q", standing.Problem)
			}
		})
	}
}
