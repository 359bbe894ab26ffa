//go:build hostroot

package inventory

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quarry.storage/quarry/agent/internal/host/block"
	"quarry.storage/quarry/agent/internal/host/disk"
	"quarry.storage/quarry/agent/internal/host/lvm"
	"quarry.storage/quarry/agent/internal/host/mount"
	"quarry.storage/quarry/agent/internal/host/run"
	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/pkg/quarry"
)

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
	if err := os.Truncate(img, 100<<20); err != nil {
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
		ProbeTypes: []string{"loop"},
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
		h.lvm.CreatePV(t.Context(), a, uuidA),
		h.lvm.CreatePV(t.Context(), b, uuidB),
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

// expectInspectedAsObserved wants one look through an open file to give the digest of an observation.
func (h host) expectInspectedAsObserved(t *testing.T, dev string) {
	t.Helper()
	d, _ := h.observe(t, dev)
	f, err := os.Open(dev)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	inspected, err := h.inv.Inspect(f)
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
