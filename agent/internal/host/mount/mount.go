// Package mount reads which block devices are in use as filesystems or as swap, and mounts filesystems below one directory. It
// knows nothing about what a use means for a device, nor whether a mount is wanted, and it remembers nothing.
package mount

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// Swap stands for the place of a device that is used as swap space.
const Swap = "[swap]"

// Config says where to read. Empty fields mean the host's own.
type Config struct {
	// Proc is the host's /proc; the mount table is read from process 1.
	Proc string
	// Dev is the host's /dev, where the sources of mounts are looked up.
	Dev string
}

// Device is a device number.
type Device struct{ Major, Minor uint32 }

// Use is one place where a device is used.
type Use struct {
	Device Device
	// Where is a mount point in the host's mount namespace, or Swap.
	Where string
}

// Table is what is mounted and swapped on at one moment.
type Table struct {
	// Uses, ordered by device and place, without duplicates.
	Uses []Use
	// Unresolved are uses whose block device could not be found out, with the error. They could concern any device.
	Unresolved []string
}

// At are the places where the device is used, ordered.
func (t Table) At(d Device) []string {
	var out []string
	for _, u := range t.Uses {
		if u.Device == d {
			out = append(out, u.Where)
		}
	}
	return out
}

// Reader reads the tables.
type Reader struct {
	proc, dev string
	number    func(path string) (Device, error)
}

// New makes a Reader.
func New(cfg Config) *Reader {
	return &Reader{proc: cmp.Or(cfg.Proc, "/proc"), dev: cmp.Or(cfg.Dev, "/dev"), number: blockNumber}
}

// Read reads both tables afresh.
func (r *Reader) Read() (Table, error) {
	var t Table
	if err := r.mounts(&t); err != nil {
		return Table{}, err
	}
	if err := r.swaps(&t); err != nil {
		return Table{}, err
	}
	slices.SortFunc(t.Uses, func(a, b Use) int {
		return cmp.Or(cmp.Compare(a.Device.Major, b.Device.Major), cmp.Compare(a.Device.Minor, b.Device.Minor),
			cmp.Compare(a.Where, b.Where))
	})
	t.Uses = slices.Compact(t.Uses)
	slices.Sort(t.Unresolved)
	t.Unresolved = slices.Compact(t.Unresolved)
	return t, nil
}

// multiDevice are the filesystems on block devices that show a device number of their own.
var multiDevice = []string{"btrfs", "bcachefs"}

// mounts adds every mount by its device number and, as btrfs and others show a number of their own there, by its source.
func (r *Reader) mounts(t *Table) error {
	f, err := os.Open(filepath.Join(r.proc, "1", "mountinfo"))
	if err != nil {
		return fmt.Errorf("mount table: %w", err)
	}
	defer f.Close()
	infos, err := mountinfo.GetMountsFromReader(f, nil)
	if err != nil {
		return fmt.Errorf("mount table %s: %w", f.Name(), err)
	}
	for _, m := range infos {
		if m.Major != 0 {
			t.add(Device{uint32(m.Major), uint32(m.Minor)}, m.Mountpoint)
		}
		for _, source := range sources(m.Source) {
			d, err := r.lookup(source)
			switch {
			case err == nil:
				t.add(d, m.Mountpoint)
			case m.Major == 0 && slices.Contains(multiDevice, m.FSType):
				t.Unresolved = append(t.Unresolved, fmt.Sprintf("mount %s of %s: %v", m.Mountpoint, source, err))
			}
		}
	}
	return nil
}

// sources are the device paths in the source of a mount; bcachefs writes several, joined by colons.
func sources(source string) []string {
	if !strings.HasPrefix(source, "/dev/") {
		return nil
	}
	var out []string
	for part := range strings.SplitSeq(source, ":/dev/") {
		out = append(out, "/dev/"+strings.TrimPrefix(part, "/dev/"))
	}
	return out
}

// swaps adds the swap devices; swap files stand on a filesystem that is mounted anyway.
func (r *Reader) swaps(t *Table) error {
	file := filepath.Join(r.proc, "swaps")
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		// A kernel without swap support has no such file, while the mount table beside it was readable.
		return nil
	}
	if err != nil {
		return fmt.Errorf("swap table: %w", err)
	}
	for i, line := range strings.Split(strings.TrimRight(string(text), "\n"), "\n") {
		cols := strings.Fields(line)
		if i == 0 {
			if len(cols) < 2 || cols[0] != "Filename" || cols[1] != "Type" {
				return fmt.Errorf("swap table %s: unexpected heading %q", file, line)
			}
			continue
		}
		if len(cols) != 5 {
			return fmt.Errorf("swap table %s: unexpected line %q", file, line)
		}
		if cols[1] == "file" {
			continue
		}
		path := strings.TrimSuffix(unescape(cols[0]), " (deleted)")
		d, err := r.lookup(path)
		if err != nil {
			t.Unresolved = append(t.Unresolved, fmt.Sprintf("swap on %s: %v", path, err))
			continue
		}
		t.add(d, Swap)
	}
	return nil
}

func (t *Table) add(d Device, where string) {
	t.Uses = append(t.Uses, Use{Device: d, Where: where})
}

// lookup finds the number of a device that the host calls by path, below /dev.
func (r *Reader) lookup(path string) (Device, error) {
	rel, ok := strings.CutPrefix(filepath.Clean(path), "/dev/")
	if !ok {
		return Device{}, fmt.Errorf("%s is not below /dev", path)
	}
	return r.number(filepath.Join(r.dev, rel))
}

// blockNumber is the number of the block device node at path.
func blockNumber(path string) (Device, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return Device{}, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return Device{}, fmt.Errorf("%s is not a block device", path)
	}
	return Device{unix.Major(st.Rdev), unix.Minor(st.Rdev)}, nil
}

// unescape undoes the octal escapes of the kernel's tables.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) && isOctal(s[i+1:i+4]) {
			b.WriteByte((s[i+1]-'0')<<6 | (s[i+2]-'0')<<3 | (s[i+3] - '0'))
			i += 3
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func isOctal(s string) bool {
	return strings.Trim(s, "01234567") == "" && s[0] <= '3'
}
