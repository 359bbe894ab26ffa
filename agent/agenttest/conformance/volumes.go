package conformance

import (
	"fmt"

	"google.golang.org/grpc/codes"

	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// Volumes of the suite, in MiB; they fit on one of the smallest disks.
const (
	mib      = 1 << 20
	poolName = "pool"
	poolSize = 64
)

func (s *suite) volumes() agentv1.LogicalVolumeServiceClient {
	return agentv1.NewLogicalVolumeServiceClient(s.Conn(s.T))
}

// stage makes the group on both disks. The behaviours of volumes need a kernel that makes devices of them.
func (s *suite) stage() {
	s.Helper()
	if !s.Activates() {
		s.Skip("this kernel has no device-mapper, so nothing can be activated; make conformance runs it on one that has")
	}
	s.must("ensure", s.ensure(groupName, owner, s.clean(s.Disks()[0]), s.clean(s.Disks()[1])))
}

// volumeSpec asks for a volume of that name.
func volumeSpec(name string, size int64) *agentv1.CreateLogicalVolumeRequest {
	return &agentv1.CreateLogicalVolumeRequest{Group: groupName, OwnerUid: owner, Name: name, Id: "node/" + name, SizeBytes: size * mib}
}

func (s *suite) create(req *agentv1.CreateLogicalVolumeRequest) (*agentv1.LogicalVolume, error) {
	resp, err := s.volumes().CreateLogicalVolume(s.ctx(), req)
	return resp.GetVolume(), err
}

func (s *suite) delete(name string) error { return s.deleteIf(name, false) }

func (s *suite) deleteIf(name string, unused bool) error {
	_, err := s.volumes().DeleteLogicalVolume(s.ctx(), &agentv1.DeleteLogicalVolumeRequest{
		Group: groupName, OwnerUid: owner, Name: name, Id: "node/" + name, OnlyUnused: unused,
	})
	return err
}

func (s *suite) resize(name string, size int64, percent int32) (*agentv1.LogicalVolume, error) {
	resp, err := s.volumes().ResizeLogicalVolume(s.ctx(), &agentv1.ResizeLogicalVolumeRequest{
		Group: groupName, OwnerUid: owner, Name: name, Id: "node/" + name, SizeBytes: size * mib, OverprovisionPercent: percent,
	})
	return resp.GetVolume(), err
}

func (s *suite) pool() *agentv1.ThinPool {
	s.Helper()
	p, err := s.poolOf(poolSize)
	s.must("ensure the pool", err)
	return p
}

// poolOf makes or grows the pool to a size in MiB.
func (s *suite) poolOf(size int64) (*agentv1.ThinPool, error) {
	resp, err := s.volumes().EnsureThinPool(s.ctx(), &agentv1.EnsureThinPoolRequest{
		Group: groupName, OwnerUid: owner, Name: poolName, SizeBytes: size * mib,
	})
	return resp.GetPool(), err
}

// listed is a volume as it is seen now; nil when there is none.
func (s *suite) listed(name string) *agentv1.LogicalVolume {
	s.Helper()
	resp, err := s.volumes().ListLogicalVolumes(s.ctx(), &agentv1.ListLogicalVolumesRequest{Group: groupName})
	s.must("list", err)
	for _, v := range resp.GetVolumes() {
		if v.GetName() == name {
			return v
		}
	}
	return nil
}

func createMakesVolume(s *suite) {
	s.stage()
	free := s.group().GetFreeBytes()
	before := s.Commands()
	v, err := s.create(volumeSpec("v1", 19))
	s.must("create", err)
	if n := s.Commands() - before; n != 1 {
		s.Errorf("create ran %d commands, not 1", n)
	}
	seen := s.listed("v1")
	if v.GetSizeBytes() != 20*mib || seen.GetSizeBytes() != v.GetSizeBytes() || seen.GetId() != "node/v1" || !seen.GetActive() || seen.GetOpen() ||
		seen.GetUuid() == "" || seen.GetHealth() != "" || seen.GetCreatedUnixSeconds() == 0 {
		s.Errorf("made %v, listed %v", v, seen)
	}
	if g := s.group(); g.GetFreeBytes() != free-20*mib || len(g.GetLogicalVolumes()) != 1 {
		s.Errorf("group: %v, %d bytes were free before", g, free)
	}
	createAgain(s)
	s.must("delete", s.delete("v1"))
	s.must("delete again", s.delete("v1"))
	if g := s.group(); s.listed("v1") != nil || g.GetFreeBytes() != free {
		s.Errorf("after the delete: %v", g)
	}
}

// createAgain finds what is there.
func createAgain(s *suite) {
	steps, before := s.Steps(), s.Commands()
	_, err := s.create(volumeSpec("v1", 19))
	s.must("create again", err)
	if made, ran := s.Steps()-steps, s.Commands()-before; made != 0 || ran > 2 {
		s.Errorf("create again made %d changes with %d commands", made, ran)
	}
}

func createRefuses(s *suite) {
	s.stage()
	_, err := s.create(volumeSpec("v1", 20))
	s.must("create", err)
	for name, tt := range map[string]struct {
		edit func(*agentv1.CreateLogicalVolumeRequest)
		want codes.Code
	}{
		"size 0":                  {func(r *agentv1.CreateLogicalVolumeRequest) { r.SizeBytes = 0 }, codes.InvalidArgument},
		"a negative size":         {func(r *agentv1.CreateLogicalVolumeRequest) { r.SizeBytes = -1 }, codes.InvalidArgument},
		"no name":                 {func(r *agentv1.CreateLogicalVolumeRequest) { r.Name = "" }, codes.InvalidArgument},
		"an option as a name":     {func(r *agentv1.CreateLogicalVolumeRequest) { r.Name = "--force" }, codes.InvalidArgument},
		"a path as a name":        {func(r *agentv1.CreateLogicalVolumeRequest) { r.Name = "../v" }, codes.InvalidArgument},
		"a name of LVM's own":     {func(r *agentv1.CreateLogicalVolumeRequest) { r.Name = "v_tdata" }, codes.InvalidArgument},
		"a quote in the id":       {func(r *agentv1.CreateLogicalVolumeRequest) { r.Id = `x"} || lv_name!={"` }, codes.InvalidArgument},
		"an option as a group":    {func(r *agentv1.CreateLogicalVolumeRequest) { r.Group = "-y" }, codes.InvalidArgument},
		"an option as a pool":     {func(r *agentv1.CreateLogicalVolumeRequest) { r.ThinPool = "-y" }, codes.InvalidArgument},
		"a snapshot of nothing":   {func(r *agentv1.CreateLogicalVolumeRequest) { r.Snapshot = true }, codes.InvalidArgument},
		"more than there is room": {func(r *agentv1.CreateLogicalVolumeRequest) { r.SizeBytes = 1 << 60 }, codes.ResourceExhausted},
		"what cannot be counted":  {func(r *agentv1.CreateLogicalVolumeRequest) { r.SizeBytes = 1<<63 - 1 }, codes.ResourceExhausted},
		"another owner":           {func(r *agentv1.CreateLogicalVolumeRequest) { r.OwnerUid = stranger }, codes.PermissionDenied},
		"another group":           {func(r *agentv1.CreateLogicalVolumeRequest) { r.Group = otherName }, codes.NotFound},
		"another pool":            {func(r *agentv1.CreateLogicalVolumeRequest) { r.ThinPool = "x" }, codes.NotFound},
		"a source that is linear": {func(r *agentv1.CreateLogicalVolumeRequest) { r.Source = "v1" }, codes.FailedPrecondition},
		"a name with another id":  {func(r *agentv1.CreateLogicalVolumeRequest) { r.Name = "v1" }, codes.AlreadyExists},
	} {
		req := volumeSpec("v2", 20)
		tt.edit(req)
		before := s.Steps()
		_, err := s.create(req)
		s.refused(name, err, tt.want, before)
	}
	other := volumeSpec("v1", 24)
	before := s.Steps()
	_, err = s.create(other)
	s.refused("another size", err, codes.AlreadyExists, before)
}

func deleteRefuses(s *suite) {
	s.stage()
	_, err := s.create(unzeroedSpec("v1", 20))
	s.must("create", err)
	s.AddVolume(s.T, groupName, "v2", s.Disks()[0])
	before := s.Steps()
	s.refused("a volume without an id", s.delete("v2"), codes.PermissionDenied, before)
	_, err = s.volumes().DeleteLogicalVolume(s.ctx(), &agentv1.DeleteLogicalVolumeRequest{
		Group: groupName, OwnerUid: owner, Name: "v1", Id: "node/v9",
	})
	s.refused("a volume of another id", err, codes.PermissionDenied, before)
	closeIt := s.OpenVolume(s.T, groupName, "v1")
	s.refused("a volume that is open", s.delete("v1"), codes.FailedPrecondition, before)
	if v := s.listed("v1"); !v.GetOpen() || !v.GetActive() {
		s.Errorf("while it is open: %v", v)
	}
	closeIt()
	if unused := s.listed("v1").GetUnused(); !unused {
		s.Error("a volume that nobody used yet is not told as such")
	}
	s.must("delete only if unused", s.deleteIf("v1", true))
}

func resizeGrows(s *suite) {
	s.stage()
	_, err := s.create(volumeSpec("v1", 20))
	s.must("create", err)
	closeIt := s.OpenVolume(s.T, groupName, "v1")
	defer closeIt()
	v, err := s.resize("v1", 30, 0)
	s.must("resize while it is open", err)
	if seen := s.listed("v1"); v.GetSizeBytes() != 32*mib || seen.GetSizeBytes() != v.GetSizeBytes() {
		s.Errorf("resized to %v, listed %v", v, seen)
	}
	before := s.Steps()
	for _, size := range []int64{30, 32, 4} {
		if v, err = s.resize("v1", size, 0); err != nil || v.GetSizeBytes() != 32*mib || s.Steps() != before {
			s.Errorf("resize to %d MiB: %v, %v, %d changes", size, v, err, s.Steps()-before)
		}
	}
	_, err = s.resize("v1", 1<<30, 0)
	s.refused("more than there is room", err, codes.ResourceExhausted, before)
	_, err = s.resize("v2", 4, 0)
	s.refused("a volume that is absent", err, codes.NotFound, before)
}

func thinVolumes(s *suite) {
	s.stage()
	if p := s.pool(); p.GetSizeBytes() != poolSize*mib || p.GetVirtualBytes() != 0 {
		s.Errorf("pool: %v", p)
	}
	before := s.Steps()
	s.pool()
	if n := s.Steps() - before; n != 0 {
		s.Errorf("the pool again made %d changes", n)
	}
	thin := func(name string, size int64) *agentv1.CreateLogicalVolumeRequest {
		req := volumeSpec(name, size)
		req.ThinPool, req.OverprovisionPercent = poolName, 200
		return req
	}
	_, err := s.create(thin("t1", 40))
	s.must("create", err)
	snap := thin("s1", 40)
	snap.Source, snap.Snapshot = "t1", true
	_, err = s.create(snap)
	s.must("snapshot", err)
	if v := s.listed("s1"); !v.GetSnapshot() || v.GetActive() || v.GetSource() != "t1" || v.GetThinPool() != poolName {
		s.Errorf("snapshot: %v", v)
	}
	before = s.Steps()
	s.refused("remove only if unused, and it holds a copy", s.deleteIf("s1", true), codes.FailedPrecondition, before)
	restored := thin("r1", 44)
	restored.Source = "s1"
	v, err := s.create(restored)
	s.must("restore", err)
	if seen := s.listed("r1"); v.GetSizeBytes() != 44*mib || seen.GetSizeBytes() != 44*mib || !seen.GetActive() || seen.GetSnapshot() {
		s.Errorf("restored %v, listed %v", v, seen)
	}
	before = s.Steps()
	_, err = s.create(thin("t2", 8))
	s.refused("over the limit", err, codes.ResourceExhausted, before)
	_, err = s.resize("t1", 60, 200)
	s.refused("resize over the limit", err, codes.OutOfRange, before)
	s.refused("remove", s.remove(groupName, owner), codes.FailedPrecondition, before)
	for _, name := range []string{"t1", "s1", "r1"} {
		s.must("delete "+name, s.delete(name))
		if v := s.listed("s1"); name == "t1" && v.GetSource() != "t1" {
			s.Errorf("a snapshot forgot its source, which is gone: %v", v)
		}
	}
	s.must("remove the group with its empty pool", s.remove(groupName, owner))
	s.clean(s.Disks()[0])
	s.clean(s.Disks()[1])
}

func volumeCallsSurvive(s *suite) {
	if !s.Activates() {
		s.Skip("this kernel has no device-mapper, so nothing can be activated; make conformance runs it on one that has")
	}
	larger := func() error {
		req := volumeSpec("c1", 48)
		req.Source = "t1"
		_, err := s.create(req)
		return err
	}
	for name, call := range map[string]func() error{
		"create": func() error { _, err := s.create(volumeSpec("v2", 20)); return err },
		"delete": func() error { return s.delete("v1") },
		"resize": func() error { _, err := s.resize("v1", 32, 0); return err },
		"clone":  larger,
		"pool":   func() error { _, err := s.poolOf(2 * poolSize); return err },
	} {
		s.survives(func() func() error {
			s.stage()
			if name == "create" || name == "delete" || name == "resize" {
				_, err := s.create(volumeSpec("v1", 20))
				s.must("create", err)
				return call
			}
			s.pool()
			thin := volumeSpec("t1", 40)
			thin.ThinPool = poolName
			_, err := s.create(thin)
			s.must("create", err)
			return call
		}, func() {
			got := fmt.Sprint(s.listed("v1").GetSizeBytes()/mib, s.listed("v2").GetSizeBytes()/mib, s.listed("c1").GetSizeBytes()/mib)
			want := map[string]string{"create": "20 20 0", "delete": "0 0 0", "resize": "32 0 0", "clone": "0 0 48", "pool": "0 0 0"}[name]
			if got != want {
				s.Errorf("after %s: %s, not %s", name, got, want)
			}
			if name == "pool" {
				// A pool that is large enough needs nothing, and tells how large it is.
				before := s.Steps()
				p, err := s.poolOf(poolSize)
				if s.must("ensure the pool", err); p.GetSizeBytes() != 2*poolSize*mib || s.Steps() != before {
					s.Errorf("after pool: %v", p)
				}
			}
		})
	}
}
