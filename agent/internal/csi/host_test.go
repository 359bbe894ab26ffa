//go:build hostroot

package csi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/uuid"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"quarry.storage/quarry/agent/internal/csi/csitest"
	"quarry.storage/quarry/agent/internal/host/dm"
	"quarry.storage/quarry/agent/internal/host/fs"
	"quarry.storage/quarry/agent/internal/host/mount"
	"quarry.storage/quarry/agent/internal/host/run"
)

const insideVariable = "QUARRY_TEST_NAMESPACE"

// TestMain runs the tests in a mount namespace of their own, so that no mount is left behind.
func TestMain(m *testing.M) {
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

// loops are volumes on loop devices.
type loops map[string]string

func (l loops) Find(group, name string) (dm.Device, error) {
	path, ok := l[name]
	if !ok {
		return dm.Device{}, dm.ErrNotFound
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return dm.Device{}, err
	}
	f, err := os.Open(path)
	if err != nil {
		return dm.Device{}, err
	}
	defer f.Close()
	size, err := f.Seek(0, 2)
	return dm.Device{Path: path, Major: unix.Major(st.Rdev), Minor: unix.Minor(st.Rdev), SizeBytes: size}, err
}

// realNode mounts with the kernel; only LVM is a model.
type realNode struct {
	*client
	devices loops
}

func newRealNode(t *testing.T) *realNode {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root and devices: run make conformance")
	}
	for _, tool := range []string{"/usr/sbin/mkfs.ext4", "/usr/sbin/mkfs.xfs", "/usr/sbin/mkfs.btrfs", "/usr/sbin/blkid"} {
		if _, err := os.Stat(tool); err != nil {
			t.Skipf("a filesystem tool is not installed: %v", err)
		}
	}
	dir := kubeletDir(t)
	must(t, unix.Mount(dir, dir, "", unix.MS_BIND, ""))
	t.Cleanup(func() { must(t, unix.Unmount(dir, 0)) })
	must(t, unix.Mount("", dir, "", unix.MS_SHARED, ""))
	host := csitest.NewHost(dir)
	n := &realNode{devices: loops{}}
	kernel := mount.NewKernel(dir)
	cfg := host.Config()
	cfg.Mounter, cfg.Places, cfg.Filesystems = kernel, kernel, fs.New(run.Real{})
	cfg.Source = host.Source(n.devices, fs.New(run.Real{}))
	n.client = startConfig(t, host, cfg)
	return n
}

// add makes the volume "pvc-1" on a new loop device.
func (n *realNode) add(t *testing.T, size int64) (v *csitest.Volume, handle, image string) {
	t.Helper()
	const name = "pvc-1"
	image = filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(image, nil, 0o600))
	must(t, os.Truncate(image, size))
	return n.attach(t, name, image), csitest.ID(name).String(), image
}

func (n *realNode) attach(t *testing.T, name, image string) *csitest.Volume {
	t.Helper()
	out, err := exec.Command("losetup", "-f", "--show", image).Output()
	must(t, err)
	device := strings.TrimSpace(string(out))
	t.Cleanup(func() { must(t, exec.Command("losetup", "-d", device).Run()) })
	id := csitest.ID(name)
	n.devices[id.Name] = device
	return n.host.Add(id, 0)
}

// write writes through the volume's device: what udev has read of it before stays in the device's cache, whatever becomes of the image.
func (n *realNode) write(t *testing.T, data []byte, off int64) {
	t.Helper()
	f, err := os.OpenFile(n.devices[csitest.ID("pvc-1").Name], os.O_WRONLY|os.O_SYNC, 0)
	must(t, err)
	_, err = f.WriteAt(data, off)
	must(t, err)
	must(t, f.Close())
}

const mib = 1 << 20

func TestRealNode_filesystems(t *testing.T) {
	for _, fsType := range []string{"ext4", "xfs", "btrfs"} {
		t.Run(fsType, func(t *testing.T) {
			n := newRealNode(t)
			_, handle, image := n.add(t, 400*mib)
			want := filesystem(fsType, "noatime")
			for range 2 {
				must(t, n.stage(t, handle, want))
				must(t, n.publish(t, handle, "pod/a", want, false))
				must(t, n.publish(t, handle, "pod/b", want, true))
			}
			must(t, os.WriteFile(n.path(t, "pod/a/file"), []byte("written"), 0o600))
			if err := os.WriteFile(n.path(t, "pod/b/file"), nil, 0o600); !errors.Is(err, unix.EROFS) {
				t.Errorf("the read-only place takes writes: %v", err)
			}
			if fsType == "ext4" && !mayGrowExt4(t) {
				t.Log("not grown: growing ext4 online needs CAP_SYS_RESOURCE")
			} else {
				n.grow(t, handle, image, 600*mib)
			}
			open, err := os.Open(n.path(t, "pod/a/file"))
			must(t, err)
			wantCode(t, n.unpublish(t, handle, "pod/a"), codes.Internal)
			if _, err := os.Stat(n.path(t, "pod/a/file")); err != nil {
				t.Errorf("a busy mount was taken away: %v", err)
			}
			must(t, open.Close())
			for range 2 {
				must(t, n.unpublish(t, handle, "pod/a"))
				must(t, n.unpublish(t, handle, "pod/b"))
				must(t, n.unstage(t, handle))
			}
			if _, err := os.Stat(n.path(t, "pod/a")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the target is left: %v", err)
			}
			must(t, n.stage(t, handle, want))
			text, err := os.ReadFile(n.path(t, "staging/globalmount/file"))
			if err != nil || string(text) != "written" {
				t.Errorf("read %q, %v", text, err)
			}
			must(t, n.unstage(t, handle))
			other := map[string]string{"ext4": "xfs", "xfs": "btrfs", "btrfs": "ext4"}[fsType]
			wantCode(t, n.stage(t, handle, filesystem(other)), codes.FailedPrecondition)
		})
	}
}

// grow expands the volume through its read-only place.
func (n *realNode) grow(t *testing.T, handle, image string, size int64) {
	t.Helper()
	before := n.totalBytes(t, handle, "pod/a")
	must(t, os.Truncate(image, size))
	must(t, exec.Command("losetup", "-c", n.devices[csitest.ID("pvc-1").Name]).Run())
	_, err := n.NodeExpandVolume(t.Context(), &csi.NodeExpandVolumeRequest{
		VolumeId: handle, VolumePath: n.path(t, "pod/b"), CapacityRange: &csi.CapacityRange{RequiredBytes: size},
	})
	must(t, err)
	if after := n.totalBytes(t, handle, "pod/b"); after < before+150*mib {
		t.Errorf("grown from %d to %d bytes", before, after)
	}
}

func mayGrowExt4(t *testing.T) bool {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	must(t, err)
	_, rest, _ := strings.Cut(string(text), "CapEff:\t")
	var caps uint64
	_, err = fmt.Sscanf(rest, "%x", &caps)
	must(t, err)
	return caps&(1<<unix.CAP_SYS_RESOURCE) != 0
}

func (n *realNode) totalBytes(t *testing.T, handle, name string) int64 {
	t.Helper()
	s, err := n.NodeGetVolumeStats(t.Context(), &csi.NodeGetVolumeStatsRequest{VolumeId: handle, VolumePath: n.path(t, name)})
	must(t, err)
	if s.GetVolumeCondition().GetAbnormal() {
		t.Errorf("condition is %v", s.GetVolumeCondition())
	}
	return s.GetUsage()[0].GetTotal()
}

func TestRealNode_block(t *testing.T) {
	n := newRealNode(t)
	_, handle, image := n.add(t, 64*mib)
	for range 2 {
		must(t, n.stage(t, handle, block()))
		must(t, n.publish(t, handle, "pod/dev", block(), false))
	}
	f, err := os.OpenFile(n.path(t, "pod/dev"), os.O_WRONLY|os.O_SYNC, 0)
	must(t, err)
	_, err = f.Write([]byte("raw data"))
	must(t, err)
	must(t, f.Close())
	if got := n.totalBytes(t, handle, "pod/dev"); got != 64*mib {
		t.Errorf("size is %d", got)
	}
	wantCode(t, n.publish(t, handle, "pod/other", alone(block()), false), codes.FailedPrecondition)
	must(t, n.unpublish(t, handle, "pod/dev"))
	must(t, n.unstage(t, handle))
	wantCode(t, n.stage(t, handle, filesystem("ext4")), codes.FailedPrecondition)
	text, err := os.ReadFile(image)
	if err != nil || !bytes.HasPrefix(text, []byte("raw data")) {
		t.Errorf("the data is gone: %q, %v", text[:16], err)
	}
}

func TestRealNode_newVolumeOverOldData(t *testing.T) {
	n := newRealNode(t)
	v, handle, _ := n.add(t, 400*mib)
	// again is another volume in its place, made an hour later: LVM removed what it knows, and could not remove it all.
	again := func(age time.Duration) {
		v.New, v.LV, v.Created = true, v.LV+"x", time.Now().Add(age).Unix()
	}
	must(t, n.stage(t, handle, filesystem("ext4")))
	must(t, os.WriteFile(n.path(t, "staging/globalmount/secret"), bytes.Repeat([]byte("x"), mib), 0o600))
	must(t, n.unstage(t, handle))
	again(-time.Hour)
	wantCode(t, n.stage(t, handle, filesystem("ext4")), codes.FailedPrecondition)
	for _, fsType := range []string{"xfs", "ext4", "btrfs"} {
		again(time.Hour)
		must(t, n.stage(t, handle, filesystem(fsType)))
		if entries, _ := filepath.Glob(n.path(t, "staging/globalmount/s*")); len(entries) != 0 {
			t.Errorf("%s shows %v", fsType, entries)
		}
		must(t, n.unstage(t, handle))
	}
	// A btrfs does not tell its age.
	again(time.Hour)
	wantCode(t, n.stage(t, handle, filesystem("btrfs")), codes.FailedPrecondition)
	n.write(t, make([]byte, mib), 0)
	// A call that was killed in the midst of mkfs.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := fs.New(run.Real{}).Format(ctx, n.devices[csitest.ID("pvc-1").Name], fs.Make{Type: "ext4"}); err == nil {
		t.Error("formatted")
	}
	must(t, n.stage(t, handle, filesystem("ext4")))
	must(t, n.unstage(t, handle))
}

// TestRealNode_copyBesideItsSource mounts a copy, which is larger, while its source is mounted.
func TestRealNode_copyBesideItsSource(t *testing.T) {
	for _, fsType := range []string{"ext4", "xfs", "btrfs"} {
		t.Run(fsType, func(t *testing.T) {
			n := newRealNode(t)
			_, handle, image := n.add(t, 400*mib)
			want := filesystem(fsType)
			must(t, n.stage(t, handle, want))
			must(t, os.WriteFile(n.path(t, "staging/globalmount/file"), []byte("written"), 0o600))
			unix.Sync()
			copied := filepath.Join(t.TempDir(), "copy")
			must(t, exec.Command("cp", "--sparse=always", image, copied).Run())
			must(t, os.Truncate(copied, 500*mib))
			n.attach(t, "pvc-2", copied).New = false
			second := csitest.ID("pvc-2").String()
			for range 2 {
				_, err := n.NodeStageVolume(t.Context(), &csi.NodeStageVolumeRequest{
					VolumeId: second, StagingTargetPath: n.path(t, "staging2/globalmount"), VolumeCapability: want,
				})
				must(t, err)
				text, err := os.ReadFile(n.path(t, "staging2/globalmount/file"))
				if err != nil || string(text) != "written" {
					t.Errorf("read %q, %v", text, err)
				}
				must(t, os.WriteFile(n.path(t, "staging2/globalmount/other"), nil, 0o600))
				if _, err := os.Stat(n.path(t, "staging/globalmount/other")); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("the source shows what was written to its copy: %v", err)
				}
				if got := n.totalBytes(t, second, "staging2/globalmount"); got < 420*mib {
					t.Errorf("the copy has %d bytes", got)
				}
				_, err = n.NodeUnstageVolume(t.Context(), &csi.NodeUnstageVolumeRequest{
					VolumeId: second, StagingTargetPath: n.path(t, "staging2/globalmount"),
				})
				must(t, err)
			}
			must(t, n.unstage(t, handle))
		})
	}
}

// TestRealNode_restageBesideItsPod: only the mount of the pod is left.
func TestRealNode_restageBesideItsPod(t *testing.T) {
	for _, fsType := range []string{"ext4", "xfs", "btrfs"} {
		t.Run(fsType, func(t *testing.T) {
			n := newRealNode(t)
			_, handle, _ := n.add(t, 400*mib)
			want := filesystem(fsType)
			must(t, n.stage(t, handle, want))
			must(t, n.publish(t, handle, "pod/a", want, false))
			must(t, unix.Unmount(n.path(t, "staging/globalmount"), 0))
			must(t, n.stage(t, handle, want))
			must(t, os.WriteFile(n.path(t, "staging/globalmount/file"), []byte("written"), 0o600))
			if text, err := os.ReadFile(n.path(t, "pod/a/file")); err != nil || string(text) != "written" {
				t.Errorf("the pod reads %q, %v", text, err)
			}
			must(t, n.unpublish(t, handle, "pod/a"))
			must(t, n.unstage(t, handle))
		})
	}
}

// TestRealNode_checkOfAnEarlierAgent: while e2fsck has the device, nothing else is done to it, and afterwards it is mounted.
func TestRealNode_checkOfAnEarlierAgent(t *testing.T) {
	n := newRealNode(t)
	_, handle, _ := n.add(t, 400*mib)
	want := filesystem("ext4")
	must(t, n.stage(t, handle, want))
	must(t, n.unstage(t, handle))
	device := n.devices[csitest.ID("pvc-1").Name]
	check := exec.Command("/usr/sbin/e2fsck", "-f", "-p", "-C", "1", device)
	check.Stdout = fullPipe(t)
	must(t, check.Start())
	awaitHeldUp(t, check.Process.Pid)
	for range 2 {
		wantCode(t, n.stage(t, handle, want), codes.Aborted)
	}
	must(t, check.Process.Kill())
	if err := check.Wait(); err == nil {
		t.Error("the check ended by itself")
	}
	must(t, n.stage(t, handle, want))
	must(t, n.unstage(t, handle))
}

// fullPipe returns the end of a pipe that holds up whoever writes to it: nobody reads.
func fullPipe(t *testing.T) *os.File {
	t.Helper()
	var ends [2]int
	must(t, unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK))
	t.Cleanup(func() { unix.Close(ends[0]) })
	for {
		_, err := unix.Write(ends[1], make([]byte, 4096))
		if errors.Is(err, unix.EAGAIN) {
			break
		}
		must(t, err)
	}
	must(t, unix.SetNonblock(ends[1], false))
	w := os.NewFile(uintptr(ends[1]), "pipe")
	t.Cleanup(func() { w.Close() })
	return w
}

// awaitHeldUp waits until a process sleeps and goes on sleeping. One that waits for a disk does not sleep in this sense.
func awaitHeldUp(t *testing.T, pid int) {
	t.Helper()
	asleep := 0
	for limit := time.Now().Add(20 * time.Second); asleep < 10; time.Sleep(20 * time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		must(t, err)
		if time.Now().After(limit) {
			t.Fatalf("process %d is not held up: %s", pid, stat)
		}
		if asleep++; !strings.Contains(string(stat), ") S ") {
			asleep = 0
		}
	}
}

// TestRealNode_killedWhileUUIDChanges: a copy whose UUID is being changed is usable whenever that dies.
func TestRealNode_killedWhileUUIDChanges(t *testing.T) {
	n := newRealNode(t)
	v, handle, _ := n.add(t, 400*mib)
	want := filesystem("btrfs")
	must(t, n.stage(t, handle, want))
	must(t, os.WriteFile(n.path(t, "staging/globalmount/file"), []byte("written"), 0o600))
	must(t, n.unstage(t, handle))
	device, killed := n.devices[csitest.ID("pvc-1").Name], 0
	for i := range 12 {
		v.LV += "x" // as if it were a copy of itself
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*5*time.Millisecond)
		if err := fs.New(run.Real{}).Own(ctx, device, "btrfs", uuid.NewString()); err != nil {
			killed++
		}
		cancel()
		must(t, n.stage(t, handle, want))
		if text, err := os.ReadFile(n.path(t, "staging/globalmount/file")); err != nil || string(text) != "written" {
			t.Errorf("read %q, %v", text, err)
		}
		must(t, n.unstage(t, handle))
	}
	if killed == 0 {
		t.Log("the program was too fast to be killed")
	}
}

// TestRealNode_ext4Errors: a damaged filesystem turns read-only by itself.
func TestRealNode_ext4Errors(t *testing.T) {
	n := newRealNode(t)
	_, handle, _ := n.add(t, 64*mib)
	must(t, n.stage(t, handle, filesystem("ext4")))
	out, err := exec.Command("dumpe2fs", "-h", n.devices[csitest.ID("pvc-1").Name]).Output()
	must(t, err)
	if !strings.Contains(string(out), "Remount read-only") {
		t.Errorf("%s", out)
	}
	must(t, n.unstage(t, handle))
}

func TestRealNode_neverFormatsWhatHoldsData(t *testing.T) {
	for name, content := range map[string]struct {
		off  int64
		text string
	}{
		"unknown data at the start":     {8192, "x"},
		"unknown data at the end":       {400*mib - 1, "x"},
		"the copy of a lost superblock": {128*mib + 1080, "\x53\xef"},
		"a partition table":             {510, "\x55\xaa"},
		"the start of LUKS":             {0, "LUKS\xba\xbe"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newRealNode(t)
			v, handle, _ := n.add(t, 400*mib)
			v.New = false
			n.write(t, []byte(content.text), content.off)
			wantCode(t, n.stage(t, handle, filesystem("ext4")), codes.FailedPrecondition)
			out, err := exec.Command("blkid", "-p", n.devices[csitest.ID("pvc-1").Name]).Output()
			if strings.Contains(string(out), "ext4") {
				t.Errorf("formatted: %s, %v", out, err)
			}
		})
	}
}
