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
	"time"
)

// errNotInDatabase means that udev has not finished with the device: its links and properties are not known yet.
var errNotInDatabase = errors.New("not yet in udev's database")

// record is what udev's database holds about one device.
type record struct {
	// links are paths below /dev.
	links []string
	// env are the properties.
	env map[string]string
	// appeared is when udev saw the device for the first time, on the clock of Uptime; nil when the record does not say it in a number.
	appeared *time.Duration
}

// record reads one device's file. The format is udev's own: one letter, a colon, the value. "I:" is written when udev has
// finished with the device for the first time; its value is when udev saw the device first, in microseconds of the monotonic clock.
func (h *Host) record(major, minor uint32) (record, error) {
	if h.withoutUdev {
		return record{}, nil
	}
	text, err := os.ReadFile(h.recordPath(fmt.Sprintf("%d:%d", major, minor)))
	if errors.Is(err, fs.ErrNotExist) {
		return record{}, errNotInDatabase
	}
	if err != nil {
		return record{}, err
	}
	rec := record{env: map[string]string{}}
	initialized := false
	for line := range strings.Lines(string(text)) {
		key, value, ok := strings.Cut(strings.TrimRight(line, "\n"), ":")
		if !ok {
			continue
		}
		switch key {
		case "I":
			initialized = true
			if us, err := strconv.ParseInt(value, 10, 64); err == nil && us > 0 {
				rec.appeared = new(time.Duration(us) * time.Microsecond)
			}
		case "S":
			rec.links = append(rec.links, value)
		case "E":
			if k, v, ok := strings.Cut(value, "="); ok {
				rec.env[k] = v
			}
		}
	}
	if !initialized {
		return record{}, errNotInDatabase
	}
	return rec, nil
}

// checkLinks keeps the links below /dev/disk that exist and lead to the node; of two devices that claim one name, only one
// has it.
func (h *Host) checkLinks(names []string, node string) []string {
	var out []string
	own, err := os.Stat(node)
	if err != nil {
		return nil
	}
	for _, name := range names {
		if !strings.HasPrefix(name, "disk/") {
			continue
		}
		link := filepath.Join(h.dev, name)
		if target, err := os.Stat(link); err == nil && os.SameFile(target, own) {
			out = append(out, link)
		}
	}
	return out
}

// scanLinks finds the links by reading /dev/disk, for hosts without udev's database.
func (h *Host) scanLinks(node string) ([]string, error) {
	root := filepath.Join(h.dev, "disk")
	dirs, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	own, err := os.Stat(node)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, dir := range dirs {
		links, err := os.ReadDir(filepath.Join(root, dir.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // Whoever removed the last link in it removed the directory as well.
		}
		if err != nil {
			return nil, err
		}
		for _, l := range links {
			link := filepath.Join(root, dir.Name(), l.Name())
			if target, err := os.Stat(link); err == nil && os.SameFile(target, own) {
				out = append(out, link)
			}
		}
	}
	return out, nil
}

// ownerKeys are the properties that tell what uses a device, and ownerPrefixes the beginnings of more of them.
var (
	ownerKeys = []string{
		"ID_FS_TYPE", "ID_FS_UUID", "ID_FS_LABEL", "ID_FS_USAGE", "ID_FS_AMBIVALENT", "ID_PART_TABLE_TYPE",
		"ID_PART_ENTRY_TYPE", "ID_PART_ENTRY_NAME",
		"DM_MULTIPATH_DEVICE_PATH", "SYSTEMD_READY", "ID_CDROM", "ID_DRIVE_FLOPPY", "ID_BCACHE_TYPE", "LVM_VG_NAME",
		"DM_NAME", "DM_UUID", "DM_VG_NAME", "MD_UUID", "MD_LEVEL", "MD_NAME",
	}
	ownerPrefixes = []string{"STRATIS_", "VDO_", "ID_BTRFS_", "BCACHE_", "CEPH_", "DRBD_", "STORAGE_"}
)

// owners picks those properties.
func owners(env map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range env {
		if v == "" {
			continue
		}
		named := slices.ContainsFunc(ownerPrefixes, func(p string) bool { return strings.HasPrefix(k, p) })
		if named || slices.Contains(ownerKeys, k) {
			out[k] = v
		}
	}
	return out
}
