package lvm

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"quarry.storage/quarry/agent/internal/host/run"
)

func newLVM(t *testing.T, steps ...run.Step) (*LVM, *run.Fake) {
	t.Helper()
	fake := run.NewFake(steps...)
	l, err := New(Config{Runner: fake, Dir: filepath.Join(t.TempDir(), "lvm")})
	if err != nil {
		t.Fatal(err)
	}
	return l, fake
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func TestLVM_argv(t *testing.T) {
	tests := map[string]struct {
		call func(ctx context.Context, l *LVM) error
		want string
	}{
		"create a physical volume": {
			func(ctx context.Context, l *LVM) error { return l.CreatePV(ctx, "/dev/a", uuidA, 1<<30) },
			"pvcreate --devices /dev/a --uuid " + uuidA + " --norestorefile --setphysicalvolumesize 1072693248b --metadatasize 33554432b /dev/a",
		},
		"create a group": {
			func(ctx context.Context, l *LVM) error {
				return l.CreateVG(ctx, "g", []string{tag}, []string{"/dev/a", "/dev/b"})
			},
			"vgcreate --devices /dev/a --devices /dev/b --setautoactivation n --addtag " + tag + " --vgmetadatacopies 4 g /dev/a /dev/b",
		},
		"extend": {
			func(ctx context.Context, l *LVM) error {
				return l.ExtendVG(ctx, "g", []string{"/dev/a"}, []string{"/dev/b"})
			},
			"vgextend --devices /dev/a --devices /dev/b g /dev/b",
		},
		"reduce": {
			func(ctx context.Context, l *LVM) error {
				return l.ReduceVG(ctx, "g", []string{"/dev/a", "/dev/b"}, []string{"/dev/b"})
			},
			"vgreduce --devices /dev/a --devices /dev/b g /dev/b",
		},
		"reduce by what is missing": {
			func(ctx context.Context, l *LVM) error { return l.ReduceMissing(ctx, "g", []string{"/dev/a"}) },
			"vgreduce --devices /dev/a --removemissing g",
		},
		"take back": {
			func(ctx context.Context, l *LVM) error {
				return l.RestorePV(ctx, "g", []string{"/dev/a", "/dev/b"}, "/dev/b")
			},
			"vgextend --devices /dev/a --devices /dev/b --restoremissing g /dev/b",
		},
		"remove": {
			func(ctx context.Context, l *LVM) error { return l.RemoveVG(ctx, "g", []string{"/dev/a"}) },
			"vgremove --devices /dev/a g",
		},
	}
	for name, tt := range tests {
		l, fake := newLVM(t, run.Step{})
		if err := tt.call(t.Context(), l); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		cmd := fake.Calls()[0]
		if got := strings.Join(cmd.Args, " "); got != tt.want || cmd.Path != DefaultBinary || len(cmd.Stdin) > 0 {
			t.Errorf("%s: %+v, want %q", name, cmd, tt.want)
		}
		for _, a := range cmd.Args {
			if strings.HasPrefix(a, "-f") || strings.HasPrefix(a, "--force") || a == "-y" || a == "--yes" {
				t.Errorf("%s: uses %s", name, a)
			}
		}
	}
}

func TestLVM_refusesBeforeAnyCommand(t *testing.T) {
	dev := []string{"/dev/a"}
	tests := map[string]func(ctx context.Context, l *LVM) error{
		"an option as a group": func(ctx context.Context, l *LVM) error { return l.CreateVG(ctx, "--force", nil, dev) },
		"no name":              func(ctx context.Context, l *LVM) error { return l.RemoveVG(ctx, "", dev) },
		"a path as a group":    func(ctx context.Context, l *LVM) error { return l.RemoveVG(ctx, "a/b", dev) },
		"dots":                 func(ctx context.Context, l *LVM) error { return l.ExtendVG(ctx, "..", dev, dev) },
		"an option as a tag":   func(ctx context.Context, l *LVM) error { return l.CreateVG(ctx, "g", []string{"-f"}, dev) },
		"an option as a device": func(ctx context.Context, l *LVM) error {
			return l.CreatePV(ctx, "-ff", uuidA, 1<<30)
		},
		"two devices in one":      func(ctx context.Context, l *LVM) error { return l.CreatePV(ctx, "/dev/a,/dev/b", uuidA, 1<<30) },
		"a path that climbs":      func(ctx context.Context, l *LVM) error { return l.CreatePV(ctx, "/dev/../a", uuidA, 1<<30) },
		"an option as a UUID":     func(ctx context.Context, l *LVM) error { return l.CreatePV(ctx, "/dev/a", "--yes", 1<<30) },
		"a group of no devices":   func(ctx context.Context, l *LVM) error { return l.CreateVG(ctx, "g", nil, nil) },
		"extending by nothing":    func(ctx context.Context, l *LVM) error { return l.ExtendVG(ctx, "g", dev, nil) },
		"an option to be reduced": func(ctx context.Context, l *LVM) error { return l.ReduceMissing(ctx, "--force", dev) },
		"removing without device": func(ctx context.Context, l *LVM) error { return l.RemoveVG(ctx, "g", nil) },
		"an option in a report": func(ctx context.Context, l *LVM) error {
			_, _, err := l.Report(ctx, []string{"--all"})
			return err
		},
	}
	for name, call := range tests {
		l, fake := newLVM(t, run.Step{})
		if err := call(t.Context(), l); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
		if len(fake.Calls()) > 0 {
			t.Errorf("%s: ran %+v", name, fake.Calls())
		}
	}
}

func TestLVM_report(t *testing.T) {
	l, fake := newLVM(t, run.Step{Result: run.Result{Stdout: recorded(t, "report.json")}})
	if vgs, pvs, err := l.Report(t.Context(), nil); vgs != nil || pvs != nil || err != nil || len(fake.Calls()) > 0 {
		t.Errorf("without devices: %v %v %v %v", vgs, pvs, err, fake.Calls())
	}
	vgs, pvs, err := l.Report(t.Context(), []string{"/dev/a"})
	if err != nil || len(vgs) != 1 || len(pvs) != 3 || fake.Left() != 0 {
		t.Errorf("%v %v %v", vgs, pvs, err)
	}
}

func TestLVM_errorKinds(t *testing.T) {
	// What LVM 2.03.16 writes.
	tests := map[string]error{
		"  Volume group \"vg1\" not found\n  Cannot process volume group vg1": ErrNotFound,
		"  No device found for /dev/nonexist.":                                ErrNotFound,
		"  Physical volume \"/dev/loop0\" still in use":                       ErrInUse,
		"Do you really want to remove volume group \"vg0\" containing 1 logical volumes? [y/n]: [n]\n  Volume group \"vg0\" not removed": ErrInUse,
		"  Can't open /dev/loop0 exclusively.  Mounted filesystem?":                                                                      ErrInUse,
		"WARNING: ext4 signature detected on /dev/loop2 at offset 1080. Wipe it? [y/n]: [n]\n  Aborted wiping of ext4.":                  ErrSignature,
		"  UUID AAAAAA-aaaa-bbbb-cccc-dddd-eeee-ffffff already in use on \"/dev/loop0\".":                                                ErrExists,
		"  A volume group called vg0 already exists.":                                                                                    ErrExists,
		"  Volume group \"vg0\" has insufficient free space (1 extents): 9 required.":                                                    ErrNoSpace,
		"  WARNING: VG vg0 is missing PV u (last written to /dev/b).\n  There are still partial LVs in VG vg0.":                          ErrInUse,
		"  Cannot change VG vg0 while PVs are missing.":                                                                                  ErrPartial,
	}
	for stderr, want := range tests {
		l, _ := newLVM(t, run.Step{Result: run.Result{ExitCode: 5, Stderr: []byte(stderr)}})
		err := l.RemoveVG(t.Context(), "vg0", []string{"/dev/a"})
		if !errors.Is(err, want) {
			t.Errorf("%q: %v", stderr, err)
		}
		var exit *run.Error
		if !errors.As(err, &exit) || exit.ExitCode != 5 || exit.Stderr == "" || exit.Argv[0] != DefaultBinary {
			t.Errorf("%q: the command error is lost: %v", stderr, err)
		}
	}
	l, _ := newLVM(t, run.Step{Result: run.Result{ExitCode: 5, Stderr: []byte("news")}})
	if err := l.RemoveVG(t.Context(), "vg0", []string{"/dev/a"}); err == nil || errors.Is(err, ErrNotFound) {
		t.Errorf("an unknown failure: %v", err)
	}
}

func TestLVM_version(t *testing.T) {
	out := "  LVM version:     2.03.16(2) (2022-05-18)\n  Library version: 1.02.185 (2022-05-18)\n"
	binary := filepath.Join(t.TempDir(), "lvm")
	if err := os.WriteFile(binary, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	fake := run.NewFake(run.Step{}, run.Step{Result: run.Result{Stdout: []byte(out)}}, run.Step{})
	l, err := New(Config{Runner: fake, Dir: t.TempDir(), Binary: binary})
	if err != nil {
		t.Fatal(err)
	}
	if v, err := l.Version(t.Context()); err == nil {
		t.Errorf("no output: %q", v)
	}
	// The binary is asked once, however often somebody wants to know.
	for range 3 {
		if v, err := l.Version(t.Context()); v != "2.03.16(2)" || err != nil {
			t.Errorf("%q, %v", v, err)
		}
	}
	if left := fake.Left(); left != 1 {
		t.Errorf("%d calls are left, want 1", left)
	}
	// Another binary is asked anew.
	if err := os.Chtimes(binary, time.Now(), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if v, err := l.Version(t.Context()); err == nil || fake.Left() != 0 {
		t.Errorf("no output of another binary: %q, %d calls are left", v, fake.Left())
	}
}

func TestNew_configuration(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "lvm")
	for range 2 {
		if _, err := New(Config{Runner: run.NewFake(), Dir: dir}); err != nil {
			t.Fatal(err)
		}
	}
	conf, err := os.ReadFile(filepath.Join(dir, "lvm.conf"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"use_aio=0", `locking_dir="/run/lock/lvm"`, `archive_dir="` + dir + `/archive"`, `hints="none"`} {
		if !strings.Contains(string(conf), want) {
			t.Errorf("no %s in %s", want, conf)
		}
	}
	for name, cfg := range map[string]Config{
		"no runner":            {Dir: dir},
		"a relative directory": {Runner: run.NewFake(), Dir: "lvm"},
		"a quote":              {Runner: run.NewFake(), Dir: "/tmp/\"x"},
	} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestRun_hints: commands that change which devices are physical volumes clear the hints of the host's LVM, and all others leave them alone.
func TestRun_hints(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "lvm")
	var hints []string
	l, err := New(Config{Dir: dir, Runner: runs(func(c run.Command) {
		conf, err := os.ReadFile(filepath.Join(strings.TrimPrefix(c.Env[0], "LVM_SYSTEM_DIR="), "lvm.conf"))
		if err != nil {
			t.Error(err)
		}
		_, value, _ := strings.Cut(string(conf), "hints=")
		value, _, _ = strings.Cut(value, "\n")
		hints = append(hints, c.Args[0]+" "+value)
	})})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{`pvcreate "all"`, `vgextend "all"`, `vgremove "all"`, `lvcreate "none"`, `fullreport "none"`, `vgchange "none"`}
	for _, w := range want {
		command, _, _ := strings.Cut(w, " ")
		if _, err := l.run(t.Context(), []string{"/dev/sda"}, command); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(hints, want) {
		t.Errorf("%q", hints)
	}
}

// runs is a runner that shows the commands.
type runs func(run.Command)

// Run shows a command.
func (r runs) Run(_ context.Context, c run.Command) (run.Result, error) {
	r(c)
	return run.Result{}, nil
}
