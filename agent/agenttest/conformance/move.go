package conformance

import (
	"google.golang.org/grpc/codes"

	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// spread makes a group of two disks with a volume on the first one, which is returned.
func (s *suite) spread(size int64) (from *agentv1.DeviceIdentity) {
	s.Helper()
	if !s.Activates() {
		s.Skip("this kernel has no device-mapper, so nothing can be moved; make conformance runs it on one that has")
	}
	a, b := s.clean(s.Disks()[0]), s.clean(s.Disks()[1])
	s.must("ensure", s.ensure(groupName, owner, a))
	_, err := s.create(volumeSpec("moved", size))
	s.must("create", err)
	s.must("ensure", s.ensure(groupName, owner, a, b))
	return identity(s.device(s.Disks()[0]))
}

func (s *suite) move(device *agentv1.DeviceIdentity, avoid ...string) error {
	_, err := s.groups().MoveExtents(s.ctx(), &agentv1.MoveExtentsRequest{Name: groupName, OwnerUid: owner, Device: device, Avoid: avoid})
	return err
}

// allocated is how much is allocated on a disk of the group.
func (s *suite) allocated(path string) int64 {
	s.Helper()
	for _, pv := range s.group().GetPhysicalVolumes() {
		if pv.GetPath() == path {
			return pv.GetSizeBytes() - pv.GetFreeBytes()
		}
	}
	s.Fatalf("%s is not in the group: %v", path, s.group())
	return 0
}

// movesExtents: a volume leaves a disk, and works as before. The disk can leave the group then.
func movesExtents(s *suite) {
	from := s.spread(40)
	s.WriteVolume(s.T, groupName, "moved", others)
	before := s.Steps()
	s.refused("move without room", s.move(from, s.Disks()[1]), codes.ResourceExhausted, before)
	other := identity(s.device(s.Disks()[0]))
	other.Serial = "another"
	s.refused("move off another disk", s.move(other), codes.FailedPrecondition, before)
	s.must("move", s.move(from))
	if n := s.allocated(s.Disks()[0]); n != 0 || s.allocated(s.Disks()[1]) != 40*mib || s.group().GetMovingBytes() != 0 {
		s.Errorf("%d bytes are left on the disk: %v", n, s.group())
	}
	if v := s.listed("moved"); v.GetHealth() != "" || v.GetSizeBytes() != 40*mib || len(s.group().GetLogicalVolumes()) != 1 {
		s.Errorf("after the move: %v, %q", v, s.group().GetLogicalVolumes())
	}
	s.reads("moved", true)
	before = s.Steps()
	s.must("move again", s.move(from))
	if n := s.Steps() - before; n != 0 {
		s.Errorf("move again made %d changes", n)
	}
	s.must("reduce", s.reduce(owner, from))
	s.clean(s.Disks()[0])
	_, err := s.resize("moved", 44, 0)
	s.must("resize", err)
	s.must("delete", s.delete("moved"))
}

func moveSurvives(s *suite) {
	var from *agentv1.DeviceIdentity
	s.survives(func() func() error {
		from = s.spread(24)
		return func() error { return s.move(from) }
	}, func() {
		if n := s.allocated(s.Disks()[0]); n != 0 || s.group().GetMovingBytes() != 0 || s.listed("moved").GetHealth() != "" {
			s.Errorf("after the move: %d bytes are left, %v", n, s.group())
		}
	})
}
