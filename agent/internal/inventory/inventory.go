// Package inventory observes the block devices and volume groups of the node: it joins what sysfs, udev's database, the mount
// tables, the devices themselves and LVM say into one plan.Snapshot. It changes nothing and decides nothing; a fact that cannot
// be read is named as unreadable, and never guessed.
package inventory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"quarry.storage/quarry/agent/internal/host/block"
	"quarry.storage/quarry/agent/internal/host/disk"
	"quarry.storage/quarry/agent/internal/host/lvm"
	"quarry.storage/quarry/agent/internal/host/mount"
	"quarry.storage/quarry/agent/internal/host/occupant"
	"quarry.storage/quarry/agent/internal/plan"
)

// Block lists block devices and tells when they may have changed.
type Block interface {
	List(ctx context.Context) ([]block.Device, error)
	// Device reads one of them, by its number. One that is not there is fs.ErrNotExist.
	Device(major, minor uint32) (block.Device, error)
	Uevents(ctx context.Context) (<-chan struct{}, error)
	// Idle reports whether udev has no event left to handle; Trigger makes it look at a device.
	Idle() bool
	Trigger(number string) error
}

// Mounts reads what is mounted and swapped on, and tells when that changes.
type Mounts interface {
	Read() (mount.Table, error)
	Changes(ctx context.Context) (<-chan struct{}, error)
}

// Prober reads what is written on a device.
type Prober interface {
	Probe(ctx context.Context, path string) (disk.Facts, error)
	// Exclusive reports whether the device can be opened exclusively.
	Exclusive(ctx context.Context, path string) (bool, error)
	// OpenExclusive opens it exclusively until release is called. It is disk.ErrBusy where it cannot be.
	OpenExclusive(ctx context.Context, path string) (f *os.File, release func() error, err error)
}

// Occupants finds who uses disks without keeping others from opening them exclusively.
type Occupants interface {
	// Find names the users of each disk. An error means that there may be more than those.
	Find(ctx context.Context, disks []occupant.Device) ([][]string, error)
}

// LVM reports groups and physical volumes.
type LVM interface {
	Report(ctx context.Context, devices []string) ([]lvm.VG, []lvm.PV, error)
}

// SharedLUNs knows the LUNs of Iscsis.
type SharedLUNs interface {
	// Devices are the kernel names of the devices that are known to be one. An error means that there may be more.
	Devices() ([]string, error)
}

// Defaults of Config.
const (
	DefaultParallel     = 4
	DefaultProbeTimeout = 10 * time.Second
	// DefaultReportTimeout leaves room in the time of a whole observation, and is longer than LVM's own commands hold a lock.
	DefaultReportTimeout = 16 * time.Second
)

// Config says what to observe with.
type Config struct {
	Block  Block
	Mounts Mounts
	Prober Prober
	LVM    LVM
	// SharedLUNs is asked about devices whose content cannot be read; nil where there are none.
	SharedLUNs SharedLUNs
	// SystemID is the LVM system ID of this node; empty when it has none.
	SystemID string
	// Occupants is asked about a device right before it is called free, and right before it is changed.
	Occupants Occupants
	// ProbeTypes are the device types, besides disks and partitions, whose content is read. Opening others, such as
	// device-mapper devices, would get in the way of those who remove them.
	ProbeTypes []string
	// Parallel is how many devices are read at a time; zero means DefaultParallel.
	Parallel int
	// ProbeTimeout is how long one device may take before it counts as unreadable; zero means DefaultProbeTimeout.
	ProbeTimeout time.Duration
	// ReportTimeout is how long LVM may take to report all groups. Where there are several, the second half of it is for asking about them
	// one by one. Zero means DefaultReportTimeout.
	ReportTimeout time.Duration
}

// Inventory observes. It is safe for concurrent use, and keeps nothing between two observations but the knowledge of
// devices that do not answer.
type Inventory struct {
	cfg  Config
	hung hungSet
}

// New makes an Inventory.
func New(cfg Config) (*Inventory, error) {
	if cfg.Block == nil || cfg.Mounts == nil || cfg.Prober == nil || cfg.LVM == nil || cfg.Occupants == nil {
		return nil, errors.New("inventory: a source is missing")
	}
	cfg.Parallel = cmp.Or(cfg.Parallel, DefaultParallel)
	cfg.ProbeTimeout = cmp.Or(cfg.ProbeTimeout, DefaultProbeTimeout)
	cfg.ReportTimeout = cmp.Or(cfg.ReportTimeout, DefaultReportTimeout)
	cfg.ProbeTypes = append([]string{"disk", "partition"}, cfg.ProbeTypes...)
	return &Inventory{cfg: cfg, hung: hungSet{paths: map[string]int{}}}, nil
}

// Watch signals when an observation may give another result than the last one: after a kernel uevent, a change of udev's database,
// or a device that was mounted or unmounted. It ends with the context, or when a source ends.
func (i *Inventory) Watch(ctx context.Context) (<-chan struct{}, error) {
	ctx, cancel := context.WithCancel(ctx)
	uevents, err := i.cfg.Block.Uevents(ctx)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("watch: %w", err)
	}
	mounts, err := i.cfg.Mounts.Changes(ctx)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("watch: %w", err)
	}
	out := make(chan struct{}, 1)
	go func() {
		defer close(out)
		defer cancel()
		for {
			var open bool
			select {
			case _, open = <-uevents:
			case _, open = <-mounts:
			}
			if !open {
				return
			}
			select {
			case out <- struct{}{}:
			default:
			}
		}
	}()
	return out, nil
}

// Observe reads everything afresh. It fails only when the devices cannot be listed; whatever else cannot be read is named on
// the devices that it concerns.
func (i *Inventory) Observe(ctx context.Context) (plan.Snapshot, error) {
	listed, err := i.cfg.Block.List(ctx)
	if err != nil {
		return plan.Snapshot{}, fmt.Errorf("observe: %w", err)
	}
	devices := make([]*observed, len(listed))
	for n := range listed {
		devices[n] = meet(listed[n])
	}
	addPaths(devices)
	i.addMounts(devices)
	i.probe(ctx, devices)
	if err := ctx.Err(); err != nil {
		return plan.Snapshot{}, fmt.Errorf("observe: %w", err)
	}
	i.addSharedLUNs(devices)
	snap := i.addGroups(ctx, devices)
	for _, d := range devices {
		slices.Sort(d.Unreadable)
		d.Unreadable = slices.Compact(d.Unreadable)
		snap.Devices = append(snap.Devices, d.Device)
	}
	return snap, nil
}

// addMounts joins the mount tables: a disk has the mounts of its partitions too.
func (i *Inventory) addMounts(devices []*observed) {
	table, err := i.cfg.Mounts.Read()
	parents := map[string]*observed{}
	for _, d := range devices {
		parents[d.KernelName] = d
		if err != nil {
			d.unreadable("mounts", err)
		}
		for _, u := range table.Unresolved {
			d.unreadable("mounts", u)
		}
	}
	for _, d := range devices {
		places := table.At(mount.Device{Major: d.Major, Minor: d.Minor})
		d.Mounts = append(d.Mounts, places...)
		if p := parents[d.block.Parent]; p != nil {
			p.Mounts = append(p.Mounts, places...)
		}
	}
	for _, d := range devices {
		slices.Sort(d.Mounts)
		d.Mounts = slices.Compact(d.Mounts)
	}
}
