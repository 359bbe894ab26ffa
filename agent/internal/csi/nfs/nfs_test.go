package nfs_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"quarry.storage/quarry/agent/internal/csi/csitest"
	"quarry.storage/quarry/agent/internal/host/mount"
	"quarry.storage/quarry/pkg/sharedvolume"
)

func TestLife(t *testing.T) {
	for _, mode := range []csipb.VolumeCapability_AccessMode_Mode{
		csipb.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER, csipb.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER,
		csipb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER, csipb.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			r := newRig(t)
			want := csitest.Filesystem(mode, "noatime")
			for range 2 {
				must(t, r.Stage(t, r.handle, want))
				must(t, r.Publish(t, r.handle, "pod/a", want, false))
				must(t, r.Publish(t, r.handle, "pod/b", want, true))
			}
			r.wantMounts(t, "staging/globalmount", "pod/a", "pod/b (ro)")
			for range 2 {
				must(t, r.Unpublish(t, r.handle, "pod/a"))
				must(t, r.Unpublish(t, r.handle, "pod/b"))
				must(t, r.Unstage(t, r.handle))
			}
			r.wantMounts(t)
			if left, _ := os.ReadDir(filepath.Join(r.Dir, "pod")); len(left) != 0 {
				t.Errorf("left %v", left)
			}
			must(t, r.Stage(t, r.handle, want))
			r.wantMounts(t, "staging/globalmount")
		})
	}
}

func TestReadOnly(t *testing.T) {
	r := newRig(t)
	readers := csitest.Filesystem(csipb.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY)
	must(t, r.Stage(t, r.handle, readers))
	must(t, r.Publish(t, r.handle, "pod/a", readers, false))
	r.wantMounts(t, "staging/globalmount", "pod/a (ro)")
	must(t, r.Unpublish(t, r.handle, "pod/a"))
	must(t, r.Unstage(t, r.handle))
	must(t, r.Stage(t, r.handle, csitest.Shared("ro")))
	must(t, r.Publish(t, r.handle, "pod/a", csitest.Shared("ro"), false))
	r.wantMounts(t, "staging/globalmount (ro)", "pod/a (ro)")
	wantCode(t, r.Stage(t, r.handle, csitest.Shared()), codes.AlreadyExists)
}

// TestReadOnly_optionOfTheNfs: an Nfs whose options have ro makes every mount read-only, whatever a claim asks for. The kubelet repeats calls.
func TestReadOnly_optionOfTheNfs(t *testing.T) {
	r := newRig(t)
	recorded := attributes("team/data")
	recorded.MountOptions = []string{"ro", "noatime"}
	r.Context[r.handle] = recorded.Map()
	for range 2 {
		must(t, r.Stage(t, r.handle, csitest.Shared()))
	}
	for range 2 {
		must(t, r.Publish(t, r.handle, "pod/a", csitest.Shared(), false))
	}
	r.wantMounts(t, "staging/globalmount (ro)", "pod/a (ro)")
	// A mount that can be written is not what is recorded.
	r.Context[r.handle] = attributes("team/data").Map()
	wantCode(t, r.Stage(t, r.handle, csitest.Shared()), codes.AlreadyExists)
}

func TestAlone(t *testing.T) {
	r := newRig(t)
	alone := csitest.Filesystem(csipb.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER)
	must(t, r.Stage(t, r.handle, alone))
	for range 2 {
		must(t, r.Publish(t, r.handle, "pod/a", alone, false))
		wantCode(t, r.Publish(t, r.handle, "pod/b", alone, false), codes.FailedPrecondition)
	}
	must(t, r.Unpublish(t, r.handle, "pod/a"))
	must(t, r.Publish(t, r.handle, "pod/b", alone, false))
	r.wantMounts(t, "staging/globalmount", "pod/b")
}

func TestRefuses(t *testing.T) {
	r := newRig(t)
	block := &csipb.VolumeCapability{
		AccessMode: &csipb.VolumeCapability_AccessMode{Mode: csipb.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER},
		AccessType: &csipb.VolumeCapability_Block{Block: &csipb.VolumeCapability_BlockVolume{}},
	}
	ext4 := csitest.Shared()
	ext4.GetMount().FsType = "ext4"
	for name, want := range map[string]*csipb.VolumeCapability{
		"none": nil, "a raw device": block, "another filesystem": ext4, "suid": csitest.Shared("suid"), "dev": csitest.Shared("ro", "dev"),
		"an address": csitest.Shared("addr=10.0.0.9"), "a second option behind a comma": csitest.Shared("ro,suid"), "a bind mount": csitest.Shared("bind"),
	} {
		t.Run(name, func(t *testing.T) {
			wantCode(t, r.Stage(t, r.handle, want), codes.InvalidArgument)
		})
	}
	for _, handle := range []string{
		"x", uid + "/../etc", "../" + uid + "/a", uid + "/a/b", uid + "/a\x00", "/", uid, "nas#export#../../etc#", uid + "/A", uid + "/.quarry", uid + "//a",
		strings.Repeat("a", 200), uid + "/" + strings.Repeat("a", 65), "node/vg/pvc-" + uid, uid + "/-a", uid + "/a.b", uid + "\n/a", uid + "/a;b", uid + "/..",
		"{" + uid + "}/a",
	} {
		r.Context[handle] = attributes("team/data").Map()
		wantCode(t, r.Stage(t, handle, csitest.Shared()), codes.NotFound)
		wantCode(t, r.Publish(t, handle, "pod/x", csitest.Shared(), false), codes.NotFound)
		wantCode(t, r.Unpublish(t, handle, "pod/x"), codes.NotFound)
		wantCode(t, r.Unstage(t, handle), codes.NotFound)
	}
	good := attributes("team/data").Map()
	for key, values := range map[string][]string{
		sharedvolume.KeyServer: {"", "nas:/x", "nas,addr=1"}, sharedvolume.KeyPath: {"", "export", "/a/.."}, sharedvolume.KeyOnDelete: {"", "purge"},
		sharedvolume.KeyDirectory: {"", "../x", "/etc", ".quarry", "a\x00b"}, sharedvolume.KeyMountOptions: {"suid", "addr=1"}, sharedvolume.KeyShareID: {"x"},
	} {
		for _, value := range values {
			bad := map[string]string{}
			for k, v := range good {
				bad[k] = v
			}
			bad[key] = value
			r.Context[r.handle] = bad
			wantCode(t, r.Stage(t, r.handle, csitest.Shared()), codes.InvalidArgument)
		}
	}
	r.Context[r.handle] = nil
	wantCode(t, r.Stage(t, r.handle, csitest.Shared()), codes.InvalidArgument)
	r.wantMounts(t)
}

func TestNotThere(t *testing.T) {
	r := newRig(t)
	absent := r.add("pvc-2", "gone")
	r.set(func() { delete(r.volumes, absent) })
	wantCode(t, r.Stage(t, absent, csitest.Shared()), codes.NotFound)
	moved := r.add("pvc-3", "here")
	r.Context[moved] = attributes("elsewhere").Map()
	wantCode(t, r.Stage(t, moved, csitest.Shared()), codes.FailedPrecondition)
	wantCode(t, r.Publish(t, r.handle, "pod/a", csitest.Shared(), false), codes.FailedPrecondition)
	r.wantMounts(t)
	must(t, r.Unpublish(t, r.handle, "pod/a"))
	must(t, r.Unstage(t, r.handle))
}

// TestAnotherMount finds something else where the volume should be.
func TestAnotherMount(t *testing.T) {
	for name, p := range map[string]mount.Point{
		"another directory": {FSType: "nfs4", Source: "nas:/export/team/other", Filesystem: mount.Device{Minor: 77}},
		"another server":    {FSType: "nfs4", Source: "evil:/export/team/data", Filesystem: mount.Device{Minor: 77}},
		"the whole share":   {FSType: "nfs", Source: "nas:/export", Filesystem: mount.Device{Minor: 77}},
		"a disk":            {FSType: "ext4", Source: "/dev/sda1", Device: mount.Device{Major: 8, Minor: 1}, Filesystem: mount.Device{Major: 8, Minor: 1}},
		"memory":            {FSType: "tmpfs", Source: "nas:/export/team/data", Filesystem: mount.Device{Minor: 77}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			staging := r.Path(t, csitest.StagingPath)
			must(t, os.MkdirAll(staging, 0o755))
			p.Path = staging
			must(t, r.MountTree(p))
			wantCode(t, r.Stage(t, r.handle, csitest.Shared()), codes.AlreadyExists)
			wantCode(t, r.Publish(t, r.handle, "pod/a", csitest.Shared(), false), codes.FailedPrecondition)
			if !strings.HasPrefix(p.FSType, "nfs") {
				wantCode(t, r.Unstage(t, r.handle), codes.FailedPrecondition)
				r.wantMounts(t, csitest.StagingPath)
			}
			must(t, os.MkdirAll(r.Path(t, "other/stage"), 0o755))
			must(t, r.StageAt(t, r.handle, "other/stage", csitest.Shared()))
		})
	}
}

// TestDiesBeforeEveryEffect kills the agent before each of its effects in turn, and repeats the call: the end is the same.
func TestDiesBeforeEveryEffect(t *testing.T) {
	for dies := 1; ; dies++ {
		r := newRig(t)
		effects, killed := 0, ""
		r.set(func() {
			r.before = func(effect string) error {
				if effects++; effects == dies {
					killed = effect
					return errors.New("killed")
				}
				return nil
			}
		})
		again := func(call func() error) {
			t.Helper()
			if err := call(); err != nil {
				wantCode(t, err, codes.Internal)
				must(t, call())
			}
		}
		again(func() error { return r.Stage(t, r.handle, csitest.Shared()) })
		again(func() error { return r.Publish(t, r.handle, "pod/a", csitest.Shared(), true) })
		r.wantMounts(t, csitest.StagingPath, "pod/a (ro)")
		again(func() error { return r.Unpublish(t, r.handle, "pod/a") })
		again(func() error { return r.Unstage(t, r.handle) })
		r.wantMounts(t)
		if killed == "" {
			if dies < 5 {
				t.Errorf("only %d effects", dies-1)
			}
			break
		}
	}
}

func TestStats(t *testing.T) {
	r := newRig(t)
	must(t, r.Stage(t, r.handle, csitest.Shared()))
	must(t, r.Publish(t, r.handle, "pod/a", csitest.Shared(), false))
	stats := func() (*csipb.NodeGetVolumeStatsResponse, error) {
		return r.NodeGetVolumeStats(t.Context(), &csipb.NodeGetVolumeStatsRequest{VolumeId: r.handle, VolumePath: r.Path(t, "pod/a")})
	}
	got, err := stats()
	must(t, err)
	if got.GetVolumeCondition().GetAbnormal() || len(got.GetUsage()) != 1 || got.GetUsage()[0].GetTotal() != 100 || got.GetUsage()[0].GetAvailable() != 60 {
		t.Errorf("%v", got)
	}
	r.set(func() { r.down = true })
	takes(t, time.Second, func() {
		got, err = stats()
	})
	must(t, err)
	if !got.GetVolumeCondition().GetAbnormal() || !strings.Contains(got.GetVolumeCondition().GetMessage(), "does not answer") {
		t.Errorf("%v", got)
	}
	must(t, r.Unpublish(t, r.handle, "pod/a"))
	_, err = stats()
	wantCode(t, err, codes.NotFound)
	_, err = r.NodeExpandVolume(t.Context(), &csipb.NodeExpandVolumeRequest{VolumeId: r.handle, VolumePath: r.Path(t, "pod/a")})
	wantCode(t, err, codes.Unimplemented)
}

func TestDeadServer(t *testing.T) {
	r := newRig(t)
	must(t, r.Stage(t, r.handle, csitest.Shared()))
	must(t, r.Publish(t, r.handle, "pod/a", csitest.Shared(), false))
	r.set(func() { r.down = true })
	second := r.add("pvc-2", "two")
	wantCode(t, r.StageAt(t, second, "second/stage", csitest.Shared()), codes.Unavailable)
	must(t, r.Publish(t, r.handle, "pod/b", csitest.Shared(), false))
	must(t, r.Unpublish(t, r.handle, "pod/a"))
	must(t, r.Unpublish(t, r.handle, "pod/b"))
	must(t, r.Unstage(t, r.handle))
	r.wantMounts(t)
	if len(r.forced) != 0 {
		t.Errorf("forced %v", r.forced)
	}
	r.set(func() { r.down = false })
	must(t, r.StageAt(t, second, "second/stage", csitest.Shared()))
}

// TestStale: a mount that the server does not know is shown to no further pod, and says so. The volume is mounted anew once no pod has it.
func TestStale(t *testing.T) {
	r := newRig(t)
	want := csitest.Shared()
	must(t, r.Stage(t, r.handle, want))
	for _, unstaged := range []bool{true, false} {
		must(t, r.Publish(t, r.handle, "pod/a", want, false))
		r.set(func() { r.stale = r.next })
		for what, err := range map[string]error{
			"staged again": r.Stage(t, r.handle, want), "for another pod": r.Publish(t, r.handle, "pod/b", want, false), "for its own pod": r.Publish(t, r.handle, "pod/a", want, false),
		} {
			wantCode(t, err, codes.Unavailable)
			if err == nil || !strings.Contains(err.Error(), "delete the pods on it that use the volume") {
				t.Errorf("%s: it does not say what to do: %v", what, err)
			}
		}
		r.wantMounts(t, "staging/globalmount", "pod/a")
		stats, err := r.NodeGetVolumeStats(t.Context(), &csipb.NodeGetVolumeStatsRequest{VolumeId: r.handle, VolumePath: r.Path(t, "pod/a")})
		must(t, err)
		if c := stats.GetVolumeCondition(); !c.GetAbnormal() || !strings.Contains(c.GetMessage(), "does not know the directory that is mounted") {
			t.Errorf("%v", c)
		}
		must(t, r.Unpublish(t, r.handle, "pod/a"))
		// Whether the kubelet has the volume unstaged or not: without a pod it is mounted anew.
		if unstaged {
			must(t, r.Unstage(t, r.handle))
		}
		before := r.next
		must(t, r.Stage(t, r.handle, want))
		r.wantMounts(t, "staging/globalmount")
		if r.next != before+1 {
			t.Errorf("unstaged %t: it was mounted %d times", unstaged, r.next-before)
		}
	}
	r.set(func() { r.stale, r.down = r.next, true })
	must(t, r.Publish(t, r.handle, "pod/a", want, false)) // Nobody knows: the server may come back, and know the mount.
}

// TestForce forces a mount away in one case only: nobody uses the volume, and its server is gone.
func TestForce(t *testing.T) {
	staged := func(t *testing.T) *rig {
		r := newRig(t)
		must(t, r.Stage(t, r.handle, csitest.Shared()))
		must(t, r.Publish(t, r.handle, "pod/a", csitest.Shared(), false))
		r.set(func() { r.dirty = true })
		return r
	}
	t.Run("the server is gone", func(t *testing.T) {
		r := staged(t)
		r.set(func() { r.down = true })
		must(t, r.Unpublish(t, r.handle, "pod/a"))
		must(t, r.Unstage(t, r.handle))
		r.wantMounts(t)
		if len(r.forced) != 1 || !slices.Contains(r.asked, "10.0.0.1[vers=4.2]") || r.counted(t) != 1 {
			t.Errorf("forced %v, asked %v, counted %v", r.forced, r.asked, r.counted(t))
		}
	})
	t.Run("an earlier unmount is not over", func(t *testing.T) {
		r := staged(t)
		must(t, r.Unpublish(t, r.handle, "pod/a"))
		r.set(func() { r.down, r.waits = true, true })
		for range 2 {
			wantCode(t, r.hang(t)(), codes.Unavailable)
		}
		if len(r.forced) != 0 || r.counted(t) != 0 {
			t.Errorf("forced %v, counted %v: nothing was begun", r.forced, r.counted(t))
		}
	})
	t.Run("a pod still uses it", func(t *testing.T) {
		r := staged(t)
		r.set(func() { r.down, r.used[r.Path(t, "pod/a")] = true, true })
		wantCode(t, r.Unpublish(t, r.handle, "pod/a"), codes.FailedPrecondition)
		if len(r.forced) != 0 {
			t.Errorf("forced %v", r.forced)
		}
	})
	t.Run("another mount of the same filesystem", func(t *testing.T) {
		r := staged(t)
		points, err := r.Points()
		must(t, err)
		subPath := points[len(points)-1]
		must(t, r.Unpublish(t, r.handle, "pod/a"))
		subPath.Path = r.Path(t, "pod/subpath")
		must(t, os.Mkdir(subPath.Path, 0o755))
		r.set(func() { r.down, r.detaches = true, false })
		hang := r.hang(t)
		must(t, r.MountTree(subPath))
		wantCode(t, hang(), codes.Unavailable)
		if len(r.forced) != 0 {
			t.Errorf("forced %v", r.forced)
		}
	})
	t.Run("the server answers", func(t *testing.T) {
		r := staged(t)
		must(t, r.Unpublish(t, r.handle, "pod/a"))
		wantCode(t, r.hang(t)(), codes.Unavailable)
		if len(r.forced) != 0 || len(r.asked) != 1 {
			t.Errorf("forced %v, asked %v", r.forced, r.asked)
		}
	})
	t.Run("the server cannot be asked", func(t *testing.T) {
		r := staged(t)
		must(t, r.Unpublish(t, r.handle, "pod/a"))
		r.set(func() { r.down, r.full = true, true })
		err := r.hang(t)()
		wantCode(t, err, codes.Unavailable)
		if len(r.forced) != 0 || len(r.asked) != 1 || !strings.Contains(err.Error(), "not known") {
			t.Errorf("%v, forced %v, asked %v", err, r.forced, r.asked)
		}
	})
	t.Run("the kernel took it away", func(t *testing.T) {
		r := staged(t)
		must(t, r.Unpublish(t, r.handle, "pod/a"))
		r.set(func() { r.down, r.detaches = true, true })
		must(t, r.Unstage(t, r.handle))
		r.wantMounts(t)
		if len(r.forced) != 0 {
			t.Errorf("forced %v", r.forced)
		}
	})
}

// hang makes unmounts wait whether the server is down or not, and returns the unstage that waits.
func (r *rig) hang(t *testing.T) func() error {
	r.set(func() { r.hangs = true })
	return func() error { return r.Unstage(t, r.handle) }
}

func (r *rig) counted(t *testing.T) float64 {
	t.Helper()
	families, err := r.registry.Gather()
	must(t, err)
	for _, f := range families {
		if f.GetName() == "quarry_agent_nfs_forced_unmounts_total" {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	return -1
}

func TestRegisters(t *testing.T) {
	r := newRig(t)
	info, err := r.GetInfo(t.Context(), &registration.InfoRequest{})
	must(t, err)
	if info.GetName() != "nfs.quarry.storage" || info.GetEndpoint() != filepath.Join(r.Dir, "plugins/nfs.quarry.storage/csi.sock") {
		t.Errorf("%v", info)
	}
	node, err := r.NodeGetInfo(t.Context(), &csipb.NodeGetInfoRequest{})
	must(t, err)
	if node.GetNodeId() != "node-1" || node.GetAccessibleTopology() != nil {
		t.Errorf("%v: every node reaches the share", node)
	}
	capabilities, err := r.NodeGetCapabilities(t.Context(), &csipb.NodeGetCapabilitiesRequest{})
	must(t, err)
	for _, c := range capabilities.GetCapabilities() {
		if c.GetRpc().GetType() == csipb.NodeServiceCapability_RPC_EXPAND_VOLUME {
			t.Error("a node has nothing to expand")
		}
	}
	plugin, err := r.GetPluginCapabilities(t.Context(), &csipb.GetPluginCapabilitiesRequest{})
	must(t, err)
	if len(plugin.GetCapabilities()) != 2 {
		t.Errorf("%v", plugin)
	}
}
