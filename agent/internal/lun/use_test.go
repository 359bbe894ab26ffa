package lun

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"quarry.storage/quarry/agent/internal/host/block"
	"quarry.storage/quarry/agent/internal/host/mount"
	"quarry.storage/quarry/agent/internal/host/occupant"
	"quarry.storage/quarry/pkg/sharedlun"
)

// machine makes a /sys with block devices: a name, with the files of its directory.
func machine(t *testing.T, devices map[string]map[string]string) HostUses {
	t.Helper()
	root := t.TempDir()
	for name, files := range devices {
		for file, text := range files {
			path := filepath.Join(root, "sys/devices/virtual/block", name, file)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		dir := filepath.Join(root, "sys/devices/virtual/block", name)
		for _, link := range []string{"sys/class/block/" + name, "sys/dev/block/" + files["dev"]} {
			at := filepath.Join(root, link)
			if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(dir, at); err != nil {
				t.Fatal(err)
			}
		}
		for _, empty := range []string{"holders", "slaves"} {
			if err := os.MkdirAll(filepath.Join(dir, empty), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	sys := filepath.Join(root, "sys")
	return HostUses{Tools{Sys: sys, Dev: filepath.Join(root, "dev"), Block: block.New(block.Config{Sys: sys, Dev: filepath.Join(root, "dev"), WithoutUdev: true})}}
}

// TestHolders_staleMap: a volume on a map that has lost its paths writes again once multipathd puts the next path into it.
func TestHolders_staleMap(t *testing.T) {
	const wwid = "naa.60014050000000000000000000000001"
	path := map[string]string{"dev": "8:0", "size": "2048", "ro": "0"}
	volume := map[string]string{"dev": "254:9", "size": "2048", "ro": "0", "dm/uuid": "quarry-x", "slaves/dm-1": ""}
	over := func(uuid string, more ...string) map[string]string {
		m := map[string]string{"dev": "254:1", "size": "2048", "ro": "0", "dm/uuid": uuid + "\n", "holders/dm-9": ""}
		for _, file := range more {
			m[file] = ""
		}
		return m
	}
	for name, c := range map[string]struct {
		wwid string
		over map[string]string
		want []string
	}{
		"its own":                        {wwid, over("mpath-360014050000000000000000000000001"), []string{"dm-9"}},
		"its own, with a path of before": {wwid, over("mpath-360014050000000000000000000000001", "slaves/sdz"), []string{"dm-9"}},
		"another LUN's":                  {wwid, over("mpath-360014050000000000000000000000002"), nil},
		"no map":                         {wwid, over("LVM-360014050000000000000000000000001"), nil},
		"perhaps its own":                {"t10.VENDOR  disk", over("mpath-1VENDOR_disk"), []string{"dm-9"}},
		"of paths of others":             {"t10.VENDOR  disk", over("mpath-1VENDOR_disk", "slaves/sdz"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			u := machine(t, map[string]map[string]string{"sda": path, "dm-1": c.over, "dm-9": volume})
			got, err := u.Holders(sharedlun.Lun{
				Identity: sharedlun.Identity{WWID: c.wwid}, Device: "sda", Paths: []sharedlun.Path{{Device: "sda", Up: true}},
			})
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("%v, %v, want %v", got, err, c.want)
			}
		})
	}
}

// here is a machine on which nothing is mounted, and processes have the disk open.
type here []string

func (here) Read() (mount.Table, error) { return mount.Table{}, nil }

func (h here) Find(context.Context, []occupant.Device) ([][]string, error) {
	return [][]string{h}, nil
}

// TestOf_lookers: whoever only looks at a LUN is no user of it; a process of another name that has it open, is.
func TestOf_lookers(t *testing.T) {
	u := machine(t, map[string]map[string]string{"sda": {"dev": "8:0", "size": "2048", "ro": "0"}})
	open := here{"process multipathd (pid 7)", "process (udev-worker) (pid 8)", "process dd (pid 9)", "process systemd-udevd (pid 10)"}
	u.Mounts, u.Occupants = open, open
	got, err := u.Of(t.Context(), sharedlun.Lun{Paths: []sharedlun.Path{{Device: "sda", Up: true}}})
	if err != nil || !slices.Equal(got, []string{"process dd (pid 9)"}) {
		t.Errorf("%v, %v", got, err)
	}
}

// TestOn: what is built on one device is told by its name in the kernel, and of a device of ours which volume of which group it shows.
func TestOn(t *testing.T) {
	const group, volume = "EJOuKj-cD6h-GGXp-49EQ-tSM8-Xxrl-JtVpvn", "8AD8Uh-gR3m-AUdI-S0r1-Eqzm-EZDO-qI0cBB"
	u := machine(t, map[string]map[string]string{
		"sda":  {"dev": "8:0", "holders/dm-1": "", "holders/dm-2": ""},
		"dm-1": {"dev": "254:1", "dm/uuid": "quarry-" + group + "-" + volume + "-new\n"},
		"dm-2": {"dev": "254:2", "dm/uuid": "LVM-x\n"},
	})
	on, err := u.On("sda")
	if err != nil || !slices.Equal(on, []string{"dm-1", "dm-2"}) {
		t.Errorf("%v, %v", on, err)
	}
	for device, want := range map[string][2]string{"dm-1": {group, volume}, "dm-2": {}, "sda": {}, "gone": {}} {
		if g, v, err := u.Volume(device); g != want[0] || v != want[1] || err != nil {
			t.Errorf("%s: %q, %q, %v", device, g, v, err)
		}
	}
	if on, err := u.On("gone"); len(on) > 0 || err != nil {
		t.Errorf("on a device that is gone: %v, %v", on, err)
	}
}
