package conformance

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

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

// Settling is a node whose volumes can be used as by a pod.
type Settling interface {
	Activating
	// Settle records that a new volume is used.
	Settle(t *testing.T, group, name string) error
}

// Halves runs what a node does with a disk that comes back alone, and tells of a group as it was before another disk of it was changed. It is no part of
// Run: all disks of the model know the newest state of a group.
func Halves(t *testing.T, node Settling) {
	run(t, node, []behaviour{
		{"a disk that comes back alone is not taken for all of its group", func(s *suite) { halvesDoNotPart(s, node) }},
		{"a disk that was forgotten and comes back alone has nothing forgotten", forgottenComesBackAlone},
	})
}

// apart makes a group of two disks, of which the second has the volume "there" and the first "here1" and "here2", and takes the first away.
func (s *suite) apart() {
	s.Helper()
	if !s.Activates() {
		s.Skip("this kernel has no device-mapper, so nothing can be activated; make conformance runs it on one that has")
	}
	a, b := s.clean(s.Disks()[0]), s.clean(s.Disks()[1])
	s.must("ensure", s.ensure(groupName, owner, a))
	for _, name := range []string{"here1", "here2"} {
		_, err := s.create(volumeSpec(name, 8))
		s.must("create", err)
	}
	s.must("ensure", s.ensure(groupName, owner, a, b))
	for _, pv := range s.group().GetPhysicalVolumes() {
		if pv.GetPath() == b.GetPath() {
			// The first disk has no room for it.
			_, err := s.create(volumeSpec("there", pv.GetFreeBytes()/mib-4))
			s.must("create", err)
		}
	}
	s.detach(a.GetPath())
}

// alone takes the second disk away and brings the first one back, and waits until the agent says that it does not know what is in the group.
func (s *suite) alone() {
	s.Helper()
	s.Detach(s.T, s.Disks()[1])
	s.Attach(s.T, s.Disks()[0])
	for deadline := time.Now().Add(settleTimeout); ; time.Sleep(settlePause) {
		resp, err := s.groups().ListVolumeGroups(s.ctx(), &agentv1.ListVolumeGroupsRequest{})
		if status.Code(err) == codes.Unavailable && strings.Contains(err.Error(), "a disk that is away knows what was changed since") {
			break
		}
		if time.Now().After(deadline) {
			s.Fatalf("the groups are %v, %v", resp.GetGroups(), err)
		}
	}
	if d := s.device(s.Disks()[0]); !refusedFor(d, refusal.Unreadable) {
		s.Errorf("the disk is not refused: %v", d)
	}
}

// together brings the second disk back, and waits until the group is there and lacks none.
func (s *suite) together() {
	s.Helper()
	s.Attach(s.T, s.Disks()[1])
	for deadline := time.Now().Add(settleTimeout); ; time.Sleep(settlePause) {
		resp, err := s.groups().ListVolumeGroups(s.ctx(), &agentv1.ListVolumeGroupsRequest{})
		if err == nil && len(resp.GetGroups()) == 1 && !resp.GetGroups()[0].GetPartial() {
			return
		}
		if time.Now().After(deadline) {
			s.Fatalf("both disks are back, and the groups are %v, %v", resp.GetGroups(), err)
		}
	}
}

// halvesDoNotPart: a volume on the second disk is used for the first time while the first disk is away. To that one the volume is new, and would be formatted.
func halvesDoNotPart(s *suite, node Settling) {
	s.apart()
	s.must("settle", node.Settle(s.T, groupName, "there"))
	s.alone()
	for range 2 {
		before := s.Steps()
		for _, name := range []string{"here1", "there", "never"} {
			s.refused("delete "+name, s.delete(name), codes.Unavailable, before)
		}
		s.refused("delete what is unused", s.deleteIf("there", true), codes.Unavailable, before)
		_, err := s.create(volumeSpec("more", 4))
		s.refused("create", err, codes.Unavailable, before)
		_, err = s.resize("here1", 12, 0)
		s.refused("resize", err, codes.Unavailable, before)
		if node.Activate(s.T, groupName, "here1") == nil || node.Settle(s.T, groupName, "here1") == nil || s.Steps() != before {
			s.Errorf("a volume is used, or %d changes were made", s.Steps()-before)
		}
		// An agent that starts anew knows the same.
		s.Restart(s.T)
	}
	s.together()
	if s.listed("there") == nil || s.listed("there").GetUnused() || s.listed("here1") == nil {
		s.Errorf("both disks are back: %v, %v", s.listed("there"), s.listed("here1"))
	}
	s.must("delete", s.delete("here1"))
}

// forgottenComesBackAlone: the group goes on without its first disk. That one comes back alone, and would have the second one, with all that was made there
// since, forgotten.
func forgottenComesBackAlone(s *suite) {
	s.apart()
	for _, name := range []string{"here1", "here2", "there"} {
		s.must("delete "+name, s.delete(name))
	}
	var second string
	for _, pv := range s.group().GetPhysicalVolumes() {
		if pv.GetPath() != "" {
			second = pv.GetUuid()
		}
	}
	s.must("forget", s.forget(s.missing()))
	_, err := s.create(volumeSpec("since", 8))
	s.must("create", err)
	s.alone()
	before := s.Steps()
	s.refused("forget the other half", s.forget([]string{second}), codes.Unavailable, before)
	s.refused("remove the group", s.remove(groupName, owner), codes.Unavailable, before)
	s.together()
	s.holds(s.Disks()[1])
	if s.listed("since") == nil {
		s.Error("what was made meanwhile is not there")
	}
	s.Detach(s.T, s.Disks()[0])
	s.must("delete", s.delete("since"))
}
