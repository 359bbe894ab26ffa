//go:build hostroot

package disk

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/pkg/osd"
	"quarry.storage/quarry/pkg/osd/osdtest"
)

// loopOf attaches a sparse image of the given size to a loop device.
func loopOf(t *testing.T, size int64, args ...string) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	out, err := exec.Command("losetup", append(append([]string{"-f", "--show"}, args...), newImage(t, size))...).Output()
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

// loop attaches an image to a loop device.
func loop(t *testing.T, args ...string) string { return loopOf(t, testSize, args...) }

func TestHost_exclusive(t *testing.T) {
	dev := loop(t)
	f, err := os.OpenFile(dev, os.O_RDONLY|unix.O_EXCL, 0)
	if err != nil {
		t.Fatal(err)
	}
	if free, err := New().Exclusive(t.Context(), dev); err != nil || free {
		t.Errorf("held by another: %t, %v", free, err)
	}
	if got := facts(t, dev); !got.Clean() {
		t.Errorf("held by another: %+v", got)
	}
	if err := New().Wipe(t.Context(), dev, "d", accept); !errors.Is(err, ErrBusy) {
		t.Errorf("wipe: %v", err)
	}
	if err := New().Release(t.Context(), dev, pvUUID, accept); !errors.Is(err, ErrBusy) {
		t.Errorf("release: %v", err)
	}
	f.Close()
	if got := facts(t, dev); !got.Clean() || got.SizeBytes != testSize {
		t.Errorf("free: %+v", got)
	}
	if free, err := New().Exclusive(t.Context(), dev); err != nil || !free {
		t.Errorf("free: %t, %v", free, err)
	}
}

func TestHost_wipe(t *testing.T) {
	for _, sector := range []string{"512", "4096"} {
		for _, command := range []string{"sgdisk -n 1:0:0", "mkfs.ext4 -q -F", "pvcreate --devices DEV"} {
			t.Run(sector+" "+command, func(t *testing.T) {
				dev := loop(t, "-P", "--sector-size", sector)
				args := strings.Fields(strings.ReplaceAll(command, "DEV", dev))
				tool(t, args[0], append(args[1:], dev)...)
				if got := facts(t, dev); len(got.Signatures) == 0 || got.Clean() {
					t.Fatalf("before: %+v", got)
				}
				compareWithBlkid(t, dev, facts(t, dev))
				for n := range 3 {
					if err := dying(n).Wipe(t.Context(), dev, "d", accept); !errors.Is(err, errDied) {
						t.Fatalf("write %d: %v", n, err)
					}
				}
				if err := New().Wipe(t.Context(), dev, "d", accept); err != nil {
					t.Fatal(err)
				}
				if got := facts(t, dev); !got.Clean() {
					t.Errorf("after: %+v", got)
				}
				if left := wipefs(t, dev); len(left) > 0 {
					t.Errorf("libblkid finds %+v", left)
				}
				if _, err := os.Stat("/sys/class/block/" + dev[5:] + "/" + dev[5:] + "p1"); err == nil {
					t.Error("the kernel still has the partition")
				}
			})
		}
	}
}

// TestHost_clearOSD_partition: a partition that the kernel shows on the disk of an OSD goes with the OSD, unless something of somebody else is on it, or somebody has it open. Until then nothing is written.
func TestHost_clearOSD_partition(t *testing.T) {
	const uuid = "11111111-2222-4333-8444-555555555555"
	// Such a device keeps a partition that no table tells of, whenever udev has the kernel read the table again.
	dev := loop(t)
	part := dev + "p8"
	put(t, dev, 0, string(osdtest.Block(osd.Label{UUID: uuid, FSID: uuid, ID: "3", SizeBytes: testSize, Description: "main", Ready: true}, nil)))
	tool(t, "addpart", dev, "8", "8192", "16384")
	clear := func() error { return New().ClearOSD(t.Context(), dev, uuid, accept) }
	whole := func(why string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) || len(facts(t, dev).Labels) != 1 {
			t.Errorf("%s: %v, %+v", why, err, facts(t, dev).Labels)
		}
	}
	tool(t, "mkfs.ext4", "-q", "-F", part)
	whole("a filesystem is on it", clear(), ErrNotOurs)
	if out, err := exec.Command("wipefs", "--all", part).CombinedOutput(); err != nil {
		t.Fatalf("wipefs: %v: %s", err, out)
	}
	f, err := os.Open(part)
	if err != nil {
		t.Fatal(err)
	}
	whole("somebody has it open", clear(), ErrBusy)
	f.Close()
	if err := clear(); err != nil {
		t.Fatal(err)
	}
	if got := facts(t, dev); !got.Clean() {
		t.Errorf("after: %+v", got)
	}
	if _, err := os.Stat("/sys/class/block/" + part[5:]); err == nil {
		t.Error("the kernel still has the partition")
	}
}

// TestHost_bluestoreCopies: a real device of 2 GiB keeps the copy of an OSD's label when both of its ends are zeroed.
func TestHost_bluestoreCopies(t *testing.T) {
	for _, sector := range []string{"512", "4096"} {
		dev := loopOf(t, 2*gib, "--sector-size", sector)
		put(t, dev, gib, bluestoreLabel)
		got := facts(t, dev)
		if got.Clean() || !got.HeadTailZero || got.LabelDigest == "" || !types(got)["ceph_bluestore"] {
			t.Fatalf("before: %+v", got)
		}
		for n := range 3 {
			if err := dying(n).Wipe(t.Context(), dev, "d", accept); !errors.Is(err, errDied) {
				t.Fatalf("write %d: %v", n, err)
			}
		}
		if err := New().Wipe(t.Context(), dev, "d", accept); err != nil {
			t.Fatal(err)
		}
		if got := facts(t, dev); !got.Clean() {
			t.Errorf("after: %+v", got)
		}
	}
}

func TestHost_release(t *testing.T) {
	for _, sector := range []string{"512", "4096"} {
		dev := loop(t, "--sector-size", sector)
		tool(t, "pvcreate", "--devices", dev, "--uuid", pvUUID, "--norestorefile", dev)
		if got := facts(t, dev); got.PVUUID != pvUUID || got.PVInGroup {
			t.Fatalf("before: %+v", got)
		}
		tool(t, "vgcreate", "--devices", dev, "quarry-disk-test", dev)
		if got := facts(t, dev); !got.PVInGroup {
			t.Fatalf("in a group: %+v", got)
		}
		if err := New().Release(t.Context(), dev, pvUUID, accept); !errors.Is(err, ErrBusy) {
			t.Errorf("in a group: %v", err)
		}
		tool(t, "vgremove", "--devices", dev, "quarry-disk-test")
		if err := New().Release(t.Context(), dev, pvUUID, accept); err != nil {
			t.Fatal(err)
		}
		if got := facts(t, dev); !got.Clean() {
			t.Errorf("after: %+v", got)
		}
	}
}

func TestHost_mountedIsNotExclusive(t *testing.T) {
	dev := loop(t)
	tool(t, "mkfs.ext4", "-q", "-F", dev)
	dir := t.TempDir()
	if err := unix.Mount(dev, dir, "ext4", unix.MS_RDONLY, ""); err != nil {
		t.Skipf("mount: %v", err)
	}
	defer func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	}()
	if free, err := New().Exclusive(t.Context(), dev); err != nil || free {
		t.Errorf("got %t, %v", free, err)
	}
	if err := New().Wipe(t.Context(), dev, "d", accept); !errors.Is(err, ErrBusy) {
		t.Errorf("wipe: %v", err)
	}
}
