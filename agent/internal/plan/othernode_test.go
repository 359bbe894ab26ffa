package plan

import (
	"errors"
	"strings"
	"testing"

	"quarry.storage/quarry/pkg/refusal"
)

// otherNodes is a node on which a group of another node is seen, with a disk of it and a clean one.
func otherNodes() (Snapshot, Device, Device) {
	moved, free := cleanDisk("sdb"), cleanDisk("sdc")
	moved.PVUUID, moved.Group, moved.OwnerUID, moved.OtherNode = "pv-b", "g", me, "quarry-n2"
	moved.HeadTailZero, moved.Signatures = false, []Signature{{Type: "LVM2_member"}}
	return Snapshot{Devices: []Device{moved, free}, Groups: []Group{{
		Name: "g", UUID: "u2", OwnerUID: me, Access: AccessOther, SystemID: "quarry-n2", SizeBytes: 1 << 30, FreeBytes: 1 << 30,
		PVs: []PV{{Path: moved.Path, UUID: "pv-b", SizeBytes: 1 << 30, FreeBytes: 1 << 30}},
	}}}, moved, free
}

func TestOtherNode_isRefused(t *testing.T) {
	s, moved, free := otherNodes()
	want := func(devices ...Device) GroupSpec {
		spec := GroupSpec{Name: "g", OwnerUID: me}
		for _, d := range devices {
			spec.Devices = append(spec.Devices, IdentityOf(d))
		}
		return spec
	}
	other := want(moved)
	other.Name = "h"
	for name, tt := range map[string]struct {
		decide func() (Plan, error)
		err    error
	}{
		"its name is not made anew":     {func() (Plan, error) { return EnsureGroup(s, want(free), Policy{}) }, ErrAlreadyExists},
		"it does not grow":              {func() (Plan, error) { return EnsureGroup(s, want(moved, free), Policy{}) }, ErrAlreadyExists},
		"its disk joins no other group": {func() (Plan, error) { return EnsureGroup(s, other, Policy{}) }, ErrNotClean},
		"it is not reduced":             {func() (Plan, error) { return ReduceGroup(s, want(moved), Policy{}) }, ErrNotOurs},
		"nor under another name":        {func() (Plan, error) { return ReduceGroup(s, other, Policy{}) }, ErrNotOurs},
		"it is not removed":             {func() (Plan, error) { return RemoveGroup(s, want(moved), Policy{}) }, ErrNotOurs},
		"its disk is not wiped":         {func() (Plan, error) { return Wipe(s, IdentityOf(moved), Policy{}) }, ErrNotClean},
	} {
		p, err := tt.decide()
		if !errors.Is(err, tt.err) || len(p.Steps) != 0 || !strings.Contains(err.Error(), "node n2") {
			t.Errorf("%s: %v, %v", name, p.Steps, err)
		}
	}
	if err := s.Here("g"); !errors.Is(err, ErrOtherNode) {
		t.Errorf("the group is here: %v", err)
	}
	if err := s.Here("h"); err != nil {
		t.Errorf("a name that nobody has: %v", err)
	}
}

// TestOtherNode_besideOurs: the node's own group of the same name and owner goes on, and the other one's disk is no part of it.
func TestOtherNode_besideOurs(t *testing.T) {
	s, moved, free := otherNodes()
	mine := cleanDisk("sda")
	mine.PVUUID, mine.Group, mine.OwnerUID, mine.HeadTailZero = "pv-a", "g", me, false
	s.Devices = append(s.Devices, mine)
	for _, access := range []Access{AccessNone, AccessOwn} {
		s := s
		s.Groups = append([]Group{{
			Name: "g", UUID: "u1", OwnerUID: me, Access: access, SizeBytes: 1 << 30, FreeBytes: 1 << 30,
			PVs: []PV{{Path: mine.Path, UUID: "pv-a", SizeBytes: 1 << 30, FreeBytes: 1 << 30}},
		}}, s.Groups...)
		p, err := EnsureGroup(s, GroupSpec{Name: "g", OwnerUID: me, Devices: []Identity{IdentityOf(mine), IdentityOf(free)}}, Policy{})
		if err != nil || len(p.Steps) != 2 {
			t.Errorf("growing: %v, %v", p.Steps, err)
		}
		_, err = EnsureGroup(s, GroupSpec{Name: "g", OwnerUID: me, Devices: []Identity{IdentityOf(moved)}}, Policy{})
		if !errors.Is(err, ErrNotClean) {
			t.Errorf("the other's disk counts as ours: %v", err)
		}
		p, err = RemoveGroup(s, GroupSpec{Name: "g", OwnerUID: me, Devices: []Identity{IdentityOf(mine), IdentityOf(moved)}}, Policy{})
		if err != nil || len(p.Steps) != 2 || len(p.Notes) != 1 || !strings.Contains(p.Notes[0], "node n2") {
			t.Errorf("removing: %v, %q, %v", p.Steps, p.Notes, err)
		}
		if err := s.Here("g"); err != nil {
			t.Errorf("our group is not here: %v", err)
		}
	}
}

// TestOtherNode_ofNobodyKnown: a group without our tag that names another host may be in use there. No consent overrules that.
func TestOtherNode_ofNobodyKnown(t *testing.T) {
	d := cleanDisk("sdb")
	d.PVUUID, d.Group, d.OtherNode, d.HeadTailZero = "pv-b", "theirs", "san-host", false
	d.Signatures = []Signature{{Type: "LVM2_member"}}
	s := Snapshot{Devices: []Device{d}, ForeignGroups: []string{"theirs"}}
	found := false
	for _, r := range Judge(d, Policy{}) {
		found = found || r.Reason == refusal.OtherNode && strings.Contains(r.Message, `system ID "san-host"`)
	}
	if !found || Wipeable(s, d, Policy{}) {
		t.Errorf("refusals: %v", Judge(d, Policy{}))
	}
}
