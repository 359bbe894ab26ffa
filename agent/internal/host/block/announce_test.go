package block

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// event waits for the next text that is written into the device's uevent file, which it empties.
func (tr tree) event(dir string) string {
	file := filepath.Join(tr.root, dir, "uevent")
	for range 500 {
		if text, err := os.ReadFile(file); err == nil && len(text) > 0 {
			if err := os.Truncate(file, 0); err != nil {
				tr.t.Error(err)
			}
			return string(text)
		}
		time.Sleep(10 * time.Millisecond)
	}
	tr.t.Error("no event was written")
	return ""
}

// rewrite replaces a record as udev does: by another file.
func (tr tree) rewrite(number string, lines string) {
	file := filepath.Join(tr.root, "run/udev/data/b"+number)
	if err := errors.Join(os.WriteFile(file+".tmp", []byte(lines), 0o644), os.Rename(file+".tmp", file)); err != nil {
		tr.t.Error(err)
	}
}

// udevDisk is a disk that a running udev knows.
func udevDisk(t *testing.T) (tree, string) {
	tr := newTree(t)
	dir := tr.disk("pci0", "sda", "8:0")
	tr.write(dir+"/uevent", "", "run/udev/control", "", "run/udev/data/b8:0", "I:1\n")
	return tr, dir
}

// mark is the record as it is now; a test cannot make a device node to ask by.
func (tr tree) mark(number string) Mark {
	tr.t.Helper()
	version, err := tr.host().version(number)
	if err != nil {
		tr.t.Fatal(err)
	}
	return Mark{number: number, version: version}
}

func TestAnnounce_waitsForUdev(t *testing.T) {
	tr, dir := udevDisk(t)
	mark := tr.mark("8:0")
	done := make(chan error, 1)
	go func() { done <- tr.host().Announce(t.Context(), mark) }()
	form := regexp.MustCompile(`^change [0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
	if got := tr.event(dir); !form.MatchString(got) {
		t.Errorf("the event is %q", got)
	}
	tr.rewrite("8:16", "I:1\n")
	select {
	case err := <-done:
		t.Errorf("did not wait for the device's own record: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	tr.rewrite("8:0", "I:1\n")
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestAnnounce_severalDevices(t *testing.T) {
	tr, dir := udevDisk(t)
	other := tr.disk("pci0", "sdb", "8:16")
	tr.write(other+"/uevent", "", "run/udev/data/b8:16", "I:1\n")
	marks := []Mark{tr.mark("8:0"), tr.mark("8:16"), {number: "8:32"}}
	done := make(chan error, 1)
	go func() { done <- tr.host().Announce(t.Context(), marks...) }()
	if first, second := tr.event(dir), tr.event(other); first == second {
		t.Errorf("two events have one identifier: %s", first)
	}
	// udev was faster than the one who waits, or the device went away.
	tr.remove("run/udev/data/b8:16")
	tr.rewrite("8:0", "I:1\n")
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestAnnounce_doesNotWaitForEver(t *testing.T) {
	tr, dir := udevDisk(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := tr.host().Announce(ctx, tr.mark("8:0")); !errors.Is(err, errIgnored) {
		t.Errorf("without an answer of udev: %v", err)
	}
	tr.event(dir)
}

func TestAnnounce_withoutUdev(t *testing.T) {
	tr, dir := udevDisk(t)
	tr.remove("run/udev/control")
	if err := tr.host().Announce(t.Context(), tr.mark("8:0")); err != nil {
		t.Errorf("udev does not run: %v", err)
	}
	without := New(Config{Sys: tr.root + "/sys", Dev: tr.root + "/dev", Udev: tr.root + "/none", WithoutUdev: true})
	if err := without.Announce(t.Context(), Mark{number: "8:0"}); err != nil || !without.Idle() {
		t.Errorf("without udev: %v", err)
	}
	if text, err := os.ReadFile(filepath.Join(tr.root, dir, "uevent")); err != nil || len(text) > 0 {
		t.Errorf("an event without a udev to hear it: %q, %v", text, err)
	}
}

func TestMark(t *testing.T) {
	tr, _ := udevDisk(t)
	if _, err := tr.host().Mark(filepath.Join(tr.root, "dev/sda")); err == nil {
		t.Error("a file is taken for a device")
	}
	if _, err := tr.host().Mark(filepath.Join(tr.root, "dev/none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no device: %v", err)
	}
	seen := map[string]bool{}
	for n := range 20 {
		tr.rewrite("8:0", "I:"+strconv.Itoa(n%2)+"\n")
		version := tr.mark("8:0").version
		if version == "" || seen[version] {
			t.Errorf("record %d has the version %q of an earlier one", n, version)
		}
		seen[version] = true
	}
}

func TestIdle(t *testing.T) {
	tr, _ := udevDisk(t)
	if !tr.host().Idle() {
		t.Error("busy without a queue")
	}
	tr.write("run/udev/queue", "")
	if tr.host().Idle() {
		t.Error("idle with a queue")
	}
}
