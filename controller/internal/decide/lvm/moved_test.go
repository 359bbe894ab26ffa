package lvm

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

// TestDecide_groupOfAnotherMember: disks were moved from n2 to n1 while n1 had no group, or was on its way out.
func TestDecide_groupOfAnotherMember(t *testing.T) {
	one, moved := groupOf("A", "sda"), groupOf("B", "sdb")
	on := func(node string, edits ...func(*v1alpha1.Member)) *v1alpha1.Member {
		m := memberOf(clusterOf(), edits...)
		m.Name, m.Spec.Node = "a."+node, v1alpha1.HostName(node)
		return m
	}
	beside := func(m *v1alpha1.Member) backend.World { return backend.World{Members: []*v1alpha1.Member{m}} }
	theirs, making := beside(on("n2", records("B"))), beside(on("n2", records("", "pv-sdb")))
	own := func(g ...decide.Group) decide.Node { return up("n1", g, device("sdz")) }
	const told = "VolumeGroupConflict: volume group quarry-a (UUID B) is that of member a.n2 on node n2: its disks were moved here; " +
		"nothing is changed here until they are back there\n"
	for name, c := range map[string]struct {
		in   scene
		want string
	}{
		"a member without a record":                {scene{node: own(moved), object: memberOf(clusterOf()), world: theirs}, told},
		"a host without a Member":                  {scene{node: own(moved), world: theirs}, told},
		"a member that was making a group":         {scene{node: own(moved), object: memberOf(clusterOf(), records("", "pv-x")), world: theirs}, told},
		"a volume pretends that it is this host's": {scene{node: own(moved), volumes: []backend.Volume{pinned("v", "B")}, world: theirs}, told},
		"both make one of disks of the same names": {scene{node: own(moved), object: memberOf(clusterOf(), records("", "pv-sdb")), world: making}, "record \"B\" quarry-a 0\nEnsureVolumeGroup quarry-a sdz\n"},
		"beside the member's own":                  {scene{node: own(one, moved), object: memberOf(clusterOf(), records("A")), world: theirs}, told},
		"a member that is being removed":           {scene{node: own(moved), object: memberOf(clusterOf()), world: theirs, edit: removed}, told},
		"a removal beside the member's own":        {scene{node: own(one, moved), object: memberOf(clusterOf(), records("A")), world: theirs, edit: removed}, told},
		"another group of the other member":        {scene{node: own(one), object: memberOf(clusterOf()), world: theirs}, "record \"A\" quarry-a 0\nEnsureVolumeGroup quarry-a sdz\n"},
		"the member's own record":                  {scene{node: own(moved), object: memberOf(clusterOf(), records("B"))}, "EnsureVolumeGroup quarry-a sdz\n"},
		"the other one has grown since":            {scene{node: own(one), object: memberOf(clusterOf()), world: beside(on("n2", records("B", "pv-sda")))}, "record \"A\" quarry-a 0\nEnsureVolumeGroup quarry-a sdz\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, tell(c.in.decide())); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

// TestDecide_groupOfVolumesElsewhere: no Member records the group any more, and volumes of another node do.
func TestDecide_groupOfVolumesElsewhere(t *testing.T) {
	moved := groupOf("B", "sdb")
	own := up("n1", []decide.Group{moved}, device("sdz"))
	at := func(node string, v ...backend.Volume) backend.World {
		return backend.World{Volumes: map[string][]backend.Volume{node: v}}
	}
	volume := func(uuid, handle string) backend.Volume {
		return backend.Volume{Name: "v", GroupUUID: uuid, Handle: handle}
	}
	there := volume("B", "n2/quarry-a/"+lv)
	const told = "VolumeGroupConflict: volume group quarry-a (UUID B) is that of volume v on node n2: its disks were moved here; " +
		"nothing is changed here until they are back there\n"
	const adopted = "record \"B\" quarry-a 0\nEnsureVolumeGroup quarry-a sdz\n"
	for name, c := range map[string]struct {
		in   scene
		want string
	}{
		"a member without a record":           {scene{object: memberOf(clusterOf()), world: at("n2", there)}, told},
		"a host without a Member":             {scene{world: at("n2", there)}, told},
		"a handle that names no node":         {scene{object: memberOf(clusterOf()), world: at("n2", volume("B", "v"))}, told},
		"a volume without a place":            {scene{object: memberOf(clusterOf()), world: at("", there)}, told},
		"a member that is being removed":      {scene{object: memberOf(clusterOf()), world: at("n2", there), edit: removed}, told},
		"the member's own record":             {scene{object: memberOf(clusterOf(), records("B")), world: at("n2", there)}, "EnsureVolumeGroup quarry-a sdz\n"},
		"a volume of this host":               {scene{object: memberOf(clusterOf()), world: at("n1", volume("B", "n1/quarry-a/"+lv))}, adopted},
		"one with the affinity of another":    {scene{object: memberOf(clusterOf()), world: at("n2", volume("B", "n1/quarry-a/"+lv))}, adopted},
		"a volume of another group":           {scene{object: memberOf(clusterOf()), world: at("n2", volume("C", "n2/quarry-a/"+lv))}, adopted},
		"a volume that records no group":      {scene{object: memberOf(clusterOf()), world: at("n2", volume("", "n2/quarry-a/"+lv))}, adopted},
		"a volume of nowhere that names none": {scene{object: memberOf(clusterOf()), world: at("", volume("B", "v"))}, adopted},
	} {
		t.Run(name, func(t *testing.T) {
			c.in.node = own
			if d := cmp.Diff(c.want, tell(c.in.decide())); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

// TestDecide_removalOfAGroupInParts: the group is not reported, and something of it is on a disk of the host.
func TestDecide_removalOfAGroupInParts(t *testing.T) {
	part := device("sda")
	part.OwnerUID, part.VolumeGroup, part.PVUUID = "uid", "quarry-a", "pv-sda"
	foreign := part
	foreign.OwnerUID = "other"
	recorded := func(devices ...string) *v1alpha1.Member {
		return memberOf(clusterOf(), records("A"), inStatus(devices...))
	}
	const remove = "RemoveVolumeGroup quarry-a sda\n"
	const told = "VolumeGroupUnknown: only a part of volume group quarry-a is seen, on /dev/disk/by-id/sda: what else is in it is not known, " +
		"and nothing is removed until it is\n"
	const absent, unknown = nodestate.DataAbsent, nodestate.DataUnknown
	for name, c := range map[string]struct {
		in   scene
		want string
		data nodestate.Data
	}{
		"a physical volume whose group is not reported": {scene{node: up("n1", nil, part), object: recorded("sda")}, told, unknown},
		"the same without a record":                     {scene{node: up("n1", nil, part)}, told, unknown},
		"an orphan, and another disk is away":           {scene{node: up("n1", nil, orphan("sda")), object: recorded("sda", "sdb")}, told, unknown},
		"an orphan, and another disk is in its place": {
			scene{node: up("n1", nil, orphan("sda"), func() decide.Device { d := device("sdb"); d.Serial = "new"; return d }()), object: recorded("sda", "sdb")},
			told, unknown,
		},
		"an orphan, and no other disk was there":     {scene{node: up("n1", nil, orphan("sda")), object: recorded("sda")}, remove, absent},
		"an orphan, and the other disk is clean":     {scene{node: up("n1", nil, orphan("sda"), device("sdb")), object: recorded("sda", "sdb")}, remove, absent},
		"an orphan, and nothing was ever recorded":   {scene{node: up("n1", nil, orphan("sda")), object: memberOf(clusterOf())}, remove, absent},
		"nothing of it, and its disk is away":        {scene{node: up("n1", nil), object: recorded("sda")}, "", absent},
		"a physical volume of another Cluster":       {scene{node: up("n1", nil, foreign), object: recorded("sda")}, "", absent},
		"a physical volume of a group that is there": {scene{node: up("n1", []decide.Group{groupOf("A", "sda")}, part), object: recorded("sda")}, remove, absent},
	} {
		t.Run(name, func(t *testing.T) {
			c.in.edit = removed
			if d := cmp.Diff(c.want, tell(c.in.decide())); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
			if got := c.in.view().Facts("n1").Data; got != c.data {
				t.Errorf("data %d, want %d", got, c.data)
			}
		})
	}
}
