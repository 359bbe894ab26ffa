package block

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// sectorBytes is the unit of sizes in sysfs, whatever the device's own sectors are.
const sectorBytes = 512

// sysfs reads the attributes of one device.
type sysfs struct {
	dir string
	dev *Device
	// env are the properties from udev's database, nil when there are none.
	env map[string]string
}

// required reads an attribute whose absence is a fault.
func (s *sysfs) required(fact, attr string) (string, bool) {
	b, err := os.ReadFile(filepath.Join(s.dir, attr))
	if err != nil {
		s.dev.fail(fact, err)
		return "", false
	}
	return strings.TrimSpace(string(b)), true
}

// optional reads an attribute that not every device has. ENODEV and EOPNOTSUPP are how drivers say the same.
func (s *sysfs) optional(attr string) string {
	return clean(s.raw(attr))
}

// raw is optional for attributes that are bytes rather than text.
func (s *sysfs) raw(attr string) string {
	b, err := os.ReadFile(filepath.Join(s.dir, attr))
	if err == nil {
		return string(b)
	}
	absent := errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ENODEV) ||
		errors.Is(err, syscall.ENXIO) || errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.EINVAL)
	if !absent {
		s.dev.fail(attr, err)
	}
	return ""
}

// clean trims blanks and NUL bytes, with which fixed-width answers of devices are filled up. "(null)" is what the kernel prints for a
// text that a driver has not set.
func clean(v string) string {
	v = strings.Trim(v, " \t\r\n\x00")
	if v == "(null)" {
		return ""
	}
	return v
}

func (s *sysfs) integer(fact, attr string) int64 {
	v, ok := s.required(fact, attr)
	if !ok {
		return 0
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 0 {
		s.dev.fail(fact, fmt.Errorf("%s is %q", attr, v))
		return 0
	}
	return n
}

func (s *sysfs) flag(fact, attr string) bool {
	v, ok := s.required(fact, attr)
	if ok && v != "0" && v != "1" {
		s.dev.fail(fact, fmt.Errorf("%s is %q", attr, v))
	}
	return v == "1"
}

// number reads the device number.
func (s *sysfs) number() {
	v, ok := s.required("device number", "dev")
	if !ok {
		return
	}
	major, minor, found := strings.Cut(v, ":")
	a, errA := strconv.ParseUint(major, 10, 32)
	b, errB := strconv.ParseUint(minor, 10, 32)
	if err := errors.Join(errA, errB); err != nil || !found {
		s.dev.fail("device number", fmt.Errorf("dev is %q", v))
		return
	}
	s.dev.Major, s.dev.Minor = uint32(a), uint32(b)
}

// kind tells partitions, whose disk is the directory above their own, from disks.
func (s *sysfs) kind() {
	s.dev.Type = kindOf(s.dev.Name)
	_, err := os.Stat(filepath.Join(s.dir, "partition"))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		s.dev.fail("type", err)
		return
	}
	s.dev.Type = "partition"
	real, err := filepath.EvalSymlinks(s.dir)
	if err != nil {
		s.dev.fail("parent", err)
		return
	}
	s.dev.Parent = filepath.Base(filepath.Dir(real))
}

func (s *sysfs) size() {
	s.dev.SizeBytes = s.integer("size", "size") * sectorBytes
	s.dev.ReadOnly = s.flag("read-only", "ro")
}

// queue reads what a partition shares with its disk.
func (s *sysfs) queue() {
	base := ""
	if s.dev.Type == "partition" {
		// The class directory is a link: joining ".." to its name would lead back to the class.
		real, err := filepath.EvalSymlinks(s.dir)
		if err != nil {
			s.dev.fail("queue", err)
			return
		}
		own := s.dir
		s.dir = filepath.Dir(real)
		defer func() { s.dir = own }()
	}
	s.dev.LogicalSectorBytes = int(s.integer("sector size", filepath.Join(base, "queue/logical_block_size")))
	s.dev.PhysicalSectorBytes = int(s.integer("sector size", filepath.Join(base, "queue/physical_block_size")))
	s.dev.Rotational = s.flag("rotational", filepath.Join(base, "queue/rotational"))
	s.dev.Removable = s.flag("removable", filepath.Join(base, "removable"))
	if zoned := s.optional(filepath.Join(base, "queue/zoned")); zoned != "none" {
		// A kernel without the attribute has no such disks.
		s.dev.Zoned = zoned
	}
	// The attribute of SCSI and of NVMe has one name. Not every device has it.
	if state := s.optional(filepath.Join(base, "device/state")); slices.Contains(held, state) {
		s.dev.Held = state
	}
}

// held are the states in which the kernel keeps requests: those of SCSI (drivers/scsi/scsi_sysfs.c), then those of NVMe (drivers/nvme/host/sysfs.c).
// An offline disk is none of them: its requests fail at once.
var held = []string{"blocked", "created-blocked", "quiesce", "connecting", "resetting"}

// relations reads holders, slaves and partitions.
func (s *sysfs) relations() {
	s.dev.Holders = s.names("holders")
	if s.dev.Type == "partition" {
		return
	}
	s.dev.Slaves = s.names("slaves")
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		s.dev.fail("partitions", err)
		return
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		_, err := os.Stat(filepath.Join(s.dir, e.Name(), "partition"))
		switch {
		case err == nil:
			s.dev.Partitions = append(s.dev.Partitions, e.Name())
		case !errors.Is(err, fs.ErrNotExist):
			s.dev.fail("partitions", err)
		}
	}
}

func (s *sysfs) names(attr string) []string {
	entries, err := os.ReadDir(filepath.Join(s.dir, attr))
	if err != nil {
		s.dev.fail(attr, err)
		return nil
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// mapper reads what only device-mapper devices have.
func (s *sysfs) mapper() {
	if s.dev.Type != "dm" {
		return
	}
	s.dev.Suspended = s.flag("suspended", "dm/suspended")
	s.dev.DMName, _ = s.required("device-mapper name", "dm/name")
	s.dev.DMUUID, _ = s.required("device-mapper uuid", "dm/uuid")
}
