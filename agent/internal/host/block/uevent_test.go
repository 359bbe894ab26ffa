package block

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func expectSignal(t *testing.T, ch <-chan struct{}, why string) {
	t.Helper()
	select {
	case _, ok := <-ch:
		if !ok {
			t.Fatalf("%s: closed", why)
		}
	case <-time.After(5 * time.Second):
		t.Fatalf("%s: no signal", why)
	}
}

func TestUevents_database(t *testing.T) {
	tr := newTree(t)
	ctx, cancel := context.WithCancel(t.Context())
	ch, err := tr.host().Uevents(ctx)
	if err != nil {
		t.Skipf("no netlink here: %v", err)
	}
	tr.write("run/udev/data/b8:0", "I:1\n")
	expectSignal(t, ch, "a record written")
	tr.write("run/udev/data/c1:1", "I:1\n")
	time.Sleep(50 * time.Millisecond)
	for range 100 {
		tr.write("run/udev/data/b8:0", "I:1\n")
	}
	expectSignal(t, ch, "many changes")
	cancel()
	deadline := time.After(5 * time.Second)
	for {
		select {
		case _, ok := <-ch:
			if !ok {
				return
			}
		case <-deadline:
			t.Fatal("not closed at the end of the context")
		}
	}
}

func TestUevents_withoutDatabase(t *testing.T) {
	tr := newTree(t)
	tr.remove("run/udev")
	if _, err := tr.host().Uevents(t.Context()); err == nil {
		t.Error("a database that cannot be watched is no error")
	}
}

func TestWatchDir_endsWithTheDirectory(t *testing.T) {
	tr := newTree(t)
	in, err := watchDir(filepath.Join(tr.root, "run/udev/data"))
	if err != nil {
		t.Fatal(err)
	}
	ch := merge(t.Context(), []source{{file: in, changed: databaseChanged}})
	tr.remove("run/udev/data")
	deadline := time.After(5 * time.Second)
	for {
		select {
		case _, ok := <-ch:
			if !ok {
				return
			}
		case <-deadline:
			t.Fatal("not closed")
		}
	}
}

func TestBlockEvent(t *testing.T) {
	for msg, want := range map[string]string{
		"add@/devices/x\x00ACTION=add\x00SUBSYSTEM=block\x00MAJOR=8\x00MINOR=16\x00": "8:16",
		"add@/devices/x\x00ACTION=add\x00SUBSYSTEM=net\x00MAJOR=8\x00MINOR=16\x00":   "",
		"add@/x\x00NAME=SUBSYSTEM=block\x00":                                         "",
		"":                                                                           "",
	} {
		number, ok := blockEvent([]byte(msg))
		if ok != (want != "") || ok && number != want {
			t.Errorf("%q: %q, %t", msg, number, ok)
		}
	}
}

func TestVersion_changesWithEveryEvent(t *testing.T) {
	tr, _ := udevDisk(t)
	h := tr.host()
	seen := map[string]bool{}
	look := func(after string) {
		d, err := h.Device(8, 0)
		if err != nil || d.Version == "" || seen[d.Version] {
			t.Errorf("after %s: version %q, %v", after, d.Version, err)
		}
		seen[d.Version] = true
	}
	look("the start")
	h.heard.one("8:0")
	look("an event")
	h.heard.all()
	look("an overrun")
	tr.rewrite("8:0", "I:1\n")
	look("udev's work")
	h.heard.one("8:16")
	d, err := h.Device(8, 0)
	if err != nil || !seen[d.Version] {
		t.Errorf("another device's event gives the version %q, %v", d.Version, err)
	}
}

func TestPump_overrunIsASignal(t *testing.T) {
	in, err := watchDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	ch := merge(t.Context(), []source{{file: in, changed: func(int, []byte) (bool, error) {
		if calls++; calls > 2 {
			return false, unix.EBADF
		}
		return true, nil
	}}})
	expectSignal(t, ch, "an overrun")
	for range ch {
		continue
	}
}
