// Package dm finds the device of a logical volume among those of device-mapper, by what the kernel says of them in sysfs, and zeroes it. It
// runs no command, and does not know what a volume is used for.
package dm

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Kinds of failures, for errors.Is.
var (
	// ErrNotFound means that the kernel has no such device: the volume does not exist, or is not active.
	ErrNotFound = errors.New("no such device")
	// ErrNotLVM means that a device of this name is not a logical volume.
	ErrNotLVM = errors.New("not a logical volume")
	// ErrInUse means that something has the device for itself.
	ErrInUse = errors.New("the device is in use")
)

// uuidBytes is "LVM-" and the UUIDs of group and volume. A suffix follows on the hidden devices below a volume.
const (
	uuidPrefix = "LVM-"
	uuidBytes  = len(uuidPrefix) + 64
)

// Config says where to look. Empty fields mean the host's own.
type Config struct {
	Sys, Dev string
}

// Device is the device of an active volume.
type Device struct {
	// Path of its node.
	Path         string
	Major, Minor uint32
	SizeBytes    int64
	// UUID is device-mapper's: "LVM-", and the UUIDs of group and volume without their hyphens.
	UUID string
}

// In reports whether the device is that of a volume in a group, by the UUID that LVM gave the group; any device is in the group without one.
func (d Device) In(groupUUID string) bool {
	return groupUUID == "" || strings.HasPrefix(d.UUID, uuidPrefix+strings.ReplaceAll(groupUUID, "-", ""))
}

// Reader finds devices.
type Reader struct {
	sys, dev string
	number   func(path string) (major, minor uint32, err error)
}

// New makes a Reader.
func New(cfg Config) *Reader {
	return &Reader{sys: cmp.Or(cfg.Sys, "/sys"), dev: cmp.Or(cfg.Dev, "/dev"), number: blockNumber}
}

// Name is what device-mapper calls a volume: hyphens within the names are doubled, and one stands between them.
func Name(group, volume string) string {
	return strings.ReplaceAll(group, "-", "--") + "-" + strings.ReplaceAll(volume, "-", "--")
}

// Find finds the device of a volume.
func (r *Reader) Find(group, volume string) (Device, error) {
	want := Name(group, volume)
	dirs, err := filepath.Glob(filepath.Join(r.sys, "block", "dm-*"))
	if err != nil {
		return Device{}, fmt.Errorf("devices: %w", err)
	}
	for _, dir := range dirs {
		name, err := attribute(dir, "dm/name")
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
			// It went away between the listing and the reading.
			continue
		}
		if err != nil {
			return Device{}, fmt.Errorf("device %s: %w", filepath.Base(dir), err)
		}
		if name == want {
			return r.device(dir, want)
		}
	}
	return Device{}, fmt.Errorf("volume %s/%s: %w", group, volume, ErrNotFound)
}

// device reads and verifies the device in one directory of sysfs.
func (r *Reader) device(dir, name string) (Device, error) {
	uuid, err := attribute(dir, "dm/uuid")
	if err != nil {
		return Device{}, fmt.Errorf("device %s: %w", name, err)
	}
	if !strings.HasPrefix(uuid, uuidPrefix) || len(uuid) != uuidBytes {
		return Device{}, fmt.Errorf("device %s with uuid %q: %w", name, uuid, ErrNotLVM)
	}
	number, err := attribute(dir, "dev")
	if err != nil {
		return Device{}, fmt.Errorf("device %s: %w", name, err)
	}
	d := Device{UUID: uuid}
	if _, err := fmt.Sscanf(number, "%d:%d", &d.Major, &d.Minor); err != nil {
		return Device{}, fmt.Errorf("device %s: number %q: %w", name, number, err)
	}
	sectors, err := attribute(dir, "size")
	if err != nil {
		return Device{}, fmt.Errorf("device %s: %w", name, err)
	}
	n, err := strconv.ParseInt(sectors, 10, 64)
	if err != nil {
		return Device{}, fmt.Errorf("device %s: size: %w", name, err)
	}
	d.SizeBytes = n * 512
	var missing []error
	for _, path := range []string{filepath.Join(r.dev, "mapper", name), filepath.Join(r.dev, filepath.Base(dir))} {
		major, minor, err := r.number(path)
		switch {
		case err != nil:
			missing = append(missing, err)
		case major != d.Major || minor != d.Minor:
			missing = append(missing, fmt.Errorf("%s is device %d:%d, not %s", path, major, minor, number))
		default:
			d.Path = path
			return d, nil
		}
	}
	return Device{}, fmt.Errorf("device %s has no node: %w", name, errors.Join(missing...))
}

func attribute(dir, name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dir, name))
	return strings.TrimSpace(string(text)), err
}

func blockNumber(path string) (major, minor uint32, err error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0, 0, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return 0, 0, fmt.Errorf("%s is not a block device", path)
	}
	return unix.Major(st.Rdev), unix.Minor(st.Rdev), nil
}
