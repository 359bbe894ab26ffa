package conformance

import (
	"time"

	"google.golang.org/grpc/codes"

	"quarry.storage/quarry/pkg/refusal"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// missing are the UUIDs of the physical volumes of the group that no device carries.
func (s *suite) missing() []string {
	s.Helper()
	var out []string
	for _, pv := range s.group().GetPhysicalVolumes() {
		if pv.GetPath() == "" {
			out = append(out, pv.GetUuid())
		}
	}
	return out
}

func (s *suite) forget(pvs []string, volumes ...string) error {
	_, err := s.groups().ForgetMissingDevice(s.ctx(), &agentv1.ForgetMissingDeviceRequest{
		Name: groupName, OwnerUid: owner, PhysicalVolumes: pvs, LogicalVolumes: volumes,
	})
	return err
}

// forgetsDeadDisk: a group goes on without a disk that is gone, and loses exactly what was named. A disk that comes back then is nobody's to
// take.
func forgetsDeadDisk(s *suite) {
	s.lopsided()
	gone, before := s.missing(), s.Steps()
	s.refused("forget another device", s.forget([]string{"another"}), codes.OK, before)
	s.refused("forget without what is lost", s.forget(gone), codes.FailedPrecondition, before)
	s.refused("forget with another volume", s.forget(gone, "beside"), codes.FailedPrecondition, before)
	s.must("forget", s.forget(gone, "lost"))
	if s.group().GetPartial() || s.listed("lost") != nil || s.listed("beside").GetHealth() != "" {
		s.Errorf("after the disk was forgotten: %v", s.group())
	}
	s.holds(s.Disks()[0])
	before = s.Steps()
	s.must("forget again", s.forget(gone, "lost"))
	if n := s.Steps() - before; n != 0 {
		s.Errorf("forget again made %d changes", n)
	}
	_, err := s.create(volumeSpec("more", 4))
	s.must("create", err)
	s.Attach(s.T, s.Disks()[1])
	s.settled(s.Disks()[1], func(d *agentv1.Device) bool { return refusedFor(d, refusal.Unreadable) })
	s.holds(s.Disks()[0])
	_, err = s.resize("more", 8, 0)
	s.must("resize beside a disk that was forgotten", err)
	before = s.Steps()
	s.refused("take it again", s.ensure(groupName, owner, identity(s.device(s.Disks()[1]))), codes.FailedPrecondition, before)
	s.must("delete beside a disk that was forgotten", s.delete("more"))
	if d := s.device(s.Disks()[1]); d.GetPvUuid() == "" {
		s.Errorf("the label of the disk that was forgotten is gone: %v", d)
	}
	s.Detach(s.T, s.Disks()[1])
}

// forgetsEmptyDisk: a call that names no volume forgets a disk with nothing on it, and loses nothing.
func forgetsEmptyDisk(s *suite) {
	a, b := s.clean(s.Disks()[0]), s.clean(s.Disks()[1])
	s.must("ensure", s.ensure(groupName, owner, a, b))
	s.detach(b.GetPath())
	gone := s.missing()
	for _, pv := range s.group().GetPhysicalVolumes() {
		if pv.GetPath() == "" && (pv.GetSizeBytes() == 0 || pv.GetFreeBytes() != pv.GetSizeBytes()) {
			s.Errorf("the missing disk does not show that nothing is on it: %v", pv)
		}
	}
	s.must("forget without a volume", s.forget(gone))
	if g := s.group(); g.GetPartial() || len(g.GetPhysicalVolumes()) != 1 {
		s.Errorf("after the disk was forgotten: %v", g)
	}
	s.Attach(s.T, s.Disks()[1])
	s.settled(s.Disks()[1], func(d *agentv1.Device) bool { return refusedFor(d, refusal.Unreadable) })
	s.Detach(s.T, s.Disks()[1])
}

func forgetSurvives(s *suite) {
	var gone []string
	s.survives(func() func() error {
		s.lopsided()
		gone = s.missing()
		return func() error { return s.forget(gone, "lost") }
	}, func() {
		for deadline := time.Now().Add(settleTimeout); s.group().GetPartial() && time.Now().Before(deadline); {
			time.Sleep(settlePause)
		}
		s.holds(s.Disks()[0])
		if s.listed("lost") != nil || s.listed("beside") == nil {
			s.Errorf("after the disk was forgotten: %v", s.group())
		}
	})
}
