//go:build hostroot

package ceph

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/agent/internal/apply"
	applydisk "quarry.storage/quarry/agent/internal/apply/disk"
	"quarry.storage/quarry/agent/internal/host/block"
	hostceph "quarry.storage/quarry/agent/internal/host/ceph"
	hostdisk "quarry.storage/quarry/agent/internal/host/disk"
	"quarry.storage/quarry/agent/internal/host/run"
	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/prep"
	"quarry.storage/quarry/pkg/osd"
)

// onLoop sees the loop device behind an open file.
type onLoop struct{}

func (onLoop) Inspect(_ context.Context, f *os.File) (plan.Device, error) {
	facts, err := hostdisk.ProbeFile(f)
	if err != nil {
		return plan.Device{}, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return plan.Device{}, err
	}
	d := plan.Device{
		Major: unix.Major(st.Rdev), Minor: unix.Minor(st.Rdev),
		Path: f.Name(), KernelName: filepath.Base(f.Name()), Type: "loop", SizeBytes: facts.SizeBytes, LogicalSectorBytes: facts.SectorBytes,
		HeadTailZero: facts.HeadTailZero, ContentDigest: facts.ContentDigest, LabelDigest: facts.LabelDigest, Labels: facts.Labels, PVUUID: facts.PVUUID,
		Use: plan.Unused,
	}
	for _, s := range facts.Signatures {
		d.Signatures = append(d.Signatures, plan.Signature{Type: s.Type, Offset: s.Offset, UUID: s.UUID})
	}
	return d, nil
}

// noUdev is a node without udev.
type noUdev struct{}

func (noUdev) Mark(string) (block.Mark, error)               { return block.Mark{}, nil }
func (noUdev) Announce(context.Context, ...block.Mark) error { return nil }

// bench is a loop device, and a container with Ceph's programs.
type bench struct {
	t       *testing.T
	path    string
	applier apply.Applier
}

// newBench takes the directory of CEPH_ROOT, an unpacked image of Ceph, for the root of the container.
func newBench(t *testing.T) *bench {
	t.Helper()
	root := os.Getenv("CEPH_ROOT")
	if root == "" || os.Getuid() != 0 {
		t.Skip("needs root, and an unpacked image of Ceph in the directory that CEPH_ROOT names")
	}
	if _, err := os.Stat(filepath.Join(root, "usr/bin/ceph-osd")); err != nil {
		t.Fatalf("CEPH_ROOT: %v", err)
	}
	image := filepath.Join(t.TempDir(), "disk.img")
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, 2<<30)); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("losetup", "-f", "--show", image).Output()
	if err != nil {
		t.Fatalf("losetup: %v", err)
	}
	dev := strings.TrimSpace(string(out))
	t.Cleanup(func() {
		if err := exec.Command("losetup", "-d", dev).Run(); err != nil {
			t.Error(err)
		}
	})
	var st unix.Stat_t
	if err := unix.Stat(dev, &st); err != nil {
		t.Fatal(err)
	}
	inside, proc := filepath.Join(root, dev), t.TempDir()
	os.Remove(inside)
	if err := errors.Join(
		unix.Mknod(inside, unix.S_IFBLK|0o600, int(st.Rdev)), os.Mkdir(filepath.Join(proc, "7"), 0o755),
		os.WriteFile(filepath.Join(proc, "7/cgroup"), []byte("0::/"+tools), 0o600), os.Symlink(root, filepath.Join(proc, "7/root")),
		os.MkdirAll(filepath.Join(proc, "1/root/var/log/containers"), 0o755),
		os.WriteFile(filepath.Join(proc, "1/root/var/log/containers/pod_quarry-ceph_tools-"+tools+".log"), nil, 0o600), os.WriteFile(filepath.Join(proc, "1/cgroup"), nil, 0o600),
	); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(inside) })
	onDisk := applydisk.Adapter{Tool: hostdisk.New(), Devices: onLoop{}, Udev: noUdev{}}
	onCeph := Adapter{Tool: hostceph.New(hostceph.Config{Runner: run.Real{}, Proc: proc}), Devices: onDisk}
	return &bench{t: t, path: dev, applier: apply.Applier{Adapter: apply.Adapters{onDisk, onCeph}, Guard: onDisk}}
}

// see waits until nobody has the device: the kernel ends the requests of a process that was killed, before it lets go.
func (b *bench) see() plan.Device {
	b.t.Helper()
	for range 500 {
		f, err := os.OpenFile(b.path, os.O_RDONLY|unix.O_EXCL, 0)
		if errors.Is(err, unix.EBUSY) {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if err != nil {
			b.t.Fatal(err)
		}
		defer f.Close()
		d, err := onLoop{}.Inspect(b.t.Context(), f)
		if err != nil {
			b.t.Fatal(err)
		}
		return d
	}
	b.t.Fatal("somebody keeps the device")
	return plan.Device{}
}

func (b *bench) spec() prep.Spec {
	b.t.Helper()
	d := b.see()
	uuid, err := osd.UUID(cluster, osd.Disk{SizeBytes: d.SizeBytes, Node: "n1"}, d.Path)
	if err != nil {
		b.t.Fatal(err)
	}
	want := osd.Wanted{UUID: uuid, FSID: cluster, ID: 7}
	return prep.Spec{Node: "n1", Device: plan.IdentityOf(d), ClusterUID: cluster, Want: want, Tools: tools, Fresh: true, Making: prep.Look(d, want, policy).Making}
}

func (b *bench) kind() osd.Kind { return prep.Look(b.see(), b.spec().Want, policy).Kind }

func (b *bench) do(ctx context.Context, decide func(plan.Snapshot, prep.Spec, plan.Policy) (plan.Plan, error)) (int, error) {
	b.t.Helper()
	p, err := decide(plan.Snapshot{Devices: []plan.Device{b.see()}}, b.spec(), policy)
	if err != nil {
		b.t.Fatal(err)
	}
	return len(p.Steps), b.applier.Apply(ctx, p)
}

// TestHost_mkfsKilled: ceph-osd is killed at many instants. The disk is empty, or that OSD's, whenever one looks, and the repeated call ends the same.
func TestHost_mkfsKilled(t *testing.T) {
	b := newBench(t)
	seen := map[osd.Kind]int{}
	for delay := 20 * time.Millisecond; seen[osd.Ready] < 2 && delay < 10*time.Second; delay += delay / 4 {
		ctx, cancel := context.WithTimeout(t.Context(), delay)
		_, err := b.do(ctx, prep.Prepare)
		cancel()
		kind := b.kind()
		seen[kind]++
		if kind != osd.Empty && kind != osd.Unfinished && kind != osd.Ready || err == nil && kind != osd.Ready {
			t.Fatalf("killed after %s (%v): %s", delay, err, kind)
		}
		b.repeat(fmt.Sprintf("killed after %s at %s", delay, kind))
	}
	if seen[osd.Unfinished] == 0 || seen[osd.Ready] == 0 {
		t.Errorf("the kills met %v", seen)
	}
	t.Logf("killed at %v", seen)
}

// repeat makes the OSD after a call that was killed, and gives the disk back.
func (b *bench) repeat(after string) {
	b.t.Helper()
	for range 2 {
		if _, err := b.do(b.t.Context(), prep.Prepare); err != nil {
			b.t.Fatalf("%s, repeated: %v", after, err)
		}
	}
	if n, err := b.do(b.t.Context(), prep.Prepare); n != 0 || err != nil || b.kind() != osd.Ready {
		b.t.Fatalf("%s: %d steps for a disk that is %s: %v", after, n, b.kind(), err)
	}
	if _, err := b.do(b.t.Context(), prep.Zap); err != nil {
		b.t.Fatal(err)
	}
	if refusals := plan.Judge(b.see(), policy); len(refusals) > 0 {
		b.t.Fatalf("%s, given back: %+v", after, refusals)
	}
}

// TestHost_foreignOSD: an OSD of another Cluster is never made anew, even if somebody zeroed both ends of its disk.
func TestHost_foreignOSD(t *testing.T) {
	b := newBench(t)
	if _, err := b.do(t.Context(), prep.Prepare); err != nil {
		t.Fatal(err)
	}
	other := b.spec()
	other.ClusterUID = "11111111-f7d4-4f0c-9d52-1f5ef2b55d5f"
	other.Want.FSID = other.ClusterUID
	uuid, err := osd.UUID(other.ClusterUID, osd.Disk{SizeBytes: 2 << 30, Node: "n1"}, b.path)
	if err != nil {
		t.Fatal(err)
	}
	other.Want.UUID = uuid
	for _, zeroed := range []bool{false, true} {
		if zeroed {
			f, err := os.OpenFile(b.path, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			_, head := f.WriteAt(make([]byte, 1<<20), 0)
			_, tail := f.WriteAt(make([]byte, 1<<20), 2<<30-1<<20)
			if err := errors.Join(head, tail, f.Close()); err != nil {
				t.Fatal(err)
			}
		}
		d := b.see()
		other.Device = plan.IdentityOf(d)
		for name, decide := range map[string]func(plan.Snapshot, prep.Spec, plan.Policy) (plan.Plan, error){"prepare": prep.Prepare, "zap": prep.Zap} {
			if p, err := decide(plan.Snapshot{Devices: []plan.Device{d}}, other, policy); !errors.Is(err, plan.ErrNotOurs) || len(p.Steps) > 0 {
				t.Errorf("%s, zeroed %t: %v", name, zeroed, err)
			}
		}
	}
	if _, err := b.do(t.Context(), prep.Zap); err != nil || b.kind() != osd.Empty {
		t.Errorf("its own Cluster: %s, %v", b.kind(), err)
	}
}
