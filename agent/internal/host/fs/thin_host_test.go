//go:build hostroot

package fs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"quarry.storage/quarry/agent/internal/host/run"
)

// runs runs a program, and returns what it wrote.
func runs(t *testing.T, words ...string) string {
	t.Helper()
	out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v: %s", words, err, out)
	}
	return string(out)
}

// loopOf makes a loop device of a size.
func loopOf(t *testing.T, size int64) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, size); err != nil {
		t.Fatal(err)
	}
	loop := strings.TrimSpace(runs(t, "losetup", "-f", "--show", file))
	t.Cleanup(func() { runs(t, "losetup", "-d", loop) })
	return loop
}

// thinVolume makes a thin volume of 200 MiB with device-mapper alone.
func thinVolume(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat("/sys/class/misc/device-mapper"); err != nil {
		t.Skip("this kernel has no device-mapper; make conformance runs it on one that has")
	}
	const data, chunk = 256 << 20, 64 << 10
	meta, on := loopOf(t, 4<<20), loopOf(t, data)
	create := func(name, table string) {
		runs(t, "dmsetup", "create", name, "--table", table)
		t.Cleanup(func() { runs(t, "dmsetup", "remove", "--retry", name) })
	}
	create("fs-test-pool", "0 "+strconv.Itoa(data/512)+" thin-pool "+meta+" "+on+" "+strconv.Itoa(chunk/512)+" 0 1 no_discard_passdown")
	runs(t, "dmsetup", "message", "fs-test-pool", "0", "create_thin 1")
	create("fs-test-thin", "0 "+strconv.Itoa(200<<20/512)+" thin /dev/mapper/fs-test-pool 1")
	return "/dev/mapper/fs-test-thin"
}

// mapped is how many bytes of its pool a thin volume takes.
func mapped(t *testing.T) int64 {
	t.Helper()
	words := strings.Fields(runs(t, "dmsetup", "status", "fs-test-thin"))
	if len(words) < 4 {
		t.Fatalf("status %q", words)
	}
	sectors, err := strconv.ParseInt(words[3], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return sectors * 512
}

// TestHost_thinExt4: an ext4 on a thin volume takes about a MiB of the pool, and the kernel adds nothing to that after the mount. With tables of inodes
// that the kernel initialises it would be 13 MiB of 200.
func TestHost_thinExt4(t *testing.T) {
	device, at := thinVolume(t), t.TempDir()
	if err := New(run.Real{}).Format(t.Context(), device, Make{Type: Ext4, Zeroed: true}); err != nil {
		t.Fatal(err)
	}
	// The kernel initialises as fast as it can, so that it is done in a moment if it does.
	runs(t, "mount", "-o", "init_itable=0", device, at)
	time.Sleep(5 * time.Second)
	runs(t, "umount", at)
	if got := mapped(t); got > 2<<20 {
		t.Errorf("%d bytes of the pool are taken", got)
	}
	runs(t, "e2fsck", "-fn", device)
}
