package fslog

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A socket of packets gives one line for each read, as the kernel does.
func TestRead(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range pair {
		f := os.NewFile(uintptr(fd), "end")
		t.Cleanup(func() { f.Close() })
	}
	if got := Read(pair[0]); got != "" {
		t.Errorf("nothing was said, and it reads as %q", got)
	}
	for _, line := range []string{"e NFS: mount option vers is wrong\n", "alone"} {
		if _, err := unix.Write(pair[1], []byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := Read(pair[0]), " (NFS: mount option vers is wrong; alone)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for range 2 * lines {
		if _, err := unix.Write(pair[1], []byte("w again")); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Count(Read(pair[0]), "again"); got != lines {
		t.Errorf("%d lines were read", got)
	}
}
