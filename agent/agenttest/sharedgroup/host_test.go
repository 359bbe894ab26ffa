//go:build hostroot

package sharedgroup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quarry.storage/quarry/agent/internal/host/disk"
	"quarry.storage/quarry/agent/internal/host/dm/linear"
	"quarry.storage/quarry/agent/internal/host/fs"
	"quarry.storage/quarry/agent/internal/host/lvm"
	"quarry.storage/quarry/agent/internal/host/lvm/shared"
	"quarry.storage/quarry/agent/internal/host/run"
	"quarry.storage/quarry/agent/internal/sharedgroup"
	"quarry.storage/quarry/agent/internal/sharedgroup/epoch"
	"quarry.storage/quarry/agent/internal/sharedgroup/tools"
	"quarry.storage/quarry/pkg/sharedlun"
	"quarry.storage/quarry/pkg/systemid"
)

// disksVariable names spare disks: everything on them is lost.
const disksVariable = "QUARRY_TEST_DISKS"

// lunDisk is an empty disk that plays the LUN. Both nodes of a site are this one.
func lunDisk(t *testing.T) string {
	t.Helper()
	list := os.Getenv(disksVariable)
	if os.Getuid() != 0 || list == "" {
		t.Skipf("needs root, and a spare disk in %s: run make conformance", disksVariable)
	}
	// The node is the same one for LVM and device-mapper, whatever link leads to it.
	path, err := filepath.EvalSymlinks(strings.Split(list, ",")[0])
	if err != nil {
		t.Fatal(err)
	}
	clear := func() {
		script := fmt.Sprintf(`dmsetup info -c --noheadings -o name | grep '^quarry-' | xargs -r -n1 dmsetup remove -f; udevadm settle
			dd if=/dev/zero of=%[1]s bs=1M count=64 conv=fsync; dd if=/dev/zero of=%[1]s bs=1M seek=$(($(blockdev --getsize64 %[1]s) / 1048576 - 8)) conv=fsync; udevadm settle; true`, path)
		if out, err := exec.Command("sh", "-c", script).CombinedOutput(); err != nil {
			t.Errorf("clear: %v\n%s", err, out)
		}
	}
	clear()
	t.Cleanup(clear)
	return path
}

// bench is a LUN on a real disk: what a target would keep of it is kept here.
type bench struct {
	path     string
	identity sharedlun.Identity
	swapped  bool
	keys     []uint64
}

func newBench(t *testing.T) *bench {
	b := &bench{path: lunDisk(t), keys: []uint64{0xa, 0xb}}
	f, err := os.Open(b.path)
	must(t, err)
	defer f.Close()
	size, err := f.Seek(0, 2)
	must(t, err)
	b.identity = sharedlun.Identity{WWID: "naa.60014050000000000000000000000001", Serial: "bench", SizeBytes: size}
	return b
}

func (b *bench) Device(_ context.Context, lun sharedlun.Identity) (string, error) {
	seen := b.identity
	if b.swapped {
		seen.Serial = "other"
	}
	return b.path, lun.Same(seen)
}

func (b *bench) preempt(key uint64) {
	b.keys = slices.DeleteFunc(b.keys, func(k uint64) bool { return k == key })
}

// host is one node of a bench.
type host struct {
	*bench
	service *sharedgroup.Service
	key     uint64
	dir     string
	runner  run.Runner
}

func (b *bench) node(t *testing.T, key uint64, runner run.Runner) *host {
	h := &host{bench: b, key: key, dir: t.TempDir(), runner: runner}
	h.Restart(t)
	t.Cleanup(func() { h.service.Close() })
	return h
}

// Confirm asks what stands for the target.
func (h *host) Confirm(_ context.Context, _ sharedlun.Identity, key uint64) (sharedlun.Reservation, error) {
	r := sharedlun.Reservation{Supported: true, Keys: h.keys, Type: sharedlun.WriteExclusiveAllRegistrants}
	if key != h.key {
		return r, sharedlun.ErrNoKey
	}
	return r, r.Writable(key)
}

// Astray tells what the bench says of the LUN. All devices of the group stand on that.
func (h *host) Astray(ctx context.Context, lun sharedlun.Identity, group string) (volumes []string, says string, err error) {
	if !h.swapped {
		return nil, "", nil
	}
	all, err := linear.New(linear.Config{Runner: h.runner}).List(ctx, group)
	for _, d := range all {
		if d.Linear {
			volumes = append(volumes, d.UUID)
		}
	}
	return volumes, "another LUN than " + lun.WWID, err
}

func (h *host) Agent() *sharedgroup.Service { return h.service }

func (h *host) Key() uint64 { return h.key }

func (h *host) Restart(t testing.TB) {
	if h.service != nil {
		h.service.Close()
	}
	l, err := lvm.New(lvm.Config{Runner: h.runner, Dir: filepath.Join(h.dir, "lvm"), SystemID: systemid.Of(fmt.Sprintf("n%d", h.key))})
	if err != nil {
		t.Fatal(err)
	}
	h.service = sharedgroup.New(context.WithoutCancel(t.Context()), sharedgroup.Config{
		Node: map[uint64]string{0xa: "n1", 0xb: "n2"}[h.key], Luns: h, Groups: tools.Groups{LVM: shared.New(l), Disks: disk.New()},
		Devices: tools.Devices{DM: linear.New(linear.Config{Runner: h.runner})}, Epochs: epoch.Files{Dir: filepath.Join(h.dir, "shared")},
		Filesystems: tools.Filesystems{FS: fs.New(h.runner)},
	})
}

func node(volume string) string { return "/dev/mapper/quarry-" + volume }

func (h *host) Write(volume string, at int64) error {
	f, err := os.OpenFile(node(volume), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(bytes.Repeat([]byte("x"), 4096), at)
	return errors.Join(err, f.Sync(), f.Close())
}

func (h *host) Blank(volume string, from, to int64) bool {
	f, err := os.Open(node(volume))
	if err != nil {
		return false
	}
	defer f.Close()
	content := make([]byte, to-from)
	n, err := f.ReadAt(content, from)
	return err == nil && n == len(content) && bytes.Count(content, []byte{0}) == n
}

// Contradict puts the first sector of an XFS before an ext4.
func (h *host) Contradict(volume string) error {
	image := filepath.Join(h.dir, "xfs")
	for _, argv := range [][]string{
		{"truncate", "-s", "512M", image},
		{"mkfs.xfs", "-q", "-f", image},
		{"mkfs.ext4", "-q", "-F", node(volume)},
		{"dd", "if=" + image, "of=" + node(volume), "bs=512", "count=1", "conv=notrunc,fsync"},
		{"rm", image},
	} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w\n%s", argv, err, out)
		}
	}
	if !h.Several(volume) {
		return errors.New("blkid can tell which filesystem it is")
	}
	return nil
}

// Several asks blkid.
func (h *host) Several(volume string) bool {
	var exit *exec.ExitError
	return errors.As(exec.Command("blkid", "-p", node(volume)).Run(), &exit) && exit.ExitCode() == 8
}

func (h *host) Open(volume string) (func(), error) {
	f, err := os.Open(node(volume))
	if err != nil {
		return nil, err
	}
	return func() { f.Close() }, nil
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// TestRealHost_contract holds the real tools to the contract.
func TestRealHost_contract(t *testing.T) {
	Contract(t, func(t *testing.T) Site {
		b := newBench(t)
		return Site{
			A: b.node(t, 0xa, run.Real{}), B: b.node(t, 0xb, run.Real{}), Lun: b.identity,
			Soil: func() {
				out, err := exec.Command("mkfs.ext4", "-q", "-F", b.path).CombinedOutput()
				if err != nil {
					t.Fatalf("mkfs: %v\n%s", err, out)
				}
			},
			Swap: func() { b.swapped = true }, Preempt: b.preempt,
		}
	})
}

// TestRealHost_plainLVM: LVM that does not know the system ID leaves the group alone.
func TestRealHost_plainLVM(t *testing.T) {
	b := newBench(t)
	c := &check{T: t, Site: Site{A: b.node(t, 0xa, run.Real{}), Lun: b.identity}, ref: sharedlun.Ref{Lun: b.identity, OwnerUID: contractOwner}, epoch: 1}
	v := c.made()
	for _, command := range []string{
		"lvcreate -an -Zn -Wn -n x -L 4m " + contractGroup, "lvchange -ay " + contractGroup + "/" + v.Name, "vgchange -ay " + contractGroup,
		"lvremove -f " + contractGroup + "/" + v.Name, "vgremove -ff -y " + contractGroup, "vgchange --systemid x " + contractGroup,
		"vgrename " + contractGroup + " other", "vgreduce --removemissing --force " + contractGroup,
	} {
		args := append(strings.Fields(command), "--devices", b.path)
		if out, err := exec.Command("/usr/sbin/lvm", args...).CombinedOutput(); err == nil || !strings.Contains(string(out), "Cannot access VG") {
			t.Errorf("%s: %v\n%s", command, err, out)
		}
	}
	seen, err := c.A.Agent().Get(t.Context(), c.ref)
	must(t, err)
	if seen.Group == nil || seen.Group.Sequence != c.group.Sequence || len(seen.Group.Volumes) != 1 {
		t.Errorf("the group changed: %+v, before %+v", seen.Group, c.group)
	}
	if entries, err := os.ReadDir("/dev/" + contractGroup); err == nil {
		t.Errorf("something of the group is active: %v", entries)
	}
}
