package conformance

import (
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

func ensureMakesGroup(s *suite) {
	a := s.clean(s.Disks()[0])
	s.must("ensure", s.ensure(groupName, owner, a))
	s.holds(a.GetPath())
	if g := s.group(); g.GetOwnerUid() != owner || g.GetUuid() == "" || g.GetExtentBytes() == 0 {
		s.Errorf("group: %v", g)
	}
	d := s.device(a.GetPath())
	if d.GetVolumeGroup() != groupName || d.GetOwnerUid() != owner || d.GetPvUuid() == "" || !refusedFor(d, "Owned") {
		s.Errorf("device: %v", d)
	}
	before := s.Steps()
	s.must("ensure again", s.ensure(groupName, owner, a))
	if n := s.Steps() - before; n != 0 {
		s.Errorf("ensure again made %d changes", n)
	}
}

func ensureExtends(s *suite) {
	a, b := s.clean(s.Disks()[0]), s.clean(s.Disks()[1])
	s.must("ensure one", s.ensure(groupName, owner, a))
	s.must("ensure both", s.ensure(groupName, owner, a, b))
	s.holds(a.GetPath(), b.GetPath())
	s.must("ensure the second only", s.ensure(groupName, owner, b))
	s.holds(a.GetPath(), b.GetPath())
}

func ensureRefusesDirty(s *suite) {
	a, b := s.clean(s.Disks()[0]), s.dirty(s.Disks()[1])
	before := s.Steps()
	s.refused("ensure", s.ensure(groupName, owner, a, b), codes.FailedPrecondition, before)
	if s.group() != nil {
		s.Error("the group was made")
	}
	s.clean(a.GetPath())
}

func ensureRefusesAnother(s *suite) {
	a := s.clean(s.Disks()[0])
	before := s.Steps()
	for name, change := range map[string]func(*agentv1.DeviceIdentity){
		"serial": func(d *agentv1.DeviceIdentity) { d.Serial += "x" },
		"wwn":    func(d *agentv1.DeviceIdentity) { d.Wwn += "x" },
		"size":   func(d *agentv1.DeviceIdentity) { d.SizeBytes++ },
		"digest": func(d *agentv1.DeviceIdentity) { d.Digest += "x" },
		"none":   func(d *agentv1.DeviceIdentity) { d.Digest = "" },
	} {
		other := proto.CloneOf(a)
		change(other)
		s.refused("ensure with another "+name, s.ensure(groupName, owner, other), codes.FailedPrecondition, before)
	}
}

func ensureRefusesAbsent(s *suite) {
	a := s.clean(s.Disks()[0])
	absent := proto.CloneOf(a)
	absent.Path = "/dev/disk/by-id/quarry-absent"
	before := s.Steps()
	s.refused("ensure", s.ensure(groupName, owner, a, absent), codes.NotFound, before)
}

func refusesBadPaths(s *suite) {
	a := s.clean(s.Disks()[0])
	before := s.Steps()
	for _, path := range []string{"", "sdb", "/etc/passwd", "/dev/../etc/passwd", "-x", "/dev/-x", "/dev/", "/dev//sdb", "/dev/sd b"} {
		bad := proto.CloneOf(a)
		bad.Path = path
		s.refused("ensure "+path, s.ensure(groupName, owner, bad), codes.InvalidArgument, before)
		s.refused("reduce "+path, s.reduce(owner, bad), codes.InvalidArgument, before)
		s.refused("remove "+path, s.remove(groupName, owner, bad), codes.InvalidArgument, before)
		s.refused("wipe "+path, s.wipe(bad), codes.InvalidArgument, before)
	}
	for _, name := range []string{"", "-x", "a b", "a/b", "..", strings.Repeat("x", 128)} {
		s.refused("ensure group "+name, s.ensure(name, owner, a), codes.InvalidArgument, before)
	}
	s.refused("ensure without an owner", s.ensure(groupName, "", a), codes.InvalidArgument, before)
	s.refused("ensure without devices", s.ensure(groupName, owner), codes.InvalidArgument, before)
}

func ensureRefusesTakenName(s *suite) {
	a := s.clean(s.Disks()[0])
	s.ForeignGroup(s.T, otherName, s.Disks()[1])
	before := s.Steps()
	s.refused("ensure over a foreign group", s.ensure(otherName, owner, a), codes.AlreadyExists, before)
	s.refused("remove a foreign group", s.remove(otherName, owner), codes.PermissionDenied, before)
	s.must("ensure", s.ensure(groupName, owner, a))
	before = s.Steps()
	s.refused("ensure over another owner's group", s.ensure(groupName, stranger, a), codes.AlreadyExists, before)
	s.refused("reduce another owner's group", s.reduce(stranger, a), codes.PermissionDenied, before)
	s.refused("remove another owner's group", s.remove(groupName, stranger, a), codes.PermissionDenied, before)
}

func ensureRefusesOwned(s *suite) {
	a, b := s.clean(s.Disks()[0]), s.clean(s.Disks()[1])
	s.must("ensure", s.ensure(groupName, owner, a))
	before := s.Steps()
	s.refused("ensure in another group", s.ensure(otherName, owner, b, a), codes.FailedPrecondition, before)
	s.clean(b.GetPath())
}

func reduceTakesOut(s *suite) {
	a, b := s.clean(s.Disks()[0]), s.clean(s.Disks()[1])
	s.must("ensure", s.ensure(groupName, owner, a, b))
	s.must("reduce", s.reduce(owner, b))
	s.holds(a.GetPath())
	s.clean(b.GetPath())
	before := s.Steps()
	s.must("reduce again", s.reduce(owner, b))
	if n := s.Steps() - before; n != 0 {
		s.Errorf("reduce again made %d changes", n)
	}
}

func reduceRefusesLast(s *suite) {
	a := s.clean(s.Disks()[0])
	s.must("ensure", s.ensure(groupName, owner, a))
	before := s.Steps()
	s.refused("reduce", s.reduce(owner, a), codes.FailedPrecondition, before)
}

func reduceRefusesData(s *suite) {
	a, b := s.clean(s.Disks()[0]), s.clean(s.Disks()[1])
	s.must("ensure", s.ensure(groupName, owner, a, b))
	s.AddVolume(s.T, groupName, "data", b.GetPath())
	before := s.Steps()
	s.refused("reduce", s.reduce(owner, b), codes.FailedPrecondition, before)
	s.must("reduce the empty one", s.reduce(owner, a))
	s.holds(b.GetPath())
}

func removeLeavesClean(s *suite) {
	a, b := s.clean(s.Disks()[0]), s.clean(s.Disks()[1])
	s.must("ensure", s.ensure(groupName, owner, a, b))
	s.must("remove", s.remove(groupName, owner, a))
	if g := s.group(); g != nil {
		s.Errorf("group is still there: %v", g)
	}
	s.clean(a.GetPath())
	s.clean(b.GetPath())
	before := s.Steps()
	s.must("remove again", s.remove(groupName, owner, a, b))
	if n := s.Steps() - before; n != 0 {
		s.Errorf("remove again made %d changes", n)
	}
}

func removeRefusesVolumes(s *suite) {
	a := s.clean(s.Disks()[0])
	s.must("ensure", s.ensure(groupName, owner, a))
	s.AddVolume(s.T, groupName, "precious", a.GetPath())
	before := s.Steps()
	err := s.remove(groupName, owner, a)
	s.refused("remove", err, codes.FailedPrecondition, before)
	if err != nil && !strings.Contains(err.Error(), "precious") {
		s.Errorf("the message does not name the volume: %v", err)
	}
	s.RemoveVolume(s.T, groupName, "precious")
	s.must("remove", s.remove(groupName, owner, a))
	s.clean(a.GetPath())
}

// removeLeavesOthers: of the recorded disks one is gone, and one holds somebody's data by now. The removal finishes.
func removeLeavesOthers(s *suite) {
	a := s.clean(s.Disks()[0])
	gone := proto.CloneOf(a)
	gone.Path = "/dev/disk/by-id/quarry-absent"
	s.dirty(s.Disks()[1])
	other := identity(s.device(s.Disks()[1]))
	other.Digest = ""
	s.must("ensure", s.ensure(groupName, owner, a))
	resp, err := s.groups().RemoveVolumeGroup(s.ctx(), &agentv1.RemoveVolumeGroupRequest{
		Name: groupName, OwnerUid: owner, Devices: []*agentv1.DeviceIdentity{a, gone, other},
	})
	s.must("remove", err)
	if len(resp.GetNotes()) != 2 {
		s.Errorf("notes: %q", resp.GetNotes())
	}
	s.clean(a.GetPath())
	if d := s.device(s.Disks()[1]); len(d.GetRefusals()) == 0 {
		s.Errorf("somebody's data is gone: %v", d)
	}
}
