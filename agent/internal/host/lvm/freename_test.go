package lvm

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quarry.storage/quarry/agent/internal/host/run"
)

// vgcreate makes the group "fast-1" on a host whose /dev is filled by a test. It returns /dev.
func vgcreate(t *testing.T, fill func(dev string)) (string, *run.Fake, error) {
	t.Helper()
	dev := t.TempDir()
	fill(dev)
	fake := run.NewFake(run.Step{})
	l, err := New(Config{Runner: fake, Dir: filepath.Join(t.TempDir(), "lvm"), Dev: dev})
	if err != nil {
		t.Fatal(err)
	}
	return dev, fake, l.CreateVG(t.Context(), "fast-1", []string{tag}, []string{"/dev/a"})
}

func TestCreateVG_leftovers(t *testing.T) {
	for name, fill := range map[string]func(dev string){
		"nothing":            func(string) {},
		"an empty directory": func(dev string) { must(t, os.Mkdir(dev+"/fast-1", 0o755)) },
		"links to devices that are gone": func(dev string) {
			must(t, os.Mkdir(dev+"/fast-1", 0o755))
			must(t, os.Symlink("../dm-3", dev+"/fast-1/a"))
			must(t, os.Symlink("/dev/mapper/there-is-no-such-device", dev+"/fast-1/b"))
		},
		"links beside devices of other groups": func(dev string) {
			must(t, os.MkdirAll(dev+"/fast-1", 0o755))
			must(t, os.Mkdir(dev+"/mapper", 0o755))
			must(t, os.Symlink("../dm-3", dev+"/fast-1/a"))
			for _, other := range []string{"control", "fast--1--2-a", "fast-1", "fast--10-a", "xfast--1-a"} {
				must(t, os.WriteFile(dev+"/mapper/"+other, nil, 0o600))
			}
		},
	} {
		dev, fake, err := vgcreate(t, fill)
		if err != nil || len(fake.Calls()) != 1 {
			t.Errorf("%s: %v, commands %v", name, err, fake.Calls())
		}
		if _, err := os.Lstat(dev + "/fast-1"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: it is still there: %v", name, err)
		}
	}
}

func TestCreateVG_whatIsNotLeftOver(t *testing.T) {
	inside := func(put func(group string) error) func(string) {
		return func(dev string) {
			must(t, os.MkdirAll(dev+"/fast-1", 0o755))
			must(t, os.Symlink("../dm-3", dev+"/fast-1/a"))
			must(t, put(dev+"/fast-1"))
		}
	}
	for name, c := range map[string]struct {
		fill func(dev string)
		says string
	}{
		"a file":                      {func(dev string) { must(t, os.WriteFile(dev+"/fast-1", nil, 0o600)) }, "no directory"},
		"a link that dangles":         {func(dev string) { must(t, os.Symlink("nowhere", dev+"/fast-1")) }, "no directory"},
		"a link to a directory":       {func(dev string) { must(t, os.Symlink(".", dev+"/fast-1")) }, "no directory"},
		"a file in it":                {inside(func(g string) error { return os.WriteFile(g+"/z", []byte("x"), 0o600) }), "z is no link"},
		"a directory in it":           {inside(func(g string) error { return os.Mkdir(g+"/z", 0o755) }), "z is no link"},
		"a link to what exists":       {inside(func(g string) error { return os.Symlink(".", g+"/z") }), "exists"},
		"a link that leads to itself": {inside(func(g string) error { return os.Symlink("z", g+"/z") }), "not known"},
		"an active volume": {func(dev string) {
			inside(func(string) error { return os.Mkdir(dev+"/mapper", 0o755) })(dev)
			must(t, os.WriteFile(dev+"/mapper/fast--1-vol--2", nil, 0o600))
		}, "fast--1-vol--2"},
	} {
		dev, fake, err := vgcreate(t, c.fill)
		if !errors.Is(err, ErrExists) || !strings.Contains(err.Error(), c.says) || len(fake.Calls()) != 0 {
			t.Errorf("%s: %v, commands %v", name, err, fake.Calls())
		}
		if _, err := os.Lstat(dev + "/fast-1"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if strings.Contains(name, "in it") || strings.Contains(name, "a link to what") || name == "an active volume" {
			if _, err := os.Lstat(dev + "/fast-1/a"); err != nil {
				t.Errorf("%s: a link went although it was refused: %v", name, err)
			}
		}
	}
}
