package dm

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const uuid = "LVM-abcdefghijklmnopqrstuvwxyz012345ABCDEFGHIJKLMNOPQRSTUVWXYZ012345"

// sysfs writes one device as the kernel shows it.
func sysfs(t *testing.T, root, dir, name, uuid string) {
	t.Helper()
	for file, text := range map[string]string{"dm/name": name, "dm/uuid": uuid, "dev": "253:3", "size": "2048"} {
		path := filepath.Join(root, "block", dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestName(t *testing.T) {
	for want, in := range map[string][2]string{
		"vg-lv": {"vg", "lv"}, "my--vg-my--lv": {"my-vg", "my-lv"}, "a--b-c": {"a-b", "c"}, "a-b--c": {"a", "b-c"},
	} {
		if got := Name(in[0], in[1]); got != want {
			t.Errorf("Name(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestReader_Find(t *testing.T) {
	root := t.TempDir()
	r := New(Config{Sys: root, Dev: "/dev"})
	r.number = func(path string) (uint32, uint32, error) {
		switch path {
		case "/dev/mapper/vg-udev", "/dev/dm-4":
			return 253, 3, nil
		case "/dev/mapper/vg-moved":
			return 253, 9, nil
		}
		return 0, 0, os.ErrNotExist
	}
	sysfs(t, root, "dm-3", "vg-udev", uuid)
	sysfs(t, root, "dm-4", "vg-moved", uuid)
	sysfs(t, root, "dm-5", "vg-nodeless", uuid)
	sysfs(t, root, "dm-6", "vg-crypt", "CRYPT-LUKS2-00000000000000000000000000000000-vg-crypt")
	sysfs(t, root, "dm-7", "vg-hidden", uuid+"-tpool")
	sysfs(t, root, "dm-8", "vg-empty", "")
	if err := os.MkdirAll(filepath.Join(root, "block", "dm-0"), 0o755); err != nil {
		t.Fatal(err)
	}
	got, err := r.Find("vg", "udev")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Device{Path: "/dev/mapper/vg-udev", Major: 253, Minor: 3, SizeBytes: 1 << 20, UUID: uuid}, got); diff != "" {
		t.Error(diff)
	}
	if got, err := r.Find("vg", "moved"); err != nil || got.Path != "/dev/dm-4" {
		t.Errorf("got %v, %v", got, err)
	}
	for name, want := range map[string]error{"crypt": ErrNotLVM, "hidden": ErrNotLVM, "empty": ErrNotLVM, "absent": ErrNotFound} {
		if got, err := r.Find("vg", name); !errors.Is(err, want) {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
	if _, err := r.Find("vg", "nodeless"); err == nil || !strings.Contains(err.Error(), "no node") {
		t.Errorf("got %v", err)
	}
}
