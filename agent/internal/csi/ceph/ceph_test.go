package ceph_test

import (
	"strings"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"quarry.storage/quarry/agent/internal/csi/csitest"
	"quarry.storage/quarry/agent/internal/host/mount"
	"quarry.storage/quarry/pkg/cephname"
	"quarry.storage/quarry/pkg/cephvolume"
)

func TestLife(t *testing.T) {
	for _, mode := range []csipb.VolumeCapability_AccessMode_Mode{
		csipb.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER, csipb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER,
		csipb.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER, csipb.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER,
	} {
		r := newRig(t)
		want := csitest.Filesystem(mode, "noatime")
		for range 2 {
			must(t, r.Stage(t, r.handle, want))
			must(t, r.Publish(t, r.handle, "pod/a", want, false))
		}
		if len(r.attached) != 1 || r.attached[0].Monitors[0] != "10.0.0.9:3300" {
			t.Errorf("%s: mounted %+v: the monitors of the Secret outrank those of the volume", mode, r.attached)
		}
		r.wantMounts(t, "staging/globalmount", "pod/a")
		for range 2 {
			must(t, r.Unpublish(t, r.handle, "pod/a"))
			must(t, r.Unstage(t, r.handle))
		}
		r.wantMounts(t)
		delete(r.Secrets, cephvolume.SecretMonitors)
		must(t, r.Stage(t, r.handle, want))
		if last := r.attached[len(r.attached)-1]; last.Monitors[0] != "10.0.0.1:3300" {
			t.Errorf("%+v", last)
		}
	}
	r := newRig(t)
	readers := csitest.Filesystem(csipb.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY)
	must(t, r.Stage(t, r.handle, readers))
	must(t, r.Publish(t, r.handle, "pod/a", readers, false))
	r.wantMounts(t, "staging/globalmount", "pod/a (ro)")
}

func TestStage_refuses(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*rig)
		want   *csipb.VolumeCapability
		code   codes.Code
	}{
		"no secret":         {func(r *rig) { r.Secrets = nil }, csitest.Shared(), codes.InvalidArgument},
		"half a secret":     {func(r *rig) { delete(r.Secrets, cephname.KeySecret) }, csitest.Shared(), codes.InvalidArgument},
		"another user":      {func(r *rig) { r.Secrets[cephname.KeyUser] = "admin" }, csitest.Shared(), codes.InvalidArgument},
		"a wrong key":       {func(r *rig) { r.Secrets[cephname.KeySecret] = strings.Replace(key, "X1m", "X2m", 1) }, csitest.Shared(), codes.FailedPrecondition},
		"a path of another": {func(r *rig) { r.Context[r.handle][cephvolume.KeyPath] = cephname.GroupPath + "/pvc-b/" + fsid }, csitest.Shared(), codes.InvalidArgument},
		"no monitors": {func(r *rig) {
			delete(r.Secrets, cephvolume.SecretMonitors)
			delete(r.Context[r.handle], cephvolume.KeyMonitors)
		}, csitest.Shared(), codes.InvalidArgument},
		"Ceph does not answer":  {func(r *rig) { r.down = true }, csitest.Shared(), codes.Unavailable},
		"the volume is gone":    {func(r *rig) { delete(r.paths, r.handle) }, csitest.Shared(), codes.NotFound},
		"another filesystem":    {nil, &csipb.VolumeCapability{AccessMode: csitest.Shared().GetAccessMode(), AccessType: &csipb.VolumeCapability_Mount{Mount: &csipb.VolumeCapability_MountVolume{FsType: "ext4"}}}, codes.InvalidArgument},
		"a raw device":          {nil, &csipb.VolumeCapability{AccessMode: csitest.Shared().GetAccessMode(), AccessType: &csipb.VolumeCapability_Block{Block: &csipb.VolumeCapability_BlockVolume{}}}, codes.InvalidArgument},
		"an option with a key":  {nil, csitest.Shared("secret=x"), codes.InvalidArgument},
		"an option of the node": {nil, csitest.Shared("dev"), codes.InvalidArgument},
		"an option that drops":  {nil, csitest.Shared("recover_session=clean"), codes.InvalidArgument},
	} {
		r := newRig(t)
		if c.before != nil {
			c.before(r)
		}
		err := r.Stage(t, r.handle, c.want)
		wantCode(t, name, err, c.code)
		r.wantMounts(t)
		if err != nil && strings.Contains(err.Error(), key[8:20]) {
			t.Errorf("%s: the error has the key: %v", name, err)
		}
	}
}

// TestKeyIsNotLogged: whatever happens, at every level of the log.
func TestKeyIsNotLogged(t *testing.T) {
	r := newRig(t)
	must(t, r.Stage(t, r.handle, csitest.Shared()))
	r.set(func() { r.down = true })
	other := r.add("pvc-11111111-2222-4333-8444-555555555556")
	wantCode(t, "down", r.StageAt(t, other, "staging/other", csitest.Shared()), codes.Unavailable)
	r.Secrets[cephname.KeySecret] = key[:30]
	wantCode(t, "half a key", r.StageAt(t, other, "staging/other", csitest.Shared()), codes.InvalidArgument)
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	if all := strings.Join(r.log.lines, "\n"); strings.Contains(all, key[8:20]) || !strings.Contains(all, "Handling call") {
		t.Errorf("the log has the key, or nothing: %s", all)
	}
}

func TestUnmount_isNeverForced(t *testing.T) {
	r := newRig(t)
	must(t, r.Stage(t, r.handle, csitest.Shared()))
	r.set(func() { r.down, r.dirty = true, true })
	wantCode(t, "waits", r.Unstage(t, r.handle), codes.Unavailable)
	r.wantMounts(t, "staging/globalmount")
	r.set(func() { r.detaches = true })
	must(t, r.Unstage(t, r.handle))
	r.wantMounts(t)
	wantCode(t, "mounted while the last writes wait", r.Stage(t, r.handle, csitest.Shared()), codes.Aborted)
	r.set(func() { r.down, r.dirty, r.waiting = false, false, map[string]bool{} })
	must(t, r.Stage(t, r.handle, csitest.Shared()))
	points, err := r.Points()
	must(t, err)
	r.set(func() { r.used[points[1].Path] = true })
	wantCode(t, "in use", r.Unstage(t, r.handle), codes.FailedPrecondition)
}

// TestShutOut: a mount whose client Ceph shut out is shown to no further pod, and says so. The volume is mounted anew once no pod has it.
func TestShutOut(t *testing.T) {
	r := newRig(t)
	want := csitest.Shared()
	must(t, r.Stage(t, r.handle, want))
	must(t, r.Publish(t, r.handle, "pod/a", want, false))
	r.set(func() { r.evicted = r.next })
	for what, err := range map[string]error{
		"staged again": r.Stage(t, r.handle, want), "for another pod": r.Publish(t, r.handle, "pod/b", want, false), "for its own pod": r.Publish(t, r.handle, "pod/a", want, false),
	} {
		wantCode(t, what, err, codes.Unavailable)
		if err == nil || !strings.Contains(err.Error(), "delete the pods on it that use the volume") {
			t.Errorf("%s: it does not say what to do: %v", what, err)
		}
	}
	r.wantMounts(t, "staging/globalmount", "pod/a")
	stats := func() *csipb.VolumeCondition {
		s, err := r.NodeGetVolumeStats(t.Context(), &csipb.NodeGetVolumeStatsRequest{VolumeId: r.handle, VolumePath: r.Path(t, "pod/a")})
		must(t, err)
		return s.GetVolumeCondition()
	}
	if c := stats(); !c.GetAbnormal() || !strings.Contains(c.GetMessage(), "the client of this mount was shut out by Ceph") || !strings.Contains(c.GetMessage(), "delete the pods on it that use the volume") {
		t.Errorf("%v", c)
	}
	// Whether the kubelet has the volume unstaged or not: without a pod it is mounted anew.
	for _, unstaged := range []bool{true, false} {
		before := len(r.attached)
		must(t, r.Unpublish(t, r.handle, "pod/a"))
		if unstaged {
			must(t, r.Unstage(t, r.handle))
		}
		must(t, r.Stage(t, r.handle, want))
		must(t, r.Publish(t, r.handle, "pod/a", want, false))
		r.wantMounts(t, "staging/globalmount", "pod/a")
		if c := stats(); c.GetAbnormal() || len(r.attached) != before+1 {
			t.Errorf("unstaged %t: %v, mounted %d times", unstaged, c, len(r.attached)-before)
		}
		r.set(func() { r.evicted = r.next })
	}
}

// TestShutOut_waits: daemons that do not answer may come back, and keep no pod from a mount. A mount that is in use somewhere is not taken away.
func TestShutOut_waits(t *testing.T) {
	r := newRig(t)
	want := csitest.Shared()
	must(t, r.Stage(t, r.handle, want))
	r.set(func() { r.down = true })
	must(t, r.Stage(t, r.handle, want))
	must(t, r.Publish(t, r.handle, "pod/a", want, false))
	must(t, r.Unpublish(t, r.handle, "pod/a"))
	points, err := r.Points()
	must(t, err)
	r.set(func() { r.down, r.evicted, r.used[points[1].Path] = false, r.next, true })
	// Not an error that is final: the kubelet would forget the mount.
	wantCode(t, "in use", r.Stage(t, r.handle, want), codes.Unavailable)
	r.wantMounts(t, "staging/globalmount")
}

func TestForeignMountStays(t *testing.T) {
	r := newRig(t)
	path := r.Path(t, "staging/globalmount")
	must(t, r.MakeDir(path))
	must(t, r.MountTree(mount.Point{Path: path, FSType: "ceph", Source: "quarry-csi@" + fsid + ".quarry=/volumes/quarry/other"}))
	wantCode(t, "another volume of Ceph", r.Stage(t, r.handle, csitest.Shared()), codes.AlreadyExists)
	must(t, r.Fake.Unmount(path))
	must(t, r.MountTree(mount.Point{Path: path, FSType: "nfs4", Source: "nas:/a"}))
	wantCode(t, "a share", r.Unstage(t, r.handle), codes.FailedPrecondition)
	r.wantMounts(t, "staging/globalmount")
}

func TestStats(t *testing.T) {
	r := newRig(t)
	must(t, r.Stage(t, r.handle, csitest.Shared()))
	must(t, r.Publish(t, r.handle, "pod/a", csitest.Shared(), false))
	ask := func() *csipb.NodeGetVolumeStatsResponse {
		s, err := r.NodeGetVolumeStats(t.Context(), &csipb.NodeGetVolumeStatsRequest{VolumeId: r.handle, VolumePath: r.Path(t, "pod/a")})
		must(t, err)
		return s
	}
	s := ask()
	if u := s.GetUsage(); len(u) != 2 || u[0].GetTotal() != 100 || u[1].GetUsed() != 7 || u[1].GetTotal() != 0 || s.GetVolumeCondition().GetAbnormal() {
		t.Errorf("%v", s)
	}
	r.set(func() { r.down = true })
	if s := ask(); !s.GetVolumeCondition().GetAbnormal() || len(s.GetUsage()) > 0 {
		t.Errorf("%v", s)
	}
}
