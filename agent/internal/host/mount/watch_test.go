//go:build hostroot

package mount

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestHostChanges mounts and unmounts a spare disk and expects one signal each time, and none for a mount without a block device.
func TestHostChanges(t *testing.T) {
	disk, _, _ := strings.Cut(os.Getenv("QUARRY_TEST_DISKS"), ",")
	if disk == "" {
		t.Skip("QUARRY_TEST_DISKS names no spare disk: run make conformance")
	}
	changes, err := New(Config{}).Changes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	quiet := func(what string) {
		t.Helper()
		select {
		case <-changes:
			t.Errorf("%s signals", what)
		case <-time.After(300 * time.Millisecond):
		}
	}
	signal := func(what string) {
		t.Helper()
		select {
		case <-changes:
		case <-time.After(5 * time.Second):
			t.Fatalf("%s does not signal", what)
		}
	}
	mount := func(source, kind string) string {
		t.Helper()
		target := filepath.Join(dir, kind)
		if err := os.MkdirAll(target, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount(source, target, kind, 0, ""); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(target, unix.MNT_DETACH) }) // Unmounted already when the test went well.
		return target
	}
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", disk).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4 %s: %v\n%s", disk, err, out)
	}
	t.Cleanup(func() { wipe(t, disk) })
	quiet("a test that has not begun")

	tmpfs := mount("none", "tmpfs")
	quiet("a tmpfs")
	onDisk := mount(disk, "ext4")
	signal("a mounted disk")
	if err := unix.Unmount(onDisk, 0); err != nil {
		t.Fatal(err)
	}
	signal("an unmounted disk")
	if err := unix.Unmount(tmpfs, 0); err != nil {
		t.Fatal(err)
	}
}

// wipe leaves the disk as empty as it was, for the next test.
func wipe(t *testing.T, disk string) {
	t.Helper()
	f, err := os.OpenFile(disk, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Seek(0, 2)
	if err != nil {
		t.Fatal(err)
	}
	zero := make([]byte, 1<<20)
	for _, offset := range []int64{0, size - int64(len(zero))} {
		if _, err := f.WriteAt(zero, offset); err != nil {
			t.Fatal(err)
		}
	}
}
