package linear

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/agent/internal/host/run"
)

const (
	groupUUID = "EJOuKj-cD6h-GGXp-49EQ-tSM8-Xxrl-JtVpvn"
	uuidA     = "8AD8Uh-gR3m-AUdI-S0r1-Eqzm-EZDO-qI0cBB"
	uuidB     = "jEZoDe-bC5T-H2qz-YsIR-0vc2-AYmI-KLnJvB"
)

var volume = Volume{Group: groupUUID, UUID: uuidA}

// kernel plays dmsetup on a node: what it says of devices, and what it was told.
type kernel struct {
	info, table string
	tables      func(names []string) string // of several devices
	fail        map[string]error            // by the first argument
	told        []string
	stdin       string
}

func (k *kernel) Run(_ context.Context, c run.Command) (run.Result, error) {
	if c.Path != dmsetup || !slices.Equal(c.Env, []string{"DM_DISABLE_UDEV=1"}) {
		return run.Result{}, fmt.Errorf("%w: %v %v", run.ErrUnscripted, c.Argv(), c.Env)
	}
	switch c.Args[0] {
	case "info":
		return run.Result{Stdout: []byte(k.info)}, nil
	case "table":
		if k.tables != nil {
			return run.Result{Stdout: []byte(k.tables(c.Args[1:]))}, nil
		}
		return run.Result{Stdout: []byte(k.table)}, nil
	}
	k.told = append(k.told, strings.Join(c.Args, " "))
	if len(c.Stdin) > 0 {
		k.stdin = string(c.Stdin)
	}
	return run.Result{}, k.fail[c.Args[0]]
}

// with are Devices on a node on which the device 254:3 has no holders.
func with(t *testing.T, k *kernel) *Devices {
	t.Helper()
	root := t.TempDir()
	if err := errors.Join(os.MkdirAll(filepath.Join(root, "sys/dev/block/254:3/holders"), 0o755), os.MkdirAll(filepath.Join(root, "dev/mapper"), 0o755)); err != nil {
		t.Fatal(err)
	}
	return New(Config{Runner: k, Sys: filepath.Join(root, "sys"), Dev: filepath.Join(root, "dev"), Proc: root})
}

func line(rest string) string {
	return "quarry-" + groupUUID + "-" + uuidA + " quarry-" + uuidA + " " + rest + "\n"
}

const others = "LVM-abc vg-lv Live Active 254 0 1\n mpatha Live Active 254 1 1\nquarry-x-y quarry-x None Active 254 2 0\n"

func TestList(t *testing.T) {
	k := &kernel{
		info:  others + line("Both Suspended 254 3 2"),
		table: "0 2048 linear 8:16 40960\n2048 4096 linear 8:16 81920\n",
	}
	all, err := with(t, k).List(t.Context(), groupUUID)
	if err != nil {
		t.Fatal(err)
	}
	want := []Device{{
		Volume: volume, Major: 254, Minor: 3, Live: true, Loaded: true, Suspended: true, Open: 2, Linear: true, Sectors: 6144,
		Segments: []Segment{{"8:16", 40960, 2048}, {"8:16", 81920, 4096}},
	}}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Error(diff)
	}
	if all, err := with(t, k).List(t.Context(), uuidB); err != nil || len(all) > 0 {
		t.Errorf("of another group: %+v, %v", all, err)
	}
	k.info = "No devices found\n"
	if all, err := with(t, k).List(t.Context(), groupUUID); err != nil || len(all) > 0 {
		t.Errorf("on a node without devices: %+v, %v", all, err)
	}
	k.info = line("None Active 254 4 0")
	if all, err := with(t, k).List(t.Context(), groupUUID); err != nil || all[0].Live || all[0].Loaded || all[0].InUse() {
		t.Errorf("one that was made, and that the kernel does not show yet: %+v, %v", all, err)
	}
	k.info, k.table = line("Live Active 254 3 0"), "0 6144 error \n"
	if all, err := with(t, k).List(t.Context(), groupUUID); err != nil || !all[0].Cut || all[0].Linear || all[0].Sectors != 6144 {
		t.Errorf("one that returns errors: %+v, %v", all, err)
	}
}

// TestList_oneProcess: however many devices a node has, their tables are read in one process.
func TestList_oneProcess(t *testing.T) {
	asked := 0
	k := &kernel{info: line("Live Active 254 3 0") + strings.ReplaceAll(line("Live Active 254 3 0"), uuidA, uuidB) + strings.ReplaceAll(line("None Active 254 5 0"), uuidA, strings.Replace(uuidB, "j", "k", 1))}
	k.tables = func(names []string) string {
		asked++
		if diff := cmp.Diff([]string{"quarry-" + uuidA, "quarry-" + uuidB}, names); diff != "" {
			t.Error(diff)
		}
		return names[0] + ": 0 2048 linear 8:16 40960\n" + names[1] + ": 0 8 linear 8:16 0\n" + names[1] + ": 8 8 error \n"
	}
	all, err := with(t, k).List(t.Context(), groupUUID)
	if err != nil || len(all) != 3 || asked != 1 {
		t.Fatalf("%+v, %v, asked %d times", all, err, asked)
	}
	if !all[0].Linear || all[0].Sectors != 2048 || all[1].Linear || all[1].Cut || all[1].Sectors != 16 || all[2].Live {
		t.Errorf("%+v", all)
	}
	k.tables = func([]string) string { return "quarry-other: 0 8 linear 8:16 0\n" }
	if all, err := with(t, k).List(t.Context(), groupUUID); err == nil {
		t.Errorf("the table of another device: %+v", all)
	}
}

func TestList_refuses(t *testing.T) {
	for name, k := range map[string]*kernel{
		"too few columns":           {info: line("Live Active 254 3")},
		"tables of no known kind":   {info: line("Some Active 254 3 0")},
		"a state of no known kind":  {info: line("Live Deferred 254 3 0")},
		"no number":                 {info: line("None Active 254 x 0")},
		"an unknown open count":     {info: line("None Active 254 3 -")},
		"a device that went away":   {info: line("Live Active 254 4 0")},
		"another name":              {info: strings.Replace(line("None Active 254 3 0"), " quarry-", " quarry+", 1)},
		"a table with a hole":       {info: line("Live Active 254 3 0"), table: "0 8 linear 8:16 0\n16 8 linear 8:16 0\n"},
		"a table without a number":  {info: line("Live Active 254 3 0"), table: "0 x linear 8:16 0\n"},
		"a table that is cut off":   {info: line("Live Active 254 3 0"), table: "0 8 linear 8:16\n"},
		"a table without its parts": {info: line("Live Active 254 3 0"), table: "0 8\n"},
	} {
		if all, err := with(t, k).List(t.Context(), groupUUID); err == nil {
			t.Errorf("%s: %+v", name, all)
		}
	}
}

func TestDevices_commands(t *testing.T) {
	name := "quarry-" + uuidA
	const table = "0 2048 linear 8:16 40960\n2048 8 linear 8:16 0\n"
	segments := []Segment{{"8:16", 40960, 2048}, {"8:16", 0, 8}}
	live := line("Live Active 254 3 0")
	load := func(d *Devices) error { return d.Load(t.Context(), volume, segments, nil) }
	cut := func(d *Devices) error { return d.Cut(t.Context(), volume) }
	remove := func(d *Devices) error { return d.Remove(t.Context(), volume) }
	for what, c := range map[string]struct {
		call              func(*Devices) error
		info, table, want string
		stdin             string
	}{
		"a new device": {
			load, others, "", "create NAME --uuid quarry-" + groupUUID + "-" + uuidA + " --notable;clear NAME;load NAME;resume --nolockfs NAME;mknodes NAME", table,
		},
		"one that was made without a table": {load, line("None Active 254 3 0"), "", "clear NAME;load NAME;resume --nolockfs NAME;mknodes NAME", table},
		"a live one": {
			load, live, "0 8 linear 8:16 0\n", "clear NAME;load NAME;suspend --nolockfs NAME;resume --nolockfs NAME;mknodes NAME", table,
		},
		"cutting a device": {
			cut, live, "0 8 linear 8:16 0\n", "clear NAME;load NAME;suspend --nolockfs --noflush NAME;resume --nolockfs NAME;mknodes NAME", "0 8 error\n",
		},
		"cutting a device again":          {cut, live, "0 8 error \n", "", ""},
		"cutting one that stands still":   {cut, line("Live Suspended 254 3 0"), "0 8 error \n", "clear NAME;load NAME;suspend --nolockfs --noflush NAME;resume --nolockfs NAME;mknodes NAME", "0 8 error\n"},
		"cutting what is not there":       {cut, others, "", "", ""},
		"cutting one without a table":     {cut, line("Inactive Active 254 3 0"), "", "", ""},
		"removing a device":               {remove, live, "0 8 linear 8:16 0\n", "remove NAME", ""},
		"removing one that is not whole":  {remove, line("None Suspended 254 3 0"), "", "remove NAME", ""},
		"removing what is not there":      {remove, others, "", "", ""},
		"removing what is another volume": {remove, strings.ReplaceAll(live, uuidA, uuidB), "0 8 linear 8:16 0\n", "", ""},
	} {
		k := &kernel{info: c.info, table: c.table}
		if err := c.call(with(t, k)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if got, want := strings.Join(k.told, ";"), strings.ReplaceAll(c.want, "NAME", name); got != want || k.stdin != c.stdin {
			t.Errorf("%s: %s with %q, want %s", what, got, k.stdin, want)
		}
	}
}

// TestLoad_fails: a device that cannot be suspended goes on with the table that it had.
func TestLoad_fails(t *testing.T) {
	hung := errors.New("killed")
	k := &kernel{info: line("Live Active 254 3 1"), table: "0 8 linear 8:16 0\n", fail: map[string]error{"suspend": hung}}
	err := with(t, k).Load(t.Context(), volume, []Segment{{"8:16", 0, 16}}, nil)
	name := "quarry-" + uuidA
	want := []string{"clear " + name, "load " + name, "suspend --nolockfs " + name, "clear " + name, "resume --nolockfs " + name}
	if !errors.Is(err, hung) || !slices.Equal(k.told, want) {
		t.Errorf("%v after %q", err, k.told)
	}
}

// TestLoad_unsure: a table that turns out to be for another device never becomes live: a device that was made for it goes, and one that was there keeps the
// table that it has.
func TestLoad_unsure(t *testing.T) {
	other := errors.New("another device")
	name := "quarry-" + uuidA
	for what, c := range map[string]struct{ info, want string }{
		"a new device":              {others, "create NAME --uuid quarry-" + groupUUID + "-" + uuidA + " --notable;clear NAME;load NAME;remove NAME"},
		"a live one":                {line("Live Active 254 3 1"), "clear NAME;load NAME;clear NAME"},
		"one that has no table yet": {line("None Active 254 3 0"), "clear NAME;load NAME;clear NAME"},
	} {
		k := &kernel{info: c.info, table: "0 8 linear 8:16 0\n"}
		err := with(t, k).Load(t.Context(), volume, []Segment{{"8:16", 0, 16}}, func(context.Context) error {
			if last := k.told[len(k.told)-1]; last != "load "+name {
				t.Errorf("%s: asked after %q", what, last)
			}
			return other
		})
		if got, want := strings.Join(k.told, ";"), strings.ReplaceAll(c.want, "NAME", name); !errors.Is(err, other) || got != want {
			t.Errorf("%s: %v after %s", what, err, got)
		}
	}
}

func TestRemove_inUse(t *testing.T) {
	k := &kernel{info: line("Live Active 254 3 1"), table: "0 8 linear 8:16 0\n"}
	d := with(t, k)
	if err := os.MkdirAll(filepath.Join(d.proc, "1"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(d.proc, "1/mountinfo"), []byte("30 1 254:3 / /srv/x rw - ext4 /dev/dm-3 rw\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(d.sys, "dev/block/254:3/holders/dm-9"), 0o755); err != nil {
		t.Fatal(err)
	}
	err := d.Remove(t.Context(), volume)
	if !errors.Is(err, ErrInUse) || len(k.told) > 0 || !strings.Contains(err.Error(), "/srv/x") || !strings.Contains(err.Error(), "dm-9") {
		t.Errorf("%v after %q", err, k.told)
	}
	k = &kernel{
		info: line("Live Active 254 3 0"), table: "0 8 linear 8:16 0\n",
		fail: map[string]error{"remove": &run.Error{ExitCode: 1, Stderr: "device-mapper: remove ioctl on x  failed: Device or resource busy"}},
	}
	if err := with(t, k).Remove(t.Context(), volume); !errors.Is(err, ErrInUse) || len(k.told) < 2 {
		t.Errorf("opened in between: %v after %q", err, k.told)
	}
}

func TestDevices_refuseBeforeAnyCommand(t *testing.T) {
	for name, call := range map[string]func(*Devices) error{
		"no segments": func(d *Devices) error { return d.Load(t.Context(), volume, nil, nil) },
		"a table in a segment": func(d *Devices) error {
			return d.Load(t.Context(), volume, []Segment{{"8:16 0\n0 8 error", 0, 8}}, nil)
		},
		"a path in a segment":   func(d *Devices) error { return d.Load(t.Context(), volume, []Segment{{"/dev/sda", 0, 8}}, nil) },
		"a segment of nothing":  func(d *Devices) error { return d.Load(t.Context(), volume, []Segment{{"8:16", 0, 0}}, nil) },
		"an option as a volume": func(d *Devices) error { return d.Remove(t.Context(), Volume{Group: groupUUID, UUID: "--force"}) },
		"an option as a group":  func(d *Devices) error { return d.Cut(t.Context(), Volume{Group: "-f", UUID: uuidA}) },
		"no group":              func(d *Devices) error { _, err := d.List(t.Context(), ""); return err },
	} {
		k := &kernel{}
		if err := call(with(t, k)); !errors.Is(err, ErrInvalid) || len(k.told) > 0 {
			t.Errorf("%s: %v after %q", name, err, k.told)
		}
	}
}
