package conformance

import (
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// suspendedIsResumed: a command was killed while it changed the device of a volume, and every reader and writer of that waits. No call says
// that all is well before that has ended, and an agent that starts ends it by itself.
func suspendedIsResumed(s *suite) {
	s.stage()
	s.pool()
	thin := volumeSpec("thin", 8)
	thin.ThinPool = poolName
	snapshot := volumeSpec("snap", 8)
	snapshot.Source, snapshot.Snapshot = "thin", true
	call := func(what, name string, call func() error) {
		s.Helper()
		s.must(what, call())
		if s.Suspended(s.T, groupName, name) {
			s.Errorf("%s: %s is suspended after it", what, name)
		}
	}
	create := func(name string) func() error {
		return func() error {
			req := volumeSpec(name, 8)
			switch name {
			case "thin":
				req = thin
			case "snap":
				req = snapshot
			}
			_, err := s.create(req)
			return err
		}
	}
	s.must("create", create("linear")())
	s.must("create", create("thin")())
	for _, name := range []string{"linear", "thin"} {
		s.SuspendVolume(s.T, groupName, name)
		call("create "+name+" again", name, create(name))
		s.SuspendVolume(s.T, groupName, name)
		call("resize "+name+" to what it is", name, func() error { _, err := s.resize(name, 8, 0); return err })
		s.SuspendVolume(s.T, groupName, name)
		call("resize "+name, name, func() error { _, err := s.resize(name, 16, 0); return err })
	}
	thin.SizeBytes = 16 * mib
	snapshot.SizeBytes = 16 * mib
	s.SuspendVolume(s.T, groupName, "thin")
	call("snapshot", "thin", create("snap"))
	s.SuspendVolume(s.T, groupName, "thin")
	call("snapshot again", "thin", create("snap"))
	s.SuspendVolume(s.T, groupName, "linear")
	s.Restart(s.T)
	for deadline := time.Now().Add(settleTimeout); s.Suspended(s.T, groupName, "linear"); time.Sleep(settlePause) {
		if time.Now().After(deadline) {
			s.Fatal("linear is still suspended after the agent's start")
		}
	}
	s.SuspendVolume(s.T, groupName, "linear")
	s.must("delete", s.delete("linear"))
}

// thin makes a thin volume of a few extents.
func (s *suite) thin(name string) error {
	req := volumeSpec(name, 8)
	req.ThinPool = poolName
	_, err := s.create(req)
	return err
}

// inactivePool: only the kernel knows how full a pool is, and only of an active one. Nothing is put into a pool meanwhile. An agent that starts
// activates it; one that saw it active leaves it to whoever deactivated it.
func inactivePool(s *suite) {
	s.stage()
	s.pool()
	s.must("create", s.thin("t1"))
	seen := func() *agentv1.ThinPool {
		s.Helper()
		resp, err := s.volumes().ListLogicalVolumes(s.ctx(), &agentv1.ListLogicalVolumesRequest{Group: groupName})
		s.must("list", err)
		return resp.GetPools()[0]
	}
	if p := seen(); p.GetUsageUnknown() {
		s.Errorf("an active pool: %v", p)
	}
	activated := func() {
		s.Helper()
		s.Restart(s.T)
		for deadline := time.Now().Add(settleTimeout); seen().GetUsageUnknown(); time.Sleep(settlePause) {
			if time.Now().After(deadline) {
				s.Fatalf("after the agent's start: %v", seen())
			}
		}
	}
	// The agent that made the pool may not have looked at it yet. This one has: it activated it.
	s.Deactivate(s.T, groupName)
	activated()
	s.Deactivate(s.T, groupName)
	if p := seen(); !p.GetUsageUnknown() {
		s.Errorf("an inactive pool: %v", p)
	}
	before := s.Steps()
	s.refused("create in it", s.thin("t2"), codes.Unavailable, before)
	activated()
	s.must("create in it", s.thin("t2"))
}

// damagedPool: the metadata of a pool with a volume in it begins with zeroes. Whoever activated it would have the kernel make empty metadata, and
// new volumes would be written over the old one. The pool stays inactive, and is shown as damaged, until somebody asks for the repair of what is
// shown.
func damagedPool(s *suite) {
	s.stage()
	s.pool()
	s.must("create", s.thin("t1"))
	s.WriteVolume(s.T, groupName, "t1", "what a user wrote") // thin_repair does not find a volume in which nothing was written.
	s.DamagePool(s.T, groupName)
	s.Restart(s.T)
	pool := s.damaged()
	before := s.Steps()
	s.refused("create in it", s.thin("t2"), codes.FailedPrecondition, before)
	s.refused("delete from it", s.delete("t1"), codes.FailedPrecondition, before)
	s.refused("grow it", lastError(s.poolOf(2*poolSize)), codes.FailedPrecondition, before)
	s.refused("repair another", lastError(s.repair("v1:another")), codes.FailedPrecondition, before)

	repaired, err := s.repair(pool.GetRepairDigest())
	s.must("repair", err)
	if repaired.GetDamage() != "" || repaired.GetUsageUnknown() || repaired.GetRepairDigest() != "" || len(repaired.GetKeptMetadata()) != 1 {
		s.Errorf("after the repair: %v", repaired)
	}
	before = s.Steps()
	_, err = s.repair(pool.GetRepairDigest())
	if s.must("repair it again", err); s.Steps() != before {
		s.Error("a pool that is not damaged was repaired")
	}
	s.must("create in it", s.thin("t2"))
	s.must("delete from it", s.delete("t1"))
}

// ruinedPool: a repair that does not find what LVM recorded changes nothing, and the pool stays as it is.
func ruinedPool(s *suite) {
	s.stage()
	s.pool()
	s.must("create", s.thin("t1"))
	s.RuinPool(s.T, groupName)
	s.Restart(s.T)
	pool := s.damaged()
	if _, err := s.repair(pool.GetRepairDigest()); status.Code(err) != codes.FailedPrecondition {
		s.Errorf("repair: %v", err)
	}
	if after := s.damaged(); len(after.GetKeptMetadata()) != 0 || after.GetRepairDigest() != pool.GetRepairDigest() {
		s.Errorf("after the repair: %v", after)
	}
}

func lastError(_ *agentv1.ThinPool, err error) error { return err }

func (s *suite) repair(digest string) (*agentv1.ThinPool, error) {
	resp, err := s.volumes().RepairThinPool(s.ctx(), &agentv1.RepairThinPoolRequest{Group: groupName, OwnerUid: owner, Name: poolName, RepairDigest: digest})
	return resp.GetPool(), err
}

// damaged waits until the pool of the group is shown as damaged, with the one volume in it.
func (s *suite) damaged() *agentv1.ThinPool {
	s.Helper()
	var pool *agentv1.ThinPool
	for deadline := time.Now().Add(settleTimeout); pool.GetDamage() == ""; time.Sleep(settlePause) {
		if time.Now().After(deadline) {
			s.Fatalf("after the agent's start: %v", pool)
		}
		resp, err := s.volumes().ListLogicalVolumes(s.ctx(), &agentv1.ListLogicalVolumesRequest{Group: groupName})
		s.must("list", err)
		pool = resp.GetPools()[0]
		if pool.GetDamage() != "" && !strings.Contains(resp.GetVolumes()[0].GetHealth(), "is damaged: ") {
			s.Errorf("the volume in it: %v", resp.GetVolumes()[0])
		}
	}
	if !pool.GetUsageUnknown() || len(pool.GetDamagedVolumes()) != 1 || pool.GetRepairDigest() == "" {
		s.Errorf("it was activated, or cannot be repaired: %v", pool)
	}
	return pool
}
