package lun

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/agent/internal/host/block"
	"quarry.storage/quarry/agent/internal/host/mount"
	"quarry.storage/quarry/agent/internal/host/occupant"
	"quarry.storage/quarry/pkg/sharedlun"
)

// Tools are those by which HostUses finds who uses a LUN.
type Tools struct {
	// Sys and Dev are the host's /sys and /dev.
	Sys, Dev string
	Block    interface {
		Device(major, minor uint32) (block.Device, error)
	}
	Mounts    interface{ Read() (mount.Table, error) }
	Occupants interface {
		Find(ctx context.Context, disks []occupant.Device) ([][]string, error)
	}
}

// HostUses finds who uses a LUN on this machine.
type HostUses struct{ Tools }

var _ Uses = HostUses{}

// UsedByDevice begins the words for a device that is built on a LUN.
const UsedByDevice = "device "

// lookers have devices open only to look at them, which is no use of them: multipathd has every path open, and udev opens what appears or was written. What
// is done to an unused LUN is done with its devices open exclusively, which a look does not hinder.
var lookers = []string{"process multipathd ", "process (udev-worker) ", "process systemd-udevd "}

// devices are the kernel names of the paths of a LUN, and of the map over them.
func devices(l sharedlun.Lun) []string {
	var out []string
	for _, p := range l.Paths {
		out = append(out, p.Device)
		if p.Map != "" {
			out = append(out, p.Map)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Of names who uses a LUN.
func (u HostUses) Of(ctx context.Context, l sharedlun.Lun) ([]string, error) {
	holders, err := u.Holders(l)
	if err != nil {
		return nil, err
	}
	var users []string
	for _, h := range holders {
		users = append(users, UsedByDevice+h)
	}
	table, err := u.Mounts.Read()
	if err != nil {
		return users, err
	}
	if len(table.Unresolved) > 0 {
		err = errors.New(strings.Join(table.Unresolved, "; "))
	}
	var disks []occupant.Device
	for _, name := range devices(l) {
		family, errFamily := u.family(name)
		err = errors.Join(err, errFamily)
		for i, d := range family {
			for _, where := range table.At(mount.Device{Major: d.Major, Minor: d.Minor}) {
				users = append(users, fmt.Sprintf("%s of %s", where, d.Name))
			}
			if i == 0 {
				// Partitions are looked at with their disk.
				disks = append(disks, occupant.Device{Major: d.Major, Minor: d.Minor})
			}
		}
	}
	found, errFind := u.Occupants.Find(ctx, disks)
	for _, by := range slices.Concat(found...) {
		if !slices.ContainsFunc(lookers, func(looker string) bool { return strings.HasPrefix(by, looker) }) {
			users = append(users, by)
		}
	}
	slices.Sort(users)
	return slices.Compact(users), errors.Join(err, errFind)
}

// family is a device and its partitions. One that cannot be read whole is not known.
func (u HostUses) family(name string) ([]block.Device, error) {
	d, err := u.device(name)
	if err != nil {
		return nil, err
	}
	out := []block.Device{d}
	for _, p := range d.Partitions {
		part, err := u.device(p)
		if err != nil {
			return nil, err
		}
		out = append(out, part)
	}
	return out, nil
}

func (u HostUses) device(name string) (block.Device, error) {
	text, err := os.ReadFile(filepath.Join(u.Sys, "class/block", name, "dev"))
	if err != nil {
		return block.Device{}, fmt.Errorf("device %s: %w", name, err)
	}
	var major, minor uint32
	if _, err := fmt.Sscanf(string(text), "%d:%d", &major, &minor); err != nil {
		return block.Device{}, fmt.Errorf("device %s: number %q: %w", name, text, err)
	}
	d, err := u.Block.Device(major, minor)
	if err != nil {
		return block.Device{}, fmt.Errorf("device %s: %w", name, err)
	}
	for _, fact := range d.Unreadable {
		for _, needed := range []string{"holders:", "partitions:", "device number:"} {
			if strings.HasPrefix(fact, needed) {
				return block.Device{}, fmt.Errorf("device %s: %s", name, fact)
			}
		}
	}
	return d, nil
}

// Claim opens the paths of a LUN exclusively: nobody mounts them or builds on them then. Those of a map are the map's, and one that the kernel has taken
// offline cannot be opened by anybody.
func (u HostUses) Claim(l sharedlun.Lun) (release func(), err error) {
	var open []*os.File
	release = func() {
		for _, f := range open {
			f.Close()
		}
	}
	for _, p := range l.Paths {
		if p.Map != "" {
			continue
		}
		f, err := os.OpenFile(filepath.Join(u.Dev, p.Device), os.O_RDONLY|unix.O_EXCL|unix.O_NONBLOCK, 0)
		if errors.Is(err, unix.ENXIO) {
			continue
		}
		if err != nil {
			release()
			if errors.Is(err, unix.EBUSY) {
				err = fmt.Errorf("%w: %w", sharedlun.ErrInUse, err)
			}
			return nil, err
		}
		open = append(open, f)
	}
	return release, nil
}
