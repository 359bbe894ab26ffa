//go:build hostroot

package inventory

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/agent/internal/host/block"
	"quarry.storage/quarry/agent/internal/host/disk"
	"quarry.storage/quarry/agent/internal/host/lvm"
	"quarry.storage/quarry/agent/internal/host/mount"
	"quarry.storage/quarry/agent/internal/host/occupant"
	"quarry.storage/quarry/agent/internal/host/run"
	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/pkg/quarry"
	"quarry.storage/quarry/pkg/refusal"
)

// testSize is the size of a disk.
const testSize = 100 << 20

// loop makes a throw-away loop device.
func loop(t *testing.T) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	img := filepath.Join(t.TempDir(), "disk.img")
	if err := os.WriteFile(img, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(img, testSize); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("losetup", "-f", "--show", img).Output()
	if err != nil {
		t.Skipf("losetup: %v", err)
	}
	dev := strings.TrimSpace(string(out))
	t.Cleanup(func() {
		if err := exec.Command("losetup", "-d", dev).Run(); err != nil {
			t.Errorf("losetup -d %s: %v", dev, err)
		}
	})
	return dev
}

// host is the real host, and what ran on it.
type host struct {
	inv   *Inventory
	lvm   *lvm.LVM
	disk  *disk.Tool
	count *run.Counting
}

func realHost(t *testing.T) host {
	t.Helper()
	if _, err := os.Stat(lvm.DefaultBinary); err != nil {
		t.Skipf("LVM is not installed: %v", err)
	}
	dm, err := os.Open("/dev/mapper/control")
	if err == nil {
		dm.Close()
	}
	h := host{disk: disk.New(), count: &run.Counting{Next: run.Real{}}}
	h.lvm, err = lvm.New(lvm.Config{Runner: h.count, Dir: filepath.Join(t.TempDir(), "lvm"), WithoutDeviceMapper: err != nil})
	if err != nil {
		t.Fatal(err)
	}
	h.inv, err = New(Config{
		Block: block.New(block.Config{WithoutUdev: true}), Mounts: mount.New(mount.Config{}), Prober: h.disk, LVM: h.lvm,
		ProbeTypes: []string{"loop"}, Occupants: occupant.New(occupant.Config{}),
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// observe returns one device and the whole snapshot.
func (h host) observe(t *testing.T, dev string) (plan.Device, plan.Snapshot) {
	t.Helper()
	snap, err := h.inv.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d, ok := snap.Find(dev)
	if !ok {
		t.Fatalf("no %s in %+v", dev, snap)
	}
	return d, snap
}

const (
	testGroup = "quarry-inventory-test"
	uuidA     = "INVENT-aaaa-bbbb-cccc-dddd-eeee-ffffff"
	uuidB     = "INVENT-bbbb-bbbb-cccc-dddd-eeee-ffffff"
	uuidC     = "INVENT-cccc-bbbb-cccc-dddd-eeee-ffffff"
)

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func TestHost_lifeOfAGroup(t *testing.T) {
	h := realHost(t)
	a, b := loop(t), loop(t)
	accept := func(*os.File) error { return nil }

	h.expectClean(t, a)
	if h.count.Count() > 0 {
		t.Errorf("%d commands without a physical volume", h.count.Count())
	}
	must(t,
		h.lvm.CreatePV(t.Context(), a, uuidA, testSize),
		h.lvm.CreatePV(t.Context(), b, uuidB, testSize),
		h.lvm.CreateVG(t.Context(), testGroup, []string{quarry.TagCluster + "uid"}, []string{a}))

	before := h.count.Count()
	d, snap := h.observe(t, a)
	if h.count.Count() != before+1 {
		t.Errorf("%d commands", h.count.Count()-before)
	}
	if d.Group != testGroup || d.OwnerUID != "uid" || d.PVUUID != uuidA || len(d.Unreadable) > 0 || d.ContentDigest != "" {
		t.Errorf("in the group: %+v", d)
	}
	n := slices.IndexFunc(snap.Groups, func(g plan.Group) bool { return g.Name == testGroup })
	if n < 0 || len(snap.Groups[n].PVs) != 1 || snap.Groups[n].PVs[0].Path != a || snap.Groups[n].Partial {
		t.Errorf("groups: %+v", snap.Groups)
	}
	if d, _ := h.observe(t, b); d.Group != "" || d.PVUUID != uuidB || len(d.Unreadable) > 0 {
		t.Errorf("without a group: %+v", d)
	}

	must(t,
		h.lvm.RemoveVG(t.Context(), testGroup, []string{a}),
		h.disk.Release(t.Context(), a, uuidA, accept),
		h.disk.Release(t.Context(), b, uuidB, accept))
	h.expectClean(t, a)
	h.expectClean(t, b)
}

// TestHost_groupThatCannotBeReported: a lock that another program holds, and damaged metadata, hide the group that they concern and no other.
func TestHost_groupThatCannotBeReported(t *testing.T) {
	const other, another = "quarry-inventory-other", "quarry-inventory-another"
	for _, c := range []struct {
		name string
		tags []string
		// hide makes the other group one that LVM cannot report, and returns how that ends.
		hide func(t *testing.T, dev string) (end func())
		// names is true where the group is known by name then, knows where it counts as one that may be ours.
		names, knows bool
	}{
		{"the lock of a foreign group is held", nil, func(t *testing.T, _ string) func() { return holdLock(t, other) }, true, false},
		{"the lock of one of ours is held", []string{quarry.TagCluster + "other"}, func(t *testing.T, _ string) func() { return holdLock(t, other) }, true, true},
		{"the metadata of a foreign group is damaged", nil, damage, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := realHost(t)
			// Twice what a report takes that nobody holds up, on nodes that have much else to do.
			h.inv.cfg.ReportTimeout = 8 * time.Second
			a, b, free := loop(t), loop(t), loop(t)
			must(t,
				h.lvm.CreatePV(t.Context(), a, uuidA, testSize), h.lvm.CreatePV(t.Context(), b, uuidB, testSize), h.lvm.CreatePV(t.Context(), free, uuidC, testSize),
				h.lvm.CreateVG(t.Context(), testGroup, []string{quarry.TagCluster + "uid"}, []string{a}),
				h.lvm.CreateVG(t.Context(), other, c.tags, []string{b}))
			end := c.hide(t, b)
			hidden, snap := h.observe(t, b)
			own, _ := h.observe(t, a)
			single, _ := h.observe(t, free)
			end()
			if !slices.ContainsFunc(snap.Groups, func(g plan.Group) bool { return g.Name == testGroup && !g.Partial }) || len(own.Unreadable) > 0 || own.OwnerUID != "uid" {
				t.Errorf("ours: %+v, %+v", snap.Groups, own)
			}
			if len(single.Unreadable) > 0 || single.PVUUID != uuidC {
				t.Errorf("without a group: %+v", single)
			}
			if len(hidden.Unreadable) == 0 || (hidden.Group == other) != c.names {
				t.Errorf("the other one: %+v", hidden)
			}
			if known := len(snap.UnknownGroups) == 1; known != c.knows || slices.Contains(snap.ForeignGroups, other) == c.knows {
				t.Errorf("unknown %+v, foreign %q", snap.UnknownGroups, snap.ForeignGroups)
			}
			if again, _ := h.observe(t, b); len(again.Unreadable) > 0 || again.Group != other {
				t.Errorf("after it healed: %+v", again)
			}
		})
	}
}

// holdLock holds LVM's lock of a group, as a command of another program does that hangs.
func holdLock(t *testing.T, group string) (release func()) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(lvm.DefaultLockDir, "V_"+group), os.O_RDWR|os.O_CREATE, 0o600)
	must(t, err)
	must(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
	return sync.OnceFunc(func() { f.Close() })
}

// damage writes over the metadata of the group on a device, and returns how it is brought back.
func damage(t *testing.T, dev string) (repair func()) {
	t.Helper()
	f, err := os.OpenFile(dev, os.O_RDWR|unix.O_DSYNC, 0)
	must(t, err)
	const area, bytes = 4096, 1<<20 - 4096
	was := make([]byte, bytes)
	_, err = f.ReadAt(was, area)
	must(t, err)
	text := area + int64(binary.LittleEndian.Uint64(was[40:]))
	_, err = f.WriteAt(make([]byte, 20), text+10)
	must(t, err)
	return sync.OnceFunc(func() {
		_, err := f.WriteAt(was, area)
		must(t, err, f.Close())
	})
}

// expectClean wants every fact of an empty device that nothing uses.
func (h host) expectClean(t *testing.T, dev string) {
	t.Helper()
	d, _ := h.observe(t, dev)
	empty := d.HeadTailZero && len(d.Signatures) == 0 && d.PVUUID == ""
	if !empty || len(d.Unreadable) > 0 || d.ContentDigest == "" || d.Type != "loop" {
		t.Errorf("%+v", d)
	}
}

func TestHost_mountsAndSwap(t *testing.T) {
	h := realHost(t)
	dev := loop(t)
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", "-L", "lbl", dev).CombinedOutput(); err != nil {
		t.Skipf("mkfs.ext4: %v: %s", err, out)
	}
	dir := t.TempDir()
	if out, err := exec.Command("mount", dev, dir).CombinedOutput(); err != nil {
		t.Skipf("mount: %v: %s", err, out)
	}
	d, _ := h.observe(t, dev)
	free, err := h.inv.Exclusive(t.Context(), d)
	if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
		t.Fatalf("umount: %v: %s", err, out)
	}
	if err != nil || free {
		t.Errorf("mounted, and free for others: %t, %v", free, err)
	}
	if len(d.Signatures) != 1 || d.Signatures[0].Label != "lbl" {
		t.Errorf("mounted: %+v", d)
	}
	// Where the tests run in a mount namespace of their own, process 1 does not see the mount; an exclusive open does.
	if same, _ := sameNamespace(); same && !slices.Equal(d.Mounts, []string{dir}) {
		t.Errorf("mounts: %q", d.Mounts)
	}
	h.expectInspectedAsObserved(t, dev)
}

// TestHost_twoPathsToOneDisk: the kernel's own simulator shows one disk on two hosts.
func TestHost_twoPathsToOneDisk(t *testing.T) {
	h := realHost(t)
	if out, err := exec.Command("modprobe", "scsi_debug", "dev_size_mb=64", "add_host=2", "vpd_use_hostno=0").CombinedOutput(); err != nil {
		t.Skipf("the kernel cannot simulate a disk with two paths (scsi_debug), the lab's can: run make conformance: %v: %s", err, out)
	}
	t.Cleanup(func() {
		// udev may still look at the disks.
		script := "for i in $(seq 100); do udevadm settle; rmmod scsi_debug && exit 0; sleep 0.1; done 2>/dev/null; exit 1"
		if err := exec.Command("sh", "-c", script).Run(); err != nil {
			t.Errorf("rmmod: %v", err)
		}
	})
	var found []plan.Device
	for deadline := time.Now().Add(10 * time.Second); len(found) < 2 && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		snap, err := h.inv.Observe(t.Context())
		must(t, err)
		found = slices.DeleteFunc(snap.Devices, func(d plan.Device) bool { return d.Model != "scsi_debug" })
	}
	if len(found) != 2 {
		t.Fatalf("found %+v", found)
	}
	for i, d := range found {
		other := found[1-i].KernelName
		refused := slices.ContainsFunc(plan.Judge(d, plan.Policy{}), func(r plan.Refusal) bool { return r.Reason == refusal.TwoPaths })
		if !slices.Equal(d.Paths, []string{other}) || !refused {
			t.Errorf("%s has the paths %v, want %s; refused for them: %t", d.KernelName, d.Paths, other, refused)
		}
	}
}

// expectInspectedAsObserved wants one look through an open file to give the digest of an observation.
func (h host) expectInspectedAsObserved(t *testing.T, dev string) {
	t.Helper()
	d, _ := h.observe(t, dev)
	f, err := os.Open(dev)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	inspected, err := h.inv.Inspect(t.Context(), f)
	if err != nil || plan.Digest(inspected) == "" || plan.Digest(inspected) != plan.Digest(d) {
		t.Errorf("inspected %+v, observed %+v: %v", inspected, d, err)
	}
}

func sameNamespace() (bool, error) {
	own, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return false, err
	}
	first, err := os.Readlink("/proc/1/ns/mnt")
	return own == first, err
}
