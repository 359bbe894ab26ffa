package linear

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Device is the device of a volume as the kernel has it.
type Device struct {
	Volume
	// Path of its node; empty when it has none.
	Path         string
	Major, Minor uint32
	// Segments of the live table, in order. Linear is true when it has no other parts; Cut when all of it returns errors.
	Segments    []Segment
	Linear, Cut bool
	// Sectors of the live table.
	Sectors int64
	// Live is true when a table is live; Loaded when one is loaded that is not live.
	Live, Loaded bool
	// Suspended is true when the device holds back whoever reads or writes.
	Suspended bool
	// Open is how often it is open, mounts and devices that stand on it included.
	Open int
	// Holders are the kernel's names of the devices that stand on it.
	Holders []string
}

// InUse reports whether the device is open, mounted or held.
func (d Device) InUse() bool { return d.Open > 0 || len(d.Holders) > 0 }

// columns are what is asked of dmsetup.
const columns = "uuid,name,tables_loaded,suspended,major,minor,open"

// looks is how often the devices are listed until all of them can be read: one of another volume may go away in between.
const looks = 3

// List tells the devices of a group's volumes, ordered by the UUIDs of the volumes.
func (d *Devices) List(ctx context.Context, group string) (out []Device, err error) {
	if !uuidForm.MatchString(group) {
		return nil, fmt.Errorf("devices: %w: group %q", ErrInvalid, group)
	}
	for range looks {
		if out, err = d.list(ctx, group); err == nil {
			break
		}
	}
	return out, err
}

func (d *Devices) list(ctx context.Context, group string) ([]Device, error) {
	res, err := d.dmsetup(ctx, nil, "info", "--columns", "--noheadings", "--separator", " ", "--options", columns)
	if err != nil {
		return nil, fmt.Errorf("devices: %w", err)
	}
	var out []Device
	for line := range strings.Lines(string(res.Stdout)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), " ")
		v, ours := VolumeOf(fields[0])
		if !ours || v.Group != group {
			continue
		}
		dev, err := d.device(v, fields[1:])
		if err != nil {
			return nil, fmt.Errorf("device of volume %s: %w", v.UUID, err)
		}
		out = append(out, dev)
	}
	if err := d.readTables(ctx, out); err != nil {
		return nil, fmt.Errorf("devices: %w", err)
	}
	slices.SortFunc(out, func(a, b Device) int { return strings.Compare(a.UUID, b.UUID) })
	return out, nil
}

// device reads one line of dmsetup's.
func (d *Devices) device(v Volume, fields []string) (Device, error) {
	if len(fields) != 6 {
		return Device{}, fmt.Errorf("dmsetup says %q", fields)
	}
	out := Device{Volume: v}
	if fields[0] != v.name() {
		return out, fmt.Errorf("%w: it is called %q", ErrOther, fields[0])
	}
	switch fields[1] {
	case "None":
	case "Live":
		out.Live = true
	case "Inactive":
		out.Loaded = true
	case "Both":
		out.Live, out.Loaded = true, true
	default:
		return out, fmt.Errorf("dmsetup says %q of its tables", fields[1])
	}
	switch fields[2] {
	case "Active":
	case "Suspended":
		out.Suspended = true
	default:
		return out, fmt.Errorf("dmsetup says that it is %q", fields[2])
	}
	major, err := strconv.ParseUint(fields[3], 10, 32)
	minor, minorErr := strconv.ParseUint(fields[4], 10, 32)
	open, openErr := strconv.Atoi(fields[5])
	if err := errors.Join(err, minorErr, openErr); err != nil {
		return out, err
	}
	out.Major, out.Minor, out.Open = uint32(major), uint32(minor), open
	if out.Holders, err = d.holders(out); err != nil {
		return out, err
	}
	if d.numbered(d.node(v), out) {
		out.Path = d.node(v)
	}
	return out, nil
}

// readTables reads the live tables of all devices in one process. Of several, dmsetup says before each line whose it is.
func (d *Devices) readTables(ctx context.Context, devices []Device) error {
	args := []string{"table"}
	for _, dev := range devices {
		if dev.Live {
			args = append(args, dev.name())
		}
	}
	if len(args) == 1 {
		return nil
	}
	res, err := d.dmsetup(ctx, nil, args...)
	if err != nil {
		return err
	}
	lines := map[string][]string{}
	for line := range strings.Lines(string(res.Stdout)) {
		name, of := args[1], line
		if len(args) > 2 {
			name, of, _ = strings.Cut(line, ": ")
		}
		if !slices.Contains(args[1:], name) {
			return fmt.Errorf("a table says %q", line)
		}
		lines[name] = append(lines[name], of)
	}
	for i := range devices {
		if !devices[i].Live {
			continue
		}
		if err := devices[i].readTable(lines[devices[i].name()]); err != nil {
			return fmt.Errorf("volume %s: %w", devices[i].UUID, err)
		}
	}
	return nil
}

// readTable takes in the lines of the live table.
func (d *Device) readTable(lines []string) error {
	d.Linear, d.Cut = true, true
	for _, line := range lines {
		words := strings.Fields(line)
		if len(words) < 3 {
			return fmt.Errorf("its table says %q", line)
		}
		start, err := strconv.ParseInt(words[0], 10, 64)
		sectors, sectorsErr := strconv.ParseInt(words[1], 10, 64)
		if err := errors.Join(err, sectorsErr); err != nil || start != d.Sectors {
			return fmt.Errorf("its table says %q", line)
		}
		d.Sectors += sectors
		d.Cut = d.Cut && words[2] == "error"
		if words[2] != "linear" {
			d.Linear = false
			continue
		}
		if len(words) != 5 {
			return fmt.Errorf("its table says %q", line)
		}
		at, err := strconv.ParseInt(words[4], 10, 64)
		if err != nil {
			return err
		}
		d.Segments = append(d.Segments, Segment{On: words[3], Start: at, Sectors: sectors})
	}
	d.Linear, d.Cut = d.Linear && d.Sectors > 0, d.Cut && d.Sectors > 0
	return nil
}

// holders are the devices that stand on one. The kernel shows a device only once it has a table.
func (d *Devices) holders(v Device) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(d.sys, "dev/block", v.number(), "holders"))
	if errors.Is(err, fs.ErrNotExist) && !v.Live {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out, nil
}

// number is the device number as the kernel writes it.
func (d Device) number() string { return fmt.Sprintf("%d:%d", d.Major, d.Minor) }

// numbered reports whether a node is that of the device.
func (d *Devices) numbered(path string, v Device) bool {
	var st unix.Stat_t
	return unix.Stat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFBLK && unix.Major(st.Rdev) == v.Major && unix.Minor(st.Rdev) == v.Minor
}

// users say who uses a device, as far as can be seen from here: ": mounted at /x, open 2 times".
func (d *Devices) users(v Device) string {
	says := fmt.Sprintf(": it is open %d times", v.Open)
	if len(v.Holders) > 0 {
		says += ", held by " + strings.Join(v.Holders, ", ")
	}
	table, err := os.ReadFile(filepath.Join(d.proc, "1/mountinfo"))
	if err != nil {
		return says
	}
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); len(fields) > 4 && fields[2] == v.number() {
			says += ", mounted at " + fields[4]
		}
	}
	return says
}
