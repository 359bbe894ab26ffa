package mount

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/pkg/filesystem"
)

// numbers stand for the nodes of a host.
var numbers = map[string]Device{
	"/dev/sda2": {8, 2}, "/dev/sda3": {8, 3}, "/dev/sdb1": {8, 17}, "/dev/sdc": {8, 32}, "/dev/sdd": {8, 48},
	"/dev/sde": {8, 64}, "/dev/dm-7": {253, 7},
}

func newReader(proc string) *Reader {
	r := New(Config{Proc: proc})
	r.number = func(path string) (Device, error) {
		if d, ok := numbers[path]; ok {
			return d, nil
		}
		return Device{}, fmt.Errorf("stat %s: %w", path, fs.ErrNotExist)
	}
	return r
}

func TestRead(t *testing.T) {
	got, err := newReader("testdata").Read()
	if err != nil {
		t.Fatal(err)
	}
	want := Table{
		Uses: []Use{
			{Device{8, 2}, "/"},
			{Device{8, 3}, Swap},
			{Device{8, 17}, "/srv/my data"},
			{Device{8, 17}, "/var/lib/kubelet/pods/x/volume-subpaths/y"},
			{Device{8, 32}, "/btrfs"},
			{Device{8, 48}, "/bch"},
			{Device{8, 64}, "/bch"},
			{Device{253, 0}, "/mapped"},
			{Device{253, 7}, Swap},
		},
		Unresolved: []string{
			"mount /gone of /dev/mapper/gone: stat /dev/mapper/gone: file does not exist",
			"swap on /dev/sdx: stat /dev/sdx: file does not exist",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"/bch"}, got.At(Device{8, 48})); diff != "" {
		t.Error(diff)
	}
	if at := got.At(Device{9, 9}); at != nil {
		t.Errorf("a device that is not used: %v", at)
	}
}

func TestRead_errors(t *testing.T) {
	const good = "22 1 8:2 / / rw - ext4 /dev/sda2 rw\n"
	tests := map[string]struct{ mountinfo, swaps string }{
		"no mount table":         {},
		"a broken mount table":   {mountinfo: "22 1 8:2\n"},
		"another swap table":     {mountinfo: good, swaps: "Name\n"},
		"a broken swap table":    {mountinfo: good, swaps: "Filename Type Size Used Priority\n/dev/sda3\n"},
		"an empty swap table":    {mountinfo: good, swaps: "\n"},
		"a swap table cut short": {mountinfo: good, swaps: "Filename Type Size Used Priority\n/dev/sda3 partition 1\n"},
	}
	for name, tt := range tests {
		dir := t.TempDir()
		if tt.mountinfo != "" {
			write(t, filepath.Join(dir, "1", "mountinfo"), tt.mountinfo)
		}
		if tt.swaps != "" {
			write(t, filepath.Join(dir, "swaps"), tt.swaps)
		}
		if got, err := newReader(dir).Read(); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "1", "mountinfo"), good)
	if _, err := newReader(dir).Read(); err != nil {
		t.Errorf("a kernel without swap: %v", err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestRead_thisHost(t *testing.T) {
	got, err := New(Config{}).Read()
	if err != nil {
		t.Skipf("not readable here: %v", err)
	}
	if len(got.Uses)+len(got.Unresolved) == 0 {
		t.Skip("nothing is mounted from a device here")
	}
}

func TestBlockNumber(t *testing.T) {
	if _, err := blockNumber(t.TempDir()); err == nil {
		t.Error("a directory is accepted")
	}
	if _, err := blockNumber("/nonexistent"); err == nil {
		t.Error("nothing is accepted")
	}
}

func TestUnescape(t *testing.T) {
	for in, want := range map[string]string{`a\040b`: "a b", `a\`: `a\`, `a\04`: `a\04`, `\134`: `\`, `a\999`: `a\999`} {
		if got := unescape(in); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
}

// TestParseOptions_flags: what package filesystem takes, the mounter knows.
func TestParseOptions_flags(t *testing.T) {
	for _, name := range filesystem.MountFlags {
		if _, ok := mountFlags[name]; !ok {
			t.Errorf("%s has no bits", name)
		}
	}
	if len(mountFlags) != len(filesystem.MountFlags) {
		t.Errorf("%d flags have bits, and %d are taken", len(mountFlags), len(filesystem.MountFlags))
	}
}
