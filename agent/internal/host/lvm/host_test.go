//go:build hostroot

package lvm

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quarry.storage/quarry/agent/internal/host/run"
)

// testSize is the size of a disk.
const testSize = 100 << 20

// loop makes a throw-away loop device of 100 MiB.
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

func realLVM(t *testing.T) (*LVM, *run.Counting) {
	t.Helper()
	if _, err := os.Stat(DefaultBinary); err != nil {
		t.Skipf("LVM is not installed: %v", err)
	}
	c := &run.Counting{Next: run.Real{}}
	// The node alone says nothing: LVM makes it.
	dm, err := os.Open("/dev/mapper/control")
	if err == nil {
		dm.Close()
	}
	l, err := New(Config{Runner: c, Dir: filepath.Join(t.TempDir(), "lvm"), WithoutDeviceMapper: err != nil})
	if err != nil {
		t.Fatal(err)
	}
	return l, c
}

func content(t *testing.T, dev string) []byte {
	t.Helper()
	b, err := os.ReadFile(dev)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestHost_configurationIsValid(t *testing.T) {
	l, _ := realLVM(t)
	res, err := l.runner.Run(t.Context(), run.Command{Path: l.binary, Args: []string{"lvmconfig", "--validate"}, Env: l.env})
	if err != nil || len(bytes.TrimSpace(res.Stderr)) > 0 {
		t.Errorf("%v\n%s%s", err, res.Stdout, res.Stderr)
	}
	if v, err := l.Version(t.Context()); err != nil || !strings.HasPrefix(v, "2.") {
		t.Errorf("version %q, %v", v, err)
	}
}

const testGroup = "quarry-test"

func TestHost_life(t *testing.T) {
	l, count := realLVM(t)
	ctx := t.Context()
	a, b, c := loop(t), loop(t), loop(t)
	must(t, l.CreatePV(ctx, a, uuidA, testSize), l.CreatePV(ctx, b, uuidB, testSize), l.CreatePV(ctx, c, uuidC, testSize))
	if err := l.CreatePV(ctx, c, uuidC, testSize); err == nil {
		t.Error("a physical volume was made anew without a question")
	}
	must(t, l.CreateVG(ctx, testGroup, []string{tag}, []string{a}))
	if err := l.CreateVG(ctx, testGroup, []string{tag}, []string{a}); !errors.Is(err, ErrExists) && !errors.Is(err, ErrInUse) {
		t.Errorf("the same group again: %v", err)
	}
	must(t, l.ExtendVG(ctx, testGroup, []string{a}, []string{b}))

	before := count.Count()
	vgs, pvs, err := l.Report(ctx, []string{a, b, c})
	must(t, err)
	if count.Count() != before+1 {
		t.Errorf("%d commands for a report", count.Count()-before)
	}
	if len(vgs) != 1 || vgs[0].Name != testGroup || !slices.Contains(vgs[0].Tags, tag) || vgs[0].Partial || len(pvs) != 3 {
		t.Errorf("report: %+v %+v", vgs, pvs)
	}

	refusesWhileUsed(t, l, a, b)

	must(t, l.ReduceVG(ctx, testGroup, []string{a, b}, []string{b}), l.RemoveVG(ctx, testGroup, []string{a}))
	if err := l.RemoveVG(ctx, testGroup, []string{a}); !errors.Is(err, ErrNotFound) {
		t.Errorf("remove it again: %v", err)
	}
	vgs, pvs, err = l.Report(ctx, []string{a, b, c})
	if err != nil || len(vgs) != 0 || len(pvs) != 3 {
		t.Errorf("at the end: %+v %+v %v", vgs, pvs, err)
	}
}

// refusesWhileUsed puts a volume on the first device of the group for as long as it lasts.
func refusesWhileUsed(t *testing.T, l *LVM, a, b string) {
	t.Helper()
	ctx := t.Context()
	_, err := l.run(ctx, []string{a, b}, "lvcreate", "-an", "-Zn", "-Wn", "-L", "8m", "-n", "v1", testGroup, a)
	must(t, err)
	was := content(t, a)
	if err := l.RemoveVG(ctx, testGroup, []string{a, b}); !errors.Is(err, ErrInUse) {
		t.Errorf("remove a group with a volume: %v", err)
	}
	if err := l.ReduceVG(ctx, testGroup, []string{a, b}, []string{a}); !errors.Is(err, ErrInUse) {
		t.Errorf("take out a device with extents: %v", err)
	}
	if err := l.RemoveVG(ctx, testGroup, []string{b}); err == nil {
		t.Error("removed a group with a volume and a missing device")
	}
	if !bytes.Equal(was, content(t, a)) {
		t.Error("a refused command changed the device")
	}
	_, err = l.run(ctx, []string{a, b}, "lvremove", "-y", testGroup+"/v1")
	must(t, err)
}

// TestHost_removeVolume tries it while the volume is open, while volumes of others would go along with it, and then for good. The
// others are inactive, so that LVM asks about the volume alone, and a yes would be the end of them.
func TestHost_removeVolume(t *testing.T) {
	l, _ := realLVM(t)
	if len(l.common) > 0 {
		t.Skip("this kernel has no device-mapper, so no volume has a device that could be opened; make conformance runs it on one that has")
	}
	ctx, a := t.Context(), loop(t)
	lvm := func(command string, args ...string) {
		t.Helper()
		_, err := l.run(ctx, []string{a}, command, args...)
		must(t, err)
	}
	must(t, l.CreatePV(ctx, a, uuidA, testSize), l.CreateVG(ctx, testGroup, []string{tag}, []string{a}))
	group := Owned{Name: testGroup, Devices: []string{a}, Tag: tag}
	stays := func(why string, want error) {
		t.Helper()
		if err := l.RemoveLV(ctx, group, "v1", volumeTag); !errors.Is(err, want) {
			t.Errorf("remove a volume that %s: %v", why, err)
		}
	}
	must(t, l.CreateLV(ctx, group, NewVolume{Name: "v1", Tags: []string{volumeTag}, SizeBytes: 8 << 20}))
	open, err := os.Open("/dev/" + testGroup + "/v1")
	must(t, err)
	stays("is open", ErrInUse)
	open.Close()

	lvm("lvcreate", "-s", "-L", "4m", "-n", "kept", testGroup+"/v1")
	stays("has a thick snapshot", ErrNotFound)
	lvm("lvremove", "-y", testGroup+"/kept")

	must(t, l.CreatePool(ctx, group, NewPool{Name: "pool", SizeBytes: 16 << 20, MetadataBytes: 4 << 20, ChunkBytes: 64 << 10}))
	lvm("lvchange", "-an", testGroup+"/v1")
	lvm("lvchange", "-pr", testGroup+"/v1")
	lvm("lvcreate", "--type", "thin", "--thinpool", "pool", "-n", "user", testGroup+"/v1")
	lvm("lvchange", "-an", testGroup+"/user")
	stays("others are based on", ErrNotFound)
	vgs, _, err := l.Report(ctx, []string{a})
	if err != nil || len(vgs) != 1 || !slices.ContainsFunc(vgs[0].Volumes, func(v LV) bool { return v.Name == "user" }) {
		t.Errorf("what refused calls left: %+v, %v", vgs, err)
	}
	lvm("lvremove", "-y", testGroup+"/user")
	lvm("lvchange", "-prw", testGroup+"/v1")
	lvm("lvchange", "-ay", testGroup+"/v1")

	must(t, l.RemoveLV(ctx, group, "v1", volumeTag))
	if _, err := os.Stat("/dev/" + testGroup + "/v1"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the device node of a volume that is gone: %v", err)
	}
	lvm("lvremove", "-y", testGroup+"/pool")
	must(t, l.RemoveVG(ctx, testGroup, []string{a}))
}

// TestHost_reduceMissing hides a device of a group from LVM, first an empty one, then one with a volume.
func TestHost_reduceMissing(t *testing.T) {
	l, _ := realLVM(t)
	ctx, a, b := t.Context(), loop(t), loop(t)
	must(t, l.CreatePV(ctx, a, uuidA, testSize), l.CreatePV(ctx, b, uuidB, testSize), l.CreateVG(ctx, testGroup, []string{tag}, []string{a, b}))
	if err := l.RemoveVG(ctx, testGroup, []string{a}); !errors.Is(err, ErrPartial) {
		t.Errorf("remove a group that is not complete: %v", err)
	}
	must(t, l.ReduceMissing(ctx, testGroup, []string{a}), l.ReduceMissing(ctx, testGroup, []string{a}), l.RemoveVG(ctx, testGroup, []string{a}))

	// The device that was left behind comes back with the group as it knew it.
	vgs, _, err := l.Report(ctx, []string{b})
	if err != nil || len(vgs) != 1 || !vgs[0].Partial || vgs[0].Name != testGroup || !slices.Contains(vgs[0].Tags, tag) {
		t.Fatalf("the device that was left behind: %+v, %v", vgs, err)
	}
	must(t, l.ReduceMissing(ctx, testGroup, []string{b}), l.RemoveVG(ctx, testGroup, []string{b}))

	must(t, l.CreateVG(ctx, testGroup, []string{tag}, []string{a, b}))
	_, err = l.run(ctx, []string{a, b}, "lvcreate", "-an", "-Zn", "-Wn", "-L", "8m", "-n", "v1", testGroup, b)
	must(t, err)
	was := content(t, b)
	if err := l.ReduceMissing(ctx, testGroup, []string{a}); !errors.Is(err, ErrInUse) {
		t.Errorf("forget a missing device with a volume: %v", err)
	}
	if !bytes.Equal(was, content(t, b)) {
		t.Error("a refused command changed the device that is missing")
	}
	_, err = l.run(ctx, []string{a, b}, "lvremove", "-y", testGroup+"/v1")
	must(t, err, l.RemoveVG(ctx, testGroup, []string{a, b}))
}

func TestHost_createPVLeavesSignaturesAlone(t *testing.T) {
	l, _ := realLVM(t)
	for name, command := range map[string][]string{
		"ext4": {"mkfs.ext4", "-q"},
		"xfs":  {"mkfs.xfs", "-q", "-f"},
		"swap": {"mkswap"},
		"gpt":  {"sgdisk", "-o"},
		"dos":  {"parted", "-s", "DEV", "mklabel", "msdos"},
	} {
		t.Run(name, func(t *testing.T) {
			dev := loop(t)
			if _, err := exec.LookPath(command[0]); err != nil {
				t.Skipf("the program that makes the signature is not installed, `make deps` does that: %v", err)
			}
			args := append([]string(nil), command[1:]...)
			if i := slices.Index(args, "DEV"); i >= 0 {
				args[i] = dev
			} else {
				args = append(args, dev)
			}
			if out, err := exec.Command(command[0], args...).CombinedOutput(); err != nil {
				t.Skipf("%v: %s", err, out)
			}
			was := content(t, dev)
			err := l.CreatePV(t.Context(), dev, uuidA, testSize)
			if !errors.Is(err, ErrSignature) {
				t.Errorf("got %v", err)
			}
			if !bytes.Equal(was, content(t, dev)) {
				t.Error("the device was changed")
			}
		})
	}
}

func TestHost_createPVWantsTheDeviceForItself(t *testing.T) {
	l, _ := realLVM(t)
	dev := loop(t)
	f, err := os.OpenFile(dev, os.O_RDWR|os.O_EXCL, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := l.CreatePV(t.Context(), dev, uuidA, testSize); !errors.Is(err, ErrInUse) {
		t.Errorf("got %v", err)
	}
}

// TestHost_leftDirectory makes a group whose name a directory below /dev still has. LVM alone refuses that.
func TestHost_leftDirectory(t *testing.T) {
	l, _ := realLVM(t)
	const group = "quarry-left"
	dir := "/dev/" + group
	must(t, os.Mkdir(dir, 0o755), os.Symlink("/dev/mapper/quarry--left-gone", dir+"/gone"))
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	a := loop(t)
	must(t, l.CreatePV(t.Context(), a, uuidA, testSize))
	if _, err := l.run(t.Context(), []string{a}, "vgcreate", group, a); !errors.Is(err, ErrExists) {
		t.Errorf("LVM itself: %v", err)
	}
	must(t, l.CreateVG(t.Context(), group, []string{tag}, []string{a}), l.RemoveVG(t.Context(), group, []string{a}))
}
