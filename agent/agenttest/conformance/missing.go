package conformance

import (
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// detach takes a disk of the group away, and waits until the group is seen without it.
func (s *suite) detach(path string) {
	s.Helper()
	s.Detach(s.T, path)
	for deadline := time.Now().Add(settleTimeout); !s.group().GetPartial(); time.Sleep(settlePause) {
		if time.Now().After(deadline) {
			s.Fatalf("group is not partial: %v", s.group())
		}
	}
}

// attach brings a disk back, and waits until it is seen with the group that it tells of.
func (s *suite) attach(path string) {
	s.Helper()
	s.Attach(s.T, path)
	for deadline := time.Now().Add(settleTimeout); ; time.Sleep(settlePause) {
		for _, pv := range s.group().GetPhysicalVolumes() {
			if pv.GetPath() == path {
				return
			}
		}
		if time.Now().After(deadline) {
			s.Fatalf("%s is not in the group: %v", path, s.group())
		}
	}
}

// removeWithoutDisk: a disk of an empty group is gone. The group goes without it, and the answer tells which one was left behind. When
// it comes back, it tells of the group as it was, and the same call makes it clean.
func removeWithoutDisk(s *suite) {
	a, b := s.clean(s.Disks()[0]), s.clean(s.Disks()[1])
	s.must("ensure", s.ensure(groupName, owner, a, b))
	s.detach(b.GetPath())
	resp, err := s.groups().RemoveVolumeGroup(s.ctx(), &agentv1.RemoveVolumeGroupRequest{
		Name: groupName, OwnerUid: owner, Devices: []*agentv1.DeviceIdentity{a, b},
	})
	s.must("remove", err)
	if n := resp.GetNotes(); len(n) != 1 || !strings.Contains(n[0], b.GetPath()) || !strings.Contains(n[0], "left behind") {
		s.Errorf("notes: %q", n)
	}
	if g := s.group(); g != nil {
		s.Errorf("group is still there: %v", g)
	}
	s.clean(a.GetPath())
	before := s.Steps()
	s.must("remove again", s.remove(groupName, owner, a))
	if n := s.Steps() - before; n != 0 {
		s.Errorf("remove again made %d changes", n)
	}
	s.attach(b.GetPath())
	s.must("remove what came back", s.remove(groupName, owner))
	if g := s.group(); g != nil {
		s.Errorf("group is still there: %v", g)
	}
	s.clean(b.GetPath())
}

// removeRefusesMissingVolume: the disk that is gone holds a volume, or the one that is there does. Nothing is changed.
func removeRefusesMissingVolume(s *suite) {
	a, b := s.clean(s.Disks()[0]), s.clean(s.Disks()[1])
	s.must("ensure", s.ensure(groupName, owner, a, b))
	for _, on := range []string{a.GetPath(), b.GetPath()} {
		s.AddVolume(s.T, groupName, "precious", on)
		s.detach(b.GetPath())
		before := s.Steps()
		err := s.remove(groupName, owner, a, b)
		s.refused("remove", err, codes.FailedPrecondition, before)
		if err != nil && !strings.Contains(err.Error(), "precious") {
			s.Errorf("the message does not name the volume: %v", err)
		}
		s.attach(b.GetPath())
		s.holds(a.GetPath(), b.GetPath())
		s.RemoveVolume(s.T, groupName, "precious")
	}
	s.must("remove", s.remove(groupName, owner, a, b))
	s.clean(b.GetPath())
}

func removeWithoutDiskSurvives(s *suite) {
	paths := s.Disks()[:2]
	s.survives(func() func() error {
		a, b := s.clean(paths[0]), s.clean(paths[1])
		s.must("ensure", s.ensure(groupName, owner, a, b))
		s.detach(paths[1])
		return func() error { return s.remove(groupName, owner, a) }
	}, func() {
		if g := s.group(); g != nil {
			s.Errorf("group is still there: %v", g)
		}
		s.clean(paths[0])
		s.attach(paths[1])
		s.must("remove what came back", s.remove(groupName, owner))
		s.clean(paths[1])
	})
}

// lopsided makes the group such that "beside" is on the first disk, and "lost" needs the second one too, which is taken away then.
func (s *suite) lopsided() {
	s.Helper()
	if !s.Activates() {
		s.Skip("this kernel has no device-mapper, so nothing can be activated; make conformance runs it on one that has")
	}
	a, b := s.clean(s.Disks()[0]), s.clean(s.Disks()[1])
	s.must("ensure", s.ensure(groupName, owner, a))
	_, err := s.create(volumeSpec("beside", 8))
	s.must("create", err)
	s.must("ensure", s.ensure(groupName, owner, a, b))
	_, err = s.create(volumeSpec("lost", s.group().GetFreeBytes()/mib-16))
	s.must("create", err)
	s.detach(b.GetPath())
}

// whole waits until the group has all that is its own, and LVM changes it again.
func (s *suite) whole() {
	s.Helper()
	for deadline := time.Now().Add(settleTimeout); s.group().GetPartial(); time.Sleep(settlePause) {
		if time.Now().After(deadline) {
			s.Fatalf("group stays partial: %v", s.group())
		}
	}
}

// deadDiskLeavesOthers: a disk is gone. What has no extents on it works, and goes; LVM makes nothing until the disk is back. Then the agent
// takes the disk back, even if the group was changed without it.
func deadDiskLeavesOthers(s *suite) {
	s.lopsided()
	if got := s.group().GetPartialVolumes(); len(got) != 1 || got[0] != "lost" {
		s.Errorf("volumes that lack a part: %q", got)
	}
	if lost, beside := s.listed("lost").GetHealth(), s.listed("beside").GetHealth(); lost != "partial" || beside != "" {
		s.Errorf("health: lost %q, beside %q", lost, beside)
	}
	before := s.Steps()
	_, err := s.create(volumeSpec("more", 4))
	s.refused("create", err, codes.FailedPrecondition, before)
	_, err = s.resize("beside", 12, 0)
	s.refused("resize", err, codes.FailedPrecondition, before)
	s.must("delete what has nothing on it", s.delete("beside"))
	s.attach(s.Disks()[1])
	s.whole()
	// It leads to where the disk was until the agent has mapped it anew, by itself and a moment later.
	for deadline := time.Now().Add(settleTimeout); s.listed("lost").GetHealth() != "" && time.Now().Before(deadline); {
		time.Sleep(settlePause)
	}
	if got := s.group().GetPartialVolumes(); len(got) > 0 || s.listed("lost").GetHealth() != "" {
		s.Errorf("after the disk is back: volumes that lack a part: %q, %v", got, s.listed("lost"))
	}
	_, err = s.create(volumeSpec("more", 4))
	s.must("create after the disk is back", err)
	s.detach(s.Disks()[1])
	s.must("delete what lacks a part", s.delete("lost"))
	s.attach(s.Disks()[1])
	s.whole()
	s.must("delete", s.delete("more"))
}
