package fs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quarry.storage/quarry/agent/internal/host/run"
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
		"several formats":                {code: 8, failed: errAny},
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
			if got != c.want || (c.failed == nil) != (err == nil) || errors.Is(c.failed, ErrUnknownData) != errors.Is(err, ErrUnknownData) {
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

func TestTool_Format(t *testing.T) {
	for fsType, argv := range map[string][]string{
		"ext4":  {"/usr/sbin/mkfs.ext4", "-q", "-m", "0", "-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard"},
		"xfs":   {"/usr/sbin/mkfs.xfs", "-q", "-K"},
		"btrfs": {"/usr/sbin/mkfs.btrfs", "-q", "-K"},
	} {
		device := image(t, 1<<20)
		fake := run.NewFake(blkid(device, 2, ""), run.Step{Argv: append(argv, device)})
		if err := New(fake).Format(t.Context(), device, fsType); err != nil || fake.Left() != 0 {
			t.Errorf("%s: %v, %d calls left", fsType, err, fake.Left())
		}
	}
	device := image(t, 1<<20)
	if err := New(run.NewFake(blkid(device, 0, "TYPE=xfs\n"))).Format(t.Context(), device, "ext4"); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("got %v", err)
	}
	if err := New(run.NewFake()).Format(t.Context(), device, "-t vfat"); !errors.Is(err, ErrUnsupported) {
		t.Errorf("got %v", err)
	}
}

func TestTool_Check(t *testing.T) {
	for code, want := range map[int]error{0: nil, 1: nil, 2: nil, 3: nil, 4: ErrDamaged, 5: ErrDamaged, 8: errAny, 32: errAny, 12: ErrDamaged} {
		fake := run.NewFake(run.Step{Argv: []string{"/usr/sbin/e2fsck", "-p", "/dev/x"}, Result: run.Result{ExitCode: code}})
		err := New(fake).Check(t.Context(), "/dev/x", "ext4")
		if (want == nil) != (err == nil) || errors.Is(want, ErrDamaged) != errors.Is(err, ErrDamaged) {
			t.Errorf("exit code %d: %v", code, err)
		}
	}
	if err := New(run.NewFake()).Check(t.Context(), "/dev/x", "xfs"); err != nil {
		t.Error(err)
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
