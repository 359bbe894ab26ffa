package fs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quarry.storage/quarry/agent/internal/host/run"
	"quarry.storage/quarry/pkg/filesystem"
)

// image is a file that stands for a device.
func image(t *testing.T, size int64, at ...int64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "device")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	for _, off := range at {
		if _, err := f.WriteAt([]byte{1}, off); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func blkid(device string, code int, out string) run.Step {
	return run.Step{
		Argv:   []string{"/usr/sbin/blkid", "-p", "-s", "TYPE", "-s", "PTTYPE", "-o", "export", device},
		Result: run.Result{Stdout: []byte(out), ExitCode: code},
	}
}

func TestTool_Probe(t *testing.T) {
	const size = 1 << 30
	for name, c := range map[string]struct {
		at     []int64
		code   int
		out    string
		want   string
		failed error
	}{
		"nothing":                        {code: 2},
		"a filesystem":                   {out: "DEVNAME=/dev/x\nTYPE=ext4\n", want: "ext4", at: []int64{1080}},
		"partitions":                     {out: "PTTYPE=gpt\n", want: "unknown data, probably partitions"},
		"several formats":                {code: 8, failed: ErrSeveral},
		"a killed blkid":                 {code: -1, failed: errAny},
		"data at the start":              {code: 2, at: []int64{0}, failed: ErrUnknownData},
		"data at the end of the edge":    {code: 2, at: []int64{1<<20 - 1}, failed: ErrUnknownData},
		"data at the end":                {code: 2, at: []int64{size - 1}, failed: ErrUnknownData},
		"a copy of a btrfs superblock":   {code: 2, at: []int64{64<<20 + 64}, failed: ErrUnknownData},
		"a copy of an ext4 superblock":   {code: 2, at: []int64{128<<20 + 56}, failed: ErrUnknownData},
		"data where nobody would look":   {code: 2, at: []int64{200 << 20}},
		"output that nobody understands": {out: "TYPE\n", failed: errAny},
	} {
		t.Run(name, func(t *testing.T) {
			device := image(t, size, c.at...)
			got, err := New(run.NewFake(blkid(device, c.code, c.out))).Probe(t.Context(), device)
			if got != c.want || (c.failed == nil) != (err == nil) || errors.Is(c.failed, ErrUnknownData) != errors.Is(err, ErrUnknownData) || errors.Is(c.failed, ErrSeveral) != errors.Is(err, ErrSeveral) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

var errAny = errors.New("any")

func TestTool_Probe_refusesWhatCannotBeRead(t *testing.T) {
	// blkid says the same for a device that it cannot read as for one that holds nothing.
	device := filepath.Join(t.TempDir(), "absent")
	if got, err := New(run.NewFake(blkid(device, 2, ""))).Probe(t.Context(), device); err == nil {
		t.Errorf("got %q", got)
	}
}

// tool is a Tool on a kernel of that release.
func tool(kernel string, steps ...run.Step) (*Tool, *run.Fake) {
	fake := run.NewFake(steps...)
	t := New(fake)
	t.versions.kernel = func() (string, error) { return kernel, nil }
	return t, fake
}

const id = "9a4d4b2c-5d8b-5f0e-8f52-1d4f0c6b8a11"

func TestTool_Format(t *testing.T) {
	const ext4 = "/usr/sbin/mkfs.ext4 -q -m 0 -e remount-ro -E lazy_itable_init=1,lazy_journal_init=%d,nodiscard"
	for name, c := range map[string]struct {
		make Make
		want string
		// program is the version that it is asked for.
		program string
	}{
		"ext4 where others wrote":  {make: Make{Type: "ext4"}, want: fmt.Sprintf(ext4, 0)},
		"ext4 on zeroes":           {Make{Type: "ext4", Zeroed: true, UUID: id}, fmt.Sprintf(ext4, 1) + ",assume_storage_prezeroed=1 -U " + id, "1.47.0"},
		"ext4 by an older program": {Make{Type: "ext4", Zeroed: true, UUID: id}, fmt.Sprintf(ext4, 1) + " -U " + id, "1.46.6"},
		"ext4 with tables, on zeroes": {
			make: Make{Type: "ext4", Zeroed: true, Options: []string{"-E lazy_itable_init=0"}},
			want: "/usr/sbin/mkfs.ext4 -q -m 0 -e remount-ro -E lazy_journal_init=1,nodiscard,lazy_itable_init=0",
		},
		"xfs":                       {make: Make{Type: "xfs", UUID: id}, want: "/usr/sbin/mkfs.xfs -q -K -m uuid=" + id},
		"xfs on zeroes":             {make: Make{Type: "xfs", UUID: id, Zeroed: true}, want: "/usr/sbin/mkfs.xfs -q -K -m uuid=" + id},
		"btrfs":                     {make: Make{Type: "btrfs", UUID: id}, want: "/usr/sbin/mkfs.btrfs -q -K -U " + id},
		"ext4 as a person wants it": {make: Make{Type: "ext4", Options: []string{"-m 5", "-E stride=16,lazy_itable_init=0", "-i 65536"}}, want: "/usr/sbin/mkfs.ext4 -q -m 5 -e remount-ro -E lazy_journal_init=0,nodiscard,stride=16,lazy_itable_init=0 -i 65536"},
		"xfs as a person wants it":  {make: Make{Type: "xfs", UUID: id, Options: []string{"-m reflink=0", "-d su=64k,sw=4"}}, want: "/usr/sbin/mkfs.xfs -q -K -m uuid=" + id + ",reflink=0 -d su=64k,sw=4"},
	} {
		device := image(t, 1<<20)
		steps := []run.Step{blkid(device, 2, ""), {Argv: append(strings.Fields(c.want), device)}}
		if c.program != "" {
			version := run.Step{Argv: []string{"/usr/sbin/mkfs.ext4", "-V"}, Result: run.Result{Stderr: []byte("mke2fs " + c.program + " (5-Feb-2023)\n")}}
			steps = append([]run.Step{version}, steps...)
		}
		formats, fake := tool("99.1.0", steps...)
		if err := formats.Format(t.Context(), device, c.make); err != nil || fake.Left() != 0 {
			t.Errorf("%s: %v, %d calls left", name, err, fake.Left())
		}
	}
	device := image(t, 1<<20)
	full, _ := tool("99.1", blkid(device, 0, "TYPE=xfs\n"))
	if err := full.Format(t.Context(), device, Make{Type: "ext4"}); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("got %v", err)
	}
	if err := New(run.NewFake()).Format(t.Context(), device, Make{Type: "-t vfat"}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("got %v", err)
	}
	if err := New(run.NewFake()).Format(t.Context(), device, Make{Type: "xfs", Options: []string{"-f"}}); !errors.Is(err, filesystem.ErrOption) {
		t.Errorf("got %v", err)
	}
}

// TestTool_Format_forOlderKernels: what the running kernel does not mount is turned off, if the program knows it.
func TestTool_Format_forOlderKernels(t *testing.T) {
	for name, c := range map[string]struct{ fsType, kernel, program, want string }{
		"a new kernel":                  {"xfs", "6.18.2-cloud", "", ""},
		"before parent pointers":        {"xfs", "6.12.0", "6.13.0", "-m metadir=0 -i exchange=0 -n parent=0"},
		"and with an older program":     {"xfs", "6.12.0", "6.1.0", ""},
		"before big extent counts":      {"xfs", "6.1.0-18-amd64", "6.1.0", "-i nrext64=0"},
		"before 5.19":                   {"xfs", "5.15.0-101-generic", "6.13.0", "-m metadir=0 -i nrext64=0,exchange=0 -n parent=0"},
		"before big timestamps":         {"xfs", "5.10.0", "6.1.0", "-m bigtime=0,inobtcount=0 -i nrext64=0"},
		"an enterprise kernel":          {"xfs", "4.18.0-513.el8.x86_64", "6.1.0", "-m reflink=0,rmapbt=0,bigtime=0,inobtcount=0 -i nrext64=0"},
		"one that does not say":         {"xfs", "?", "5.10.0", "-m reflink=0,rmapbt=0"},
		"ext4 before the orphan file":   {"ext4", "5.14.0-427.el9", "1.47.2", "-O ^orphan_file"},
		"ext4 by a program without one": {"ext4", "5.14.0", "1.46.5", ""},
		"btrfs":                         {"btrfs", "4.18.0", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			device := image(t, 1<<20)
			var version []run.Step
			if c.program != "" {
				version = []run.Step{{Argv: []string{"/usr/sbin/mkfs." + c.fsType, "-V"}, Result: run.Result{Stderr: []byte("mkfs." + c.fsType + " version " + c.program + "\n")}}}
			}
			made := []run.Step{blkid(device, 2, ""), {}}
			tool, fake := tool(c.kernel, slices.Concat(version, made, made)...)
			for range 2 {
				// The version is asked for once.
				if err := tool.Format(t.Context(), device, Make{Type: c.fsType}); err != nil {
					t.Fatal(err)
				}
			}
			last := fake.Calls()[len(fake.Calls())-1]
			got := strings.Join(slices.DeleteFunc(last.Args, func(a string) bool { return a == "-q" || a == "-K" || a == device }), " ")
			got = strings.TrimSpace(strings.TrimPrefix(got, "-m 0 -e remount-ro -E lazy_itable_init=1,lazy_journal_init=0,nodiscard"))
			if got != c.want || fake.Left() != 0 {
				t.Errorf("%q, %d calls left", got, fake.Left())
			}
		})
	}
}

func TestTool_DiscardOption(t *testing.T) {
	for _, c := range []struct{ fsType, kernel, want string }{
		{"ext4", "6.18.2", "discard"},
		{"xfs", "4.18.0-513.el8.x86_64", "discard"},
		{"btrfs", "5.6.0", "discard=async"},
		{"btrfs", "5.4.0-200-generic", "discard"},
		{"btrfs", "?", "discard"},
	} {
		if tool, _ := tool(c.kernel); tool.DiscardOption(c.fsType) != c.want {
			t.Errorf("%s on %s: %q, want %q", c.fsType, c.kernel, tool.DiscardOption(c.fsType), c.want)
		}
	}
}

func TestTool_Check(t *testing.T) {
	device := image(t, 1<<20)
	for code, want := range map[int]error{0: nil, 1: nil, 2: nil, 3: nil, 4: ErrDamaged, 5: ErrDamaged, 8: errAny, 32: errAny, 12: ErrDamaged} {
		fake := run.NewFake(run.Step{
			Argv:   []string{"/usr/sbin/e2fsck", "-p", "-C", "1", device},
			Result: run.Result{ExitCode: code, Stdout: []byte("1 1 8 /dev/x\n/dev/x: recovering journal\n2 50 200 /dev/x\n")},
		})
		var told []string
		err := New(fake).Check(t.Context(), device, "ext4", func(far string) { told = append(told, far) })
		if (want == nil) != (err == nil) || errors.Is(want, ErrDamaged) != errors.Is(err, ErrDamaged) {
			t.Errorf("exit code %d: %v", code, err)
		}
		if !slices.Equal(told, []string{"pass 1 of 5, 12 %", "pass 2 of 5, 25 %"}) {
			t.Errorf("told %q", told)
		}
	}
	if err := New(run.NewFake()).Check(t.Context(), "/dev/x", "xfs", nil); err != nil {
		t.Error(err)
	}
	if err := New(run.NewFake()).Check(t.Context(), filepath.Join(t.TempDir(), "absent"), "ext4", nil); err == nil {
		t.Error("checked what is not there")
	}
}

func TestTool_Grow(t *testing.T) {
	for fsType, argv := range map[string][]string{
		"ext4":  {"/usr/sbin/resize2fs", "/dev/x"},
		"xfs":   {"/usr/sbin/xfs_growfs", "-d", "/mnt"},
		"btrfs": {"/usr/bin/btrfs", "filesystem", "resize", "max", "/mnt"},
	} {
		fake := run.NewFake(blkid("/dev/x", 0, "TYPE="+fsType+"\n"), run.Step{Argv: argv})
		if err := New(fake).Grow(t.Context(), "/dev/x", "/mnt"); err != nil || fake.Left() != 0 {
			t.Errorf("%s: %v, %d calls left", fsType, err, fake.Left())
		}
		fake = run.NewFake(blkid("/dev/x", 0, "TYPE="+fsType+"\n"), run.Step{Argv: argv, Result: run.Result{ExitCode: 1, Stderr: []byte("no")}})
		if err := New(fake).Grow(t.Context(), "/dev/x", "/mnt"); err == nil || !strings.Contains(err.Error(), "no") {
			t.Errorf("%s: %v", fsType, err)
		}
	}
}

func TestTool_Clear(t *testing.T) {
	for _, size := range []int64{4096, 1 << 20, 3 << 20, 1 << 30} {
		device := image(t, size, 0, size-1, size/2)
		if err := New(run.NewFake()).Clear(t.Context(), device); err != nil {
			t.Fatal(err)
		}
		if got, err := New(run.NewFake(blkid(device, 2, ""))).Probe(t.Context(), device); got != "" || err != nil {
			t.Errorf("%d bytes: got %q, %v", size, got, err)
		}
		if info, err := os.Stat(device); err != nil || info.Size() != size {
			t.Errorf("%d bytes became %d, %v", size, info.Size(), err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := New(run.NewFake()).Clear(ctx, image(t, 4096)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestExecutor_startsKnownProgramsOnly(t *testing.T) {
	e := executor{ctx: t.Context(), runner: run.NewFake()}
	for _, name := range []string{"sh", "mkfs.ext4", "../blkid2", ""} {
		if _, err := e.Command(name, "-c", "reboot").CombinedOutput(); err == nil {
			t.Errorf("%q was started", name)
		}
	}
}

func TestTool_Usage(t *testing.T) {
	u, err := New(run.NewFake()).Usage(t.TempDir())
	if err != nil || u.TotalBytes <= 0 || u.UsedBytes+u.FreeBytes > u.TotalBytes {
		t.Errorf("got %+v, %v", u, err)
	}
	if _, err := New(run.NewFake()).Usage("/nonexistent"); err == nil {
		t.Error("measured what is not there")
	}
}
