// Package block reads what the kernel and udev know about the block devices of the host, from sysfs and udev's database, and makes
// udev look at a device again. It starts no process, opens no device, and knows nothing about what is written on a device or
// whether it may be taken.
package block

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Config says where to read. Empty fields mean the host's own directories.
type Config struct {
	// Sys, Dev and Udev are the host's /sys, /dev and /run/udev.
	Sys, Dev, Udev string
	// WithoutUdev says that the host runs no udev: then sysfs alone is the source. Unless it is set, a device that udev has
	// not recorded is unreadable.
	WithoutUdev bool
}

// Device is one block device. Facts that could not be read are named in Unreadable.
type Device struct {
	// Name in the kernel, for example "sdb".
	Name string
	// Node is the path of the device node, which is what the kernel's name says.
	Node string
	// Path is the best stable path.
	Path string
	// Type is "disk", "partition", or the kind of a virtual device.
	Type string
	// Major and Minor device number.
	Major, Minor uint32
	// Links below /dev/disk that point to it, ordered.
	Links []string
	// SizeBytes of the device.
	SizeBytes int64
	// LogicalSectorBytes and PhysicalSectorBytes.
	LogicalSectorBytes, PhysicalSectorBytes int
	Rotational, Removable, ReadOnly         bool
	// Zoned is how the device is zoned, "host-managed" or "host-aware"; empty when it is not.
	Zoned string
	// Suspended is true for a device-mapper device that blocks its readers.
	Suspended bool
	// Held is the state of a SCSI or NVMe disk that lost its connection, while the kernel keeps all requests for it, such as "blocked": who reads
	// or opens it waits, and cannot be killed, until the connection is back or the kernel gives up. Empty otherwise.
	Held string
	// DMName and DMUUID of a device-mapper device.
	DMName, DMUUID                string
	Model, Serial, WWN, Transport string
	// Parent is the kernel name of the disk of a partition.
	Parent string
	// Holders are the kernel names of devices built on it or on one of its partitions, ordered.
	Holders []string
	// Slaves are the kernel names of the devices that it is built on, ordered.
	Slaves []string
	// Partitions are the kernel names of its partitions, ordered.
	Partitions []string
	// Udev are the facts of udev's database that tell what uses the device, such as ID_FS_TYPE.
	Udev map[string]string
	// Pending is true while udev has not finished with the device; its record is among the unreadable facts then.
	Pending bool
	// Appeared is how long after the boot udev saw the device for the first time, on the clock of Uptime; nil when that is not known.
	Appeared *time.Duration
	// Version is another one after every event of the device that the kernel or udev told of.
	Version string
	// Unreadable names the facts that could not be read, with the error.
	Unreadable []string
}

// fail records a fact that could not be read.
func (d *Device) fail(fact string, err error) {
	d.Unreadable = append(d.Unreadable, fact+": "+err.Error())
}

// Host reads the block devices of one host.
type Host struct {
	sys, dev, udev string
	withoutUdev    bool
	heard          heard
}

// New makes a Host.
func New(cfg Config) *Host {
	return &Host{
		sys:         cmp.Or(cfg.Sys, "/sys"),
		dev:         cmp.Or(cfg.Dev, "/dev"),
		udev:        cmp.Or(cfg.Udev, "/run/udev"),
		withoutUdev: cfg.WithoutUdev,
	}
}

// Uptime returns how long ago the host booted, on the clock that udev uses: the time that it was suspended does not count, and nobody sets it.
func Uptime() (time.Duration, error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0, fmt.Errorf("uptime: %w", err)
	}
	return time.Duration(now.Nano()), nil
}

// List reads all block devices, ordered by kernel name. A device that vanishes meanwhile is left out.
func (h *Host) List(ctx context.Context) ([]Device, error) {
	dir := filepath.Join(h.sys, "class", "block")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("block devices: %w", err)
	}
	var out []Device
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("block devices: %w", err)
		}
		d, ok := h.read(e.Name())
		if ok {
			out = append(out, d)
		}
	}
	inheritHolders(out)
	slices.SortFunc(out, func(a, b Device) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// Device reads one device as List does, without the others. One that is not there is fs.ErrNotExist.
func (h *Host) Device(major, minor uint32) (Device, error) {
	number := fmt.Sprintf("%d:%d", major, minor)
	target, err := os.Readlink(filepath.Join(h.sys, "dev", "block", number))
	if err != nil {
		return Device{}, fmt.Errorf("device %s: %w", number, err)
	}
	d, ok := h.read(filepath.Base(target))
	if !ok || d.Major != major || d.Minor != minor {
		return Device{}, fmt.Errorf("device %s: %w", number, fs.ErrNotExist)
	}
	family := []Device{d}
	for _, name := range d.Partitions {
		if p, ok := h.read(name); ok {
			family = append(family, p)
		}
	}
	inheritHolders(family)
	return family[0], nil
}

// read reads one device; false when it is gone, when it has no node by design, or when nothing is behind it.
func (h *Host) read(name string) (Device, bool) {
	dir := filepath.Join(h.sys, "class", "block", name)
	s := &sysfs{dir: dir, dev: &Device{Name: name}}
	if s.optional("hidden") == "1" {
		// One path of a native NVMe multipath device: the device above it is the one to use.
		return Device{}, false
	}
	s.number()
	s.kind()
	s.size()
	d := s.dev
	if d.Type == "loop" && d.SizeBytes == 0 && len(d.Unreadable) == 0 {
		// The kernel makes loop devices in advance. With no file behind it one is nothing, and a host has more of them than disks.
		return Device{}, false
	}
	s.queue()
	s.relations()
	s.mapper()
	h.node(d, s)
	h.identify(d, s)
	h.stamp(d)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return Device{}, false
	}
	return *d, true
}

// node finds the device node and the links to it.
func (h *Host) node(d *Device, s *sysfs) {
	d.Node = filepath.Join(h.dev, devName(d.Name))
	d.Path = d.Node
	if _, err := os.Lstat(d.Node); err != nil {
		d.fail("node", err)
	}
	rec, err := h.record(d.Major, d.Minor)
	switch {
	case h.withoutUdev:
		d.Links, err = h.scanLinks(d.Node)
	case err == nil:
		d.Links = h.checkLinks(rec.links, d.Node)
		d.Udev = owners(rec.env)
	}
	d.Pending = errors.Is(err, errNotInDatabase)
	if err != nil {
		d.fail("udev", err)
	}
	s.env, d.Appeared = rec.env, rec.appeared
	slices.Sort(d.Links)
	d.Path = best(d.Links, h.dev, d.Node)
}

// inheritHolders gives every disk the holders of its partitions.
func inheritHolders(devices []Device) {
	index := map[string]int{}
	for i, d := range devices {
		index[d.Name] = i
	}
	for _, d := range devices {
		if i, ok := index[d.Parent]; ok && d.Parent != "" {
			devices[i].Holders = append(devices[i].Holders, d.Holders...)
		}
	}
	for i := range devices {
		slices.Sort(devices[i].Holders)
		devices[i].Holders = slices.Compact(devices[i].Holders)
		slices.Sort(devices[i].Partitions)
	}
}
