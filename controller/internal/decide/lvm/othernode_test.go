package lvm

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

// ofNode2 is a group of the Cluster that names node n2.
func ofNode2(uuid string, devices ...string) decide.Group {
	g := groupOf(uuid, devices...)
	g.SystemID = "quarry-n2"
	return g
}

func seesOther(n decide.Node, g ...decide.Group) decide.Node {
	n.OtherNodes = g
	return n
}

func held() decide.Device {
	d := device("sdb")
	d.PVUUID, d.OwnerUID, d.VolumeGroup = "pv-sdb", "uid", "quarry-a"
	d.Refusals = []v1alpha1.Refusal{{Reason: v1alpha1.RefusalOwned, Message: "owned"}, {Reason: v1alpha1.RefusalOtherNode, Message: "node n2"}}
	return d
}

// TestOtherNode_isNotUsed: the group of another node is named, and neither recorded, changed, removed nor counted.
func TestOtherNode_isNotUsed(t *testing.T) {
	c := clusterOf()
	own, other := groupOf("u1", "sda"), ofNode2("u2", "sdb")
	other.Volumes = []string{"pvc-1"}
	const named = "OtherNode: volume group quarry-a (UUID u2) on disks of this host is that of node n2"
	for name, tt := range map[string]struct {
		scene scene
		want  []string
	}{
		"a host without a group makes none beside it": {
			scene{node: seesOther(up("n1", nil, held(), device("sdc")), other), object: memberOf(c)}, []string{named, "ImportVolumeGroup quarry-a sdb"},
		},
		"a host with a group goes on": {
			scene{node: seesOther(up("n1", []decide.Group{own}, held(), device("sdc")), other), object: memberOf(c, records("u1"))},
			[]string{named, "EnsureVolumeGroup quarry-a sdc"},
		},
		"a removal leaves it": {
			scene{node: seesOther(up("n1", nil, held()), other), object: memberOf(c), edit: removed}, nil,
		},
		"a group of another Cluster is not this one's business": {
			scene{node: seesOther(up("n1", []decide.Group{own}, held()), decide.Group{Name: "h", UUID: "u3", OwnerUID: "uid-b", SystemID: "quarry-n2"}), object: memberOf(c, records("u1"))}, nil,
		},
		"the recorded group that names another node now is not there": {
			scene{node: seesOther(up("n1", nil, held()), other), object: memberOf(c, records("u2"))}, []string{"VolumeGroupLost: volume group quarry-a (UUID u2) is not seen on this host", "ImportVolumeGroup quarry-a sdb"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := tt.scene.decide()
			lines := strings.Split(strings.TrimSpace(tell(h)), "\n")
			if len(tt.want) == 0 {
				lines = strings.Fields(tell(h))
			}
			if len(lines) != len(tt.want) {
				t.Fatalf("got %q, want %q", lines, tt.want)
			}
			for i, want := range tt.want {
				if !strings.HasPrefix(lines[i], want) {
					t.Errorf("got %q, want %q", lines[i], want)
				}
			}
			if h.Volumes != 0 {
				t.Errorf("%d volumes are counted", h.Volumes)
			}
		})
	}
	f := scene{node: seesOther(up("n1", nil, held()), other), object: memberOf(c)}.view().Facts("n1")
	if f.Data != nodestate.DataAbsent || len(f.Holding) != 0 || f.Unsure {
		t.Errorf("facts: %+v", f)
	}
}

// TestLost_saysWhere: whoever looks for a lost group learns on which host its disks are.
func TestLost_saysWhere(t *testing.T) {
	c := clusterOf()
	v := scene{node: up("n1", nil), object: memberOf(c, records("u1"))}.view()
	g := groupOf("u1", "sda")
	g.SystemID = "quarry-n1"
	v.seen.Nodes["n2"] = seesOther(up("n2", nil), g)
	h := v.Decide(backend.Member{Node: "n1", Object: v.members["n1"], Flags: nodestate.Of(true, true, false, false)})
	if !strings.Contains(h.Finding.Message, "its disks are on node n2") {
		t.Errorf("%+v", h.Finding)
	}
}

// TestStamp: the recorded group of an earlier agent gets the node's name once it is complete, before anything else is done.
func TestStamp(t *testing.T) {
	c := clusterOf()
	old := groupOf("u1", "sda")
	old.Unstamped = true
	partial, unknown := old, old
	partial.Partial, unknown.Unknown = true, true
	for name, tt := range map[string]struct {
		scene scene
		want  string
	}{
		"a recorded group": {scene{node: up("n1", []decide.Group{old}), object: memberOf(c, records("u1"))}, "StampVolumeGroup quarry-a\n"},
		"before it grows": {
			scene{node: up("n1", []decide.Group{old}, device("sdb")), object: memberOf(c, records("u1"))},
			"StampVolumeGroup quarry-a\nEnsureVolumeGroup quarry-a sdb\n",
		},
		"not one that lacks a disk":             {scene{node: up("n1", []decide.Group{partial}), object: memberOf(c, records("u1"))}, ""},
		"not one that cannot be reported":       {scene{node: up("n1", []decide.Group{unknown}), object: memberOf(c, records("u1"))}, ""},
		"not one that names the node":           {scene{node: up("n1", []decide.Group{groupOf("u1", "sda")}), object: memberOf(c, records("u1"))}, ""},
		"not one that is recorded in this look": {scene{node: up("n1", []decide.Group{old}), object: memberOf(c)}, ""},
		"not under maintenance":                 {scene{node: up("n1", []decide.Group{old}), object: memberOf(c, records("u1")), edit: frozen}, ""},
		"not one of a member that is removed":   {scene{node: up("n1", []decide.Group{old}), object: memberOf(c, records("u1")), edit: failing}, ""},
	} {
		h := tt.scene.decide()
		h.Record, h.Finding = nil, backend.Finding{}
		if d := cmp.Diff(tt.want, tell(h)); d != "" {
			t.Errorf("%s: -want +got:\n%s", name, d)
		}
		for _, s := range h.Steps {
			if step := s.(Step); step.Does == v1alpha1.ActionStampVolumeGroup && (step.UUID != "u1" || step.Destroys() || step.Owner != "uid") {
				t.Errorf("%s: %+v", name, step)
			}
		}
	}
}
