package conformance

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// Kernel is what a Node's kernel does with the devices of logical volumes.
type Kernel interface {
	// Activates says whether logical volumes get devices.
	Activates() bool
	// Deactivate takes the devices of the volumes and pools of a group away, as a reboot does.
	Deactivate(t *testing.T, group string)
	// Autoactivate makes a group one of which the host activates everything at a boot, as older agents and other tools make them. ActivateAll
	// does what the host does then.
	Autoactivate(t *testing.T, group string)
	ActivateAll(t *testing.T)
	// DamagePool does so too, and spoils the beginning of the metadata of its thin pools.
	DamagePool(t *testing.T, group string)
	// RuinPool does so too, and leaves nothing of it that could be repaired.
	RuinPool(t *testing.T, group string)
	// OpenVolume has the device of an active volume open until it is closed.
	OpenVolume(t *testing.T, group, name string) (closeIt func())
	// SuspendVolume leaves the device of an active volume suspended, as a command does that is killed while it changes the device. Suspended
	// reports whether it is.
	SuspendVolume(t *testing.T, group, name string)
	Suspended(t *testing.T, group, name string) bool
	// WriteVolume writes a text all over a linear volume. Reads reports whether the text is anywhere in one.
	WriteVolume(t *testing.T, group, name, text string)
	Reads(t *testing.T, group, name, text string) bool
}

// others is what a user of a volume leaves on the disks.
const others = "written by another tenant. "

// leave makes a volume, writes all over it, and removes it.
func (s *suite) leave(size int64) {
	s.Helper()
	_, err := s.create(volumeSpec("other", size))
	s.must("create", err)
	s.WriteVolume(s.T, groupName, "other", others)
	s.must("delete", s.delete("other"))
}

// patient repeats a call that is told to come again while something is zeroed.
func patient(call func() error) error {
	var err error
	for range 3 {
		if err = call(); status.Code(err) != codes.Aborted {
			break
		}
	}
	return err
}

// makeZeroed makes the volume "v1" of 20 MiB, which shows nothing of others.
func (s *suite) makeZeroed() error {
	req := volumeSpec("v1", 20)
	req.Zeroing = agentv1.Zeroing_ZEROING_ALL
	return patient(func() error { _, err := s.create(req); return err })
}

// growZeroed makes the volume "v1" larger, by what shows nothing of others.
func (s *suite) growZeroed(size int64, zeroing agentv1.Zeroing) error {
	return patient(func() error {
		_, err := s.volumes().ResizeLogicalVolume(s.ctx(), &agentv1.ResizeLogicalVolumeRequest{
			Group: groupName, OwnerUid: owner, Name: "v1", Id: "node/v1", SizeBytes: size * mib, Zeroing: zeroing,
		})
		return err
	})
}

// reads wants a text to be in a volume, or not to be.
func (s *suite) reads(name string, want bool) {
	s.Helper()
	if got := s.Reads(s.T, groupName, name, others); got != want {
		s.Errorf("volume %s shows what another wrote: %t, want %t", name, got, want)
	}
}

// nobodyReadsOthers: a volume stands where others were, and grows over more of that while it is open. What was not zeroed shows it, so the
// test would see it.
func nobodyReadsOthers(s *suite) {
	s.stage()
	s.leave(60)
	s.must("create", s.makeZeroed())
	_, err := s.create(volumeSpec("plain", 20))
	s.must("create", err)
	s.reads("plain", true)
	s.reads("v1", false)
	s.must("delete", s.delete("plain"))
	free := s.group().GetFreeBytes()
	closeIt := s.OpenVolume(s.T, groupName, "v1")
	s.must("grow while it is open", s.growZeroed(30, agentv1.Zeroing_ZEROING_ALL))
	s.must("grow what may be shown raw", s.growZeroed(36, agentv1.Zeroing_ZEROING_RAW))
	closeIt()
	s.reads("v1", false)
	g := s.group()
	if v := s.listed("v1"); v.GetSizeBytes() != 36*mib || g.GetFreeBytes() != free-16*mib || len(g.GetLogicalVolumes()) != 1 {
		s.Errorf("grown to %v in %v", v, g)
	}
	filesystem := volumeSpec("fs", 8)
	filesystem.Zeroing = agentv1.Zeroing_ZEROING_RAW
	before := s.Commands()
	_, err = s.create(filesystem)
	s.must("create for a filesystem", err)
	if n := s.Commands() - before; n != 1 {
		s.Errorf("create for a filesystem ran %d commands, not 1", n)
	}
	s.reads("fs", true)
}

// zeroingGoesWithVolume: a volume is removed whatever is being done to it. Nothing of it is left.
func zeroingGoesWithVolume(s *suite) {
	s.stage()
	free := s.group().GetFreeBytes()
	s.must("create", s.makeZeroed())
	s.Crash(2, false)
	if s.growZeroed(36, agentv1.Zeroing_ZEROING_ALL) == nil {
		s.Errorf("the volume grew without zeroes")
	}
	s.Crash(0, false)
	if v := s.listedAfterRestart("v1"); v.GetSizeBytes() != 20*mib {
		s.Errorf("before it is zeroed: %v", v)
	}
	s.must("delete", patient(func() error { return s.delete("v1") }))
	if g := s.group(); g.GetFreeBytes() != free || len(g.GetLogicalVolumes()) != 0 {
		s.Errorf("after the delete: %v, %d bytes were free before", g, free)
	}
}

func (s *suite) listedAfterRestart(name string) *agentv1.LogicalVolume {
	s.Helper()
	s.Restart(s.T)
	return s.listed(name)
}

// zeroingSurvives: whenever the agent dies, what is shown in the end shows nothing of others.
func zeroingSurvives(s *suite) {
	if !s.Activates() {
		s.Skip("this kernel has no device-mapper, so nothing can be activated; make conformance runs it on one that has")
	}
	s.zeroes(func() func() error {
		s.stage()
		s.leave(40)
		return func() error { return s.makeZeroed() }
	}, func() { s.reads("v1", false) })
	s.zeroes(func() func() error {
		s.stage()
		s.leave(60)
		s.must("create", s.makeZeroed())
		return func() error { return s.growZeroed(40, agentv1.Zeroing_ZEROING_ALL) }
	}, func() {
		s.reads("v1", false)
		if g := s.group(); s.listed("v1").GetSizeBytes() != 40*mib || g.GetSizeBytes()-g.GetFreeBytes() != 40*mib {
			s.Errorf("grown to %v in %v", s.listed("v1"), g)
		}
	})
}

// discardingSurvives: whenever the agent dies, a volume that is to be discarded is gone in the end, and the one beside it holds what it held.
func discardingSurvives(s *suite) {
	if !s.Activates() {
		s.Skip("this kernel has no device-mapper, so nothing can be activated; make conformance runs it on one that has")
	}
	steps := s.deaths(true, func() func() error {
		s.stage()
		for _, name := range []string{"v1", "beside"} {
			_, err := s.create(volumeSpec(name, 20))
			s.must("create", err)
			s.WriteVolume(s.T, groupName, name, others)
		}
		return s.discard
	}, func() {
		s.reads("beside", true)
		if g := s.group(); len(g.GetLogicalVolumes()) != 1 || g.GetSizeBytes()-g.GetFreeBytes() != 20*mib {
			s.Errorf("left in the group: %v", g)
		}
	})
	if steps < 3 {
		s.Errorf("the call has %d steps: to mark, to discard and to remove are three", steps)
	}
}

// discard removes the volume "v1", which is discarded before.
func (s *suite) discard() error {
	return patient(func() error {
		_, err := s.volumes().DeleteLogicalVolume(s.ctx(), &agentv1.DeleteLogicalVolumeRequest{
			Group: groupName, OwnerUid: owner, Name: "v1", Id: "node/v1", Discard: true,
		})
		return err
	})
}

// removalIsRemembered: an agent that dies before it discards leaves a volume that is good for nothing but its removal.
func removalIsRemembered(s *suite) {
	if !s.Activates() {
		s.Skip("this kernel has no device-mapper, so nothing can be activated; make conformance runs it on one that has")
	}
	s.stage()
	_, err := s.create(volumeSpec("v1", 20))
	s.must("create", err)
	s.Crash(1, true)
	if s.discard() == nil {
		s.Errorf("the volume is removed before anything says that its removal began")
	}
	s.Crash(0, false)
	s.Restart(s.T)
	before := s.Steps()
	s.refused("grow", s.growZeroed(40, agentv1.Zeroing_ZEROING_UNSPECIFIED), codes.FailedPrecondition, before)
	_, err = s.create(volumeSpec("v1", 20))
	s.refused("create", err, codes.FailedPrecondition, before)
	s.must("delete", s.discard())
	if g := s.group(); len(g.GetLogicalVolumes()) != 0 {
		s.Errorf("left in the group: %v", g)
	}
}

// zeroes is survives for what goes on behind a call: after the last step of that, a call need not learn of a death.
func (s *suite) zeroes(prepare func() func() error, check func()) {
	s.Helper()
	if steps := s.deaths(false, prepare, check); steps < 3 {
		s.Errorf("the call has %d steps: to make, to zero and to write that down are three", steps)
	}
}

// unzeroedSpec asks for a volume that is never shown raw: what it holds may have been there before it was made.
func unzeroedSpec(name string, size int64) *agentv1.CreateLogicalVolumeRequest {
	req := volumeSpec(name, size)
	req.Zeroing = agentv1.Zeroing_ZEROING_RAW
	return req
}
