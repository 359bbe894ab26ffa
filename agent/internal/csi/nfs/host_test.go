//go:build hostroot

package nfs_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr/testr"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"quarry.storage/quarry/agent/internal/csi"
	"quarry.storage/quarry/agent/internal/csi/csitest"
	"quarry.storage/quarry/agent/internal/csi/nfs"
	"quarry.storage/quarry/agent/internal/host/mount"
	hostnfs "quarry.storage/quarry/agent/internal/host/nfs"
	"quarry.storage/quarry/agent/internal/host/nfs/child"
	"quarry.storage/quarry/pkg/sharedvolume"
	"quarry.storage/quarry/test/nfsd"
)

const insideVariable = "QUARRY_TEST_NAMESPACE"

// TestMain lets this program be the agent's processes, and runs the tests in a mount namespace of their own, so that no mount is left
// behind.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == child.Command {
		os.Exit(child.Main(os.Args, os.Stdin, os.Stdout))
	}
	if os.Getuid() != 0 || os.Getenv(insideVariable) != "" {
		os.Exit(m.Run())
	}
	c := exec.Command("/proc/self/exe", os.Args[1:]...)
	c.Env = append(os.Environ(), insideVariable+"=1")
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(c.ProcessState.ExitCode())
}

// real is a driver over a real server.
type real struct {
	*csitest.Client
	client *hostnfs.Client
	kernel *mount.Kernel
	share  sharedvolume.Share
	// server is where the share is on this machine.
	server string
}

func newReal(t *testing.T, s *nfsd.Server, name string) *real {
	t.Helper()
	dir := csitest.KubeletDir(t)
	must(t, unix.Mount(dir, dir, "", unix.MS_BIND, ""))
	t.Cleanup(func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	must(t, unix.Mount("", dir, "", unix.MS_SHARED, ""))
	r := &real{
		kernel: mount.NewKernel(dir), server: s.Export(name, "*", "rw,no_root_squash"),
		share: sharedvolume.Share{Server: nfsd.Address, Path: "/" + name, Owner: uid},
		client: hostnfs.New(hostnfs.Config{
			NodeName: "node-1", Namespace: "/proc/1/ns/net", Log: testr.New(t),
			Limits: hostnfs.Limits{Unmount: 5 * time.Second, Measure: 2 * time.Second},
			Resolve: func(context.Context, string) ([]netip.Addr, error) {
				return []netip.Addr{netip.MustParseAddr(nfsd.Address)}, nil
			},
		}),
	}
	t.Cleanup(r.client.Close)
	r.Client = csitest.Start(t, csi.Config{
		NodeName: "node-1", Version: "test", KubeletDir: dir, Log: testr.New(t), Mounter: r.kernel, Places: r.kernel,
		Source: nfs.New(nfs.Config{Shares: r.client, Places: r.kernel, Table: r.kernel, Log: testr.New(t)}),
	})
	seen, err := r.client.GetShare(t.Context(), r.share, true)
	must(t, err)
	if seen.Problem != nil {
		t.Fatal(seen.Problem)
	}
	r.share.ID = seen.ID
	return r
}

// make makes a volume and returns its handle.
func (r *real) make(t *testing.T, name, directory string, options ...string) string {
	t.Helper()
	d, err := r.client.EnsureDirectory(t.Context(), r.share, sharedvolume.Wish{Name: name, Directory: directory, OnDelete: sharedvolume.Delete})
	must(t, err)
	r.Context[d.ID.String()] = sharedvolume.Attributes{
		Server: r.share.Server, Path: r.share.Path, MountOptions: options, Directory: directory, OnDelete: sharedvolume.Delete, ShareID: r.share.ID,
	}.Map()
	return d.ID.String()
}

func (r *real) points(t *testing.T) []string {
	t.Helper()
	points, err := r.kernel.Points()
	must(t, err)
	var out []string
	for _, p := range points {
		if strings.HasPrefix(p.FSType, "nfs") {
			rel, err := filepath.Rel(r.Dir, p.Path)
			must(t, err)
			out = append(out, rel)
		}
	}
	return out
}

func (r *real) want(t *testing.T, want ...string) {
	t.Helper()
	if got := r.points(t); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("mounts %q, want %q", got, want)
	}
}

func TestHost(t *testing.T) {
	s := nfsd.New(t)
	t.Run("life", func(t *testing.T) { realLife(t, s) })
	t.Run("restart", func(t *testing.T) { realRestart(t, s) })
	t.Run("export that is gone", func(t *testing.T) { realStale(t, s) })
	t.Run("dead server", func(t *testing.T) { realDeadServer(t, s) })
	t.Run("leave a dead server", func(t *testing.T) { realLeave(t, s) })
}

// realLife shares a volume between two pods, one of which only reads.
func realLife(t *testing.T, s *nfsd.Server) {
	for _, options := range [][]string{nil, {"vers=3"}, {"vers=4.1", "nconnect=2"}} {
		r := newReal(t, s, fmt.Sprint("life", len(strings.Join(options, ""))))
		handle := r.make(t, "pvc-1", "team/data", options...)
		for range 2 {
			must(t, r.Stage(t, handle, csitest.Shared("noatime")))
			must(t, r.Publish(t, handle, "pod/a", csitest.Shared(), false))
			must(t, r.Publish(t, handle, "pod/b", csitest.Shared(), true))
		}
		r.want(t, csitest.StagingPath, "pod/a", "pod/b")
		must(t, os.WriteFile(r.Path(t, "pod/a/file"), []byte("hello"), 0o644))
		content, err := os.ReadFile(r.Path(t, "pod/b/file"))
		if err != nil || string(content) != "hello" {
			t.Errorf("%q, %v", content, err)
		}
		if err := os.WriteFile(r.Path(t, "pod/b/other"), nil, 0o644); !errors.Is(err, unix.EROFS) {
			t.Errorf("a read-only volume is written: %v", err)
		}
		stats, err := r.NodeGetVolumeStats(t.Context(), &csipb.NodeGetVolumeStatsRequest{VolumeId: handle, VolumePath: r.Path(t, "pod/a")})
		if err != nil || stats.GetVolumeCondition().GetAbnormal() || stats.GetUsage()[0].GetTotal() == 0 {
			t.Errorf("%v, %v", stats, err)
		}
		f, err := os.Open(r.Path(t, "pod/a/file"))
		must(t, err)
		wantCode(t, r.Unpublish(t, handle, "pod/a"), codes.FailedPrecondition)
		must(t, f.Close())
		for range 2 {
			must(t, r.Unpublish(t, handle, "pod/a"))
			must(t, r.Unpublish(t, handle, "pod/b"))
			must(t, r.Unstage(t, handle))
		}
		r.want(t)
		other := r.make(t, "pvc-2", "team/other")
		r.Context[other][sharedvolume.KeyDirectory] = "team/data"
		wantCode(t, r.Stage(t, other, csitest.Shared()), codes.FailedPrecondition)
		r.want(t)
	}
}

// realRestart stages again what a restart of the node took away.
func realRestart(t *testing.T, s *nfsd.Server) {
	r := newReal(t, s, "restart")
	handle := r.make(t, "pvc-1", "data")
	must(t, r.Stage(t, handle, csitest.Shared()))
	must(t, r.Publish(t, handle, "pod/a", csitest.Shared(), false))
	must(t, os.WriteFile(r.Path(t, "pod/a/file"), []byte("kept"), 0o644))
	for _, p := range []string{"pod/a", csitest.StagingPath} {
		must(t, unix.Unmount(r.Path(t, p), 0))
	}
	must(t, r.Stage(t, handle, csitest.Shared()))
	must(t, r.Publish(t, handle, "pod/a", csitest.Shared(), false))
	content, err := os.ReadFile(r.Path(t, "pod/a/file"))
	if err != nil || string(content) != "kept" {
		t.Errorf("%q, %v", content, err)
	}
	must(t, r.Unpublish(t, handle, "pod/a"))
	must(t, r.Unstage(t, handle))
	r.want(t)
}

// realStale takes an export back for a while. Its mounts are shown to no pod meanwhile, and serve again later.
func realStale(t *testing.T, s *nfsd.Server) {
	r := newReal(t, s, "stale")
	handle := r.make(t, "pvc-1", "data")
	must(t, r.Stage(t, handle, csitest.Shared()))
	must(t, r.Publish(t, handle, "pod/a", csitest.Shared(), false))
	must(t, os.WriteFile(r.Path(t, "pod/a/file"), []byte("kept"), 0o644))
	again := s.Unexport("stale")
	wantCode(t, r.Publish(t, handle, "pod/b", csitest.Shared(), false), codes.Unavailable)
	wantCode(t, r.Stage(t, handle, csitest.Shared()), codes.Unavailable)
	r.want(t, csitest.StagingPath, "pod/a")
	must(t, r.Unpublish(t, handle, "pod/a"))
	// Nobody uses it: it is taken away, and cannot be mounted anew yet.
	if err := r.Stage(t, handle, csitest.Shared()); err == nil {
		t.Error("a volume of an export that is gone is staged")
	}
	r.want(t)
	again()
	must(t, r.Stage(t, handle, csitest.Shared()))
	must(t, r.Publish(t, handle, "pod/a", csitest.Shared(), false))
	content, err := os.ReadFile(r.Path(t, "pod/a/file"))
	if err != nil || string(content) != "kept" {
		t.Errorf("%q, %v", content, err)
	}
	again = s.Unexport("stale")
	wantCode(t, r.Publish(t, handle, "pod/b", csitest.Shared(), false), codes.Unavailable)
	again()
	must(t, r.Publish(t, handle, "pod/b", csitest.Shared(), false))
	must(t, r.Unpublish(t, handle, "pod/b"))
	must(t, r.Unpublish(t, handle, "pod/a"))
	must(t, r.Unstage(t, handle))
	r.want(t)
}

// realDeadServer calls everything while the server is gone: each call returns in time, and what needs no server is done.
func realDeadServer(t *testing.T, s *nfsd.Server) {
	r := newReal(t, s, "dead")
	handle, second := r.make(t, "pvc-1", "data"), r.make(t, "pvc-2", "second")
	must(t, r.Stage(t, handle, csitest.Shared()))
	must(t, r.Publish(t, handle, "pod/a", csitest.Shared(), false))
	s.Cut()
	healed := false
	defer func() {
		if !healed {
			s.Heal()
		}
	}()
	// A pod that waits for its server.
	pod := exec.Command("sh", "-c", "printf late > "+r.Path(t, "pod/a/file"))
	must(t, pod.Start())
	written := make(chan error, 1)
	go func() { written <- pod.Wait() }()
	time.Sleep(100 * time.Millisecond)
	// Whether it knows the mount is asked as long as a measurement may take.
	takes(t, 4*time.Second, func() { must(t, r.Stage(t, handle, csitest.Shared())) })
	takes(t, 4*time.Second, func() { must(t, r.Publish(t, handle, "pod/b", csitest.Shared(), true)) })
	takes(t, 8*time.Second, func() { must(t, r.Unpublish(t, handle, "pod/b")) })
	takes(t, 40*time.Second, func() { wantCode(t, r.StageAt(t, second, "second/stage", csitest.Shared()), codes.Unavailable) })
	for range 3 {
		takes(t, 4*time.Second, func() {
			stats, err := r.NodeGetVolumeStats(t.Context(), &csipb.NodeGetVolumeStatsRequest{VolumeId: handle, VolumePath: r.Path(t, "pod/a")})
			if err != nil || !stats.GetVolumeCondition().GetAbnormal() {
				t.Errorf("%v, %v", stats, err)
			}
		})
	}
	r.want(t, csitest.StagingPath, "pod/a")
	s.Heal()
	healed = true
	select {
	case err := <-written:
		must(t, err)
	case <-time.After(2 * time.Minute):
		t.Fatal("the pod waits on")
	}
	content, err := os.ReadFile(filepath.Join(r.server, "data/file"))
	if err != nil || string(content) != "late" {
		t.Errorf("%q, %v", content, err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Second) {
		if err := r.StageAt(t, second, "second/stage", csitest.Shared()); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	stats, err := r.NodeGetVolumeStats(t.Context(), &csipb.NodeGetVolumeStatsRequest{VolumeId: handle, VolumePath: r.Path(t, "pod/a")})
	if err != nil || stats.GetVolumeCondition().GetAbnormal() {
		t.Errorf("%v, %v", stats, err)
	}
	must(t, r.Unpublish(t, handle, "pod/a"))
	must(t, r.Unstage(t, handle))
	_, err = r.NodeUnstageVolume(t.Context(), &csipb.NodeUnstageVolumeRequest{VolumeId: second, StagingTargetPath: r.Path(t, "second/stage")})
	must(t, err)
	r.want(t)
}

// realLeave takes volumes away while their server is gone. One that was not written to goes at once. One with writes that wait keeps its
// pod's process, which nobody can end, and so it stays until the server is back; it is never forced away from a process.
func realLeave(t *testing.T, s *nfsd.Server) {
	r := newReal(t, s, "leave")
	quiet, busy := r.make(t, "pvc-1", "quiet"), r.make(t, "pvc-2", "busy")
	must(t, r.Stage(t, quiet, csitest.Shared()))
	must(t, r.Publish(t, quiet, "pod/a", csitest.Shared(), false))
	must(t, os.WriteFile(r.Path(t, "pod/a/file"), []byte("x"), 0o644))
	must(t, r.StageAt(t, busy, "busy/stage", csitest.Shared()))
	_, err := r.NodePublishVolume(t.Context(), &csipb.NodePublishVolumeRequest{
		VolumeId: busy, StagingTargetPath: r.Path(t, "busy/stage"), TargetPath: r.Path(t, "pod/b"), VolumeCapability: csitest.Shared(), VolumeContext: r.Context[busy],
	})
	must(t, err)
	pod := exec.Command("dd", "if=/dev/zero", "of="+r.Path(t, "pod/b/file"), "bs=64k")
	must(t, pod.Start())
	time.Sleep(time.Second)
	s.Cut()
	healed := false
	defer func() {
		if !healed {
			s.Heal()
		}
	}()
	time.Sleep(time.Second)
	takes(t, 10*time.Second, func() { must(t, r.Unpublish(t, quiet, "pod/a")) })
	takes(t, 20*time.Second, func() { must(t, r.Unstage(t, quiet)) })
	r.want(t, "busy/stage", "pod/b")
	must(t, pod.Process.Kill())
	gone := make(chan error, 1)
	go func() { gone <- pod.Wait() }()
	for range 3 {
		takes(t, 10*time.Second, func() {
			err := r.Unpublish(t, busy, "pod/b")
			t.Logf("while the server is gone: %v", err)
			if err == nil && len(r.points(t)) != 1 {
				t.Errorf("mounts %q", r.points(t))
			}
		})
	}
	s.Heal()
	healed = true
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Second) {
		err := r.Unpublish(t, busy, "pod/b")
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	t.Logf("the pod: %v", <-gone)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Second) {
		_, err := r.NodeUnstageVolume(t.Context(), &csipb.NodeUnstageVolumeRequest{VolumeId: busy, StagingTargetPath: r.Path(t, "busy/stage")})
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	r.want(t)
}
