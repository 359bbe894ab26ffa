package kernel

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAttach shows one directory of a tree that is mounted nowhere, and nothing else of it.
func TestAttach(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	top := t.TempDir()
	if err := unix.Mount("none", top, "tmpfs", 0, ""); err != nil {
		t.Skipf("no mounts here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(top, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	share, place := filepath.Join(top, "share"), filepath.Join(top, "place")
	must(os.MkdirAll(filepath.Join(share, "team/data"), 0o755))
	must(os.Mkdir(place, 0o755))
	must(os.WriteFile(filepath.Join(share, "team/data/file"), []byte("x"), 0o600))
	root, err := unix.OpenTree(unix.AT_FDCWD, share, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	must(err)
	dir, err := unix.Openat2(root, "team/data", &unix.OpenHow{Flags: unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_XDEV})
	must(err)
	onto, err := unix.Open(place, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(err)
	done := make(chan error)
	go func() { done <- Attach(root, dir, onto) }()
	must(<-done)
	for _, fd := range []int{root, dir, onto} {
		unix.Close(fd)
	}
	content, err := os.ReadFile(filepath.Join(place, "file"))
	if err != nil || string(content) != "x" {
		t.Errorf("%q, %v", content, err)
	}
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Count(string(table), " "+place+" ") != 1 || strings.Count(string(table), top) > 3 {
		t.Errorf("mounts:\n%s, %v", table, err)
	}
	parent, err := unix.Open(top, unix.O_PATH|unix.O_CLOEXEC, 0)
	must(err)
	defer unix.Close(parent)
	must(Unmount(parent, "place", 0))
	if _, err := os.Stat(filepath.Join(place, "file")); !os.IsNotExist(err) {
		t.Errorf("still mounted: %v", err)
	}
}
