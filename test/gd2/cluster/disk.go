package cluster

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Disk is what one server sees of disks and filesystems.
type Disk struct {
	// Blocks are block devices by path. Servers on one machine share them.
	Blocks map[string]*Block
	// Mounts are the filesystems but for the root.
	Mounts []*Filesystem
	// Files are paths that are no directory.
	Files []string
	// NoDeviceMapper has every thin pool fail, as in a kernel without it.
	NoDeviceMapper bool

	dirs map[string]map[string]bool
	// images are the files that loop devices are made of, with their sizes.
	images map[string]uint64
	loops  int
}

// Block is a block device.
type Block struct {
	// Size in bytes.
	Size uint64
	// Signature says that something is on it.
	Signature bool
	// Group is the volume group that was made on it.
	Group string
}

// Filesystem is mounted somewhere.
type Filesystem struct {
	Mount, Device, Type, Options string
	Total, Free                  uint64
}

func (d *Disk) init() {
	d.dirs, d.images = map[string]map[string]bool{}, map[string]uint64{}
}

// at returns the filesystem that a path is on, nil for the root's.
func (d *Disk) at(p string) *Filesystem {
	var best *Filesystem
	for _, m := range d.Mounts {
		if (p == m.Mount || strings.HasPrefix(p, m.Mount+"/")) && (best == nil || len(m.Mount) > len(best.Mount)) {
			best = m
		}
	}
	return best
}

// At returns the filesystem that a path is on, nil for the root's.
func (d *Disk) At(p string) *Filesystem { return d.at(path.Clean(p)) }

// Exists reports whether a directory exists.
func (d *Disk) Exists(p string) bool {
	p = path.Clean(p)
	if m := d.at(p); m != nil && m.Mount == p {
		return true
	}
	for dir := range d.dirs {
		if dir == p || strings.HasPrefix(dir, p+"/") {
			return true
		}
	}
	return false
}

// MakeDir makes a directory with all above it.
func (d *Disk) MakeDir(p string) {
	if p = path.Clean(p); d.dirs[p] == nil {
		d.dirs[p] = map[string]bool{}
	}
}

// IsMount reports whether a filesystem is mounted there.
func (d *Disk) IsMount(p string) bool {
	m := d.at(path.Clean(p))
	return m != nil && m.Mount == path.Clean(p)
}

// Attribute is an extended attribute that glusterfs writes.
type Attribute string

// Attributes of bricks.
const (
	GFID     Attribute = "trusted.gfid"
	VolumeID Attribute = "trusted.glusterfs.volume-id"
)

// Mark writes an attribute with a value to a directory.
func (d *Disk) Mark(p string, a Attribute, value string) {
	d.MakeDir(p)
	for k := range d.dirs[path.Clean(p)] {
		if strings.HasPrefix(k, string(a)+"=") {
			delete(d.dirs[path.Clean(p)], k)
		}
	}
	d.dirs[path.Clean(p)][string(a)+"="+value] = true
}

// Attribute reads an attribute of a directory.
func (d *Disk) Attribute(p string, a Attribute) (string, bool) {
	for k := range d.dirs[path.Clean(p)] {
		if v, ok := strings.CutPrefix(k, string(a)+"="); ok {
			return v, true
		}
	}
	return "", false
}

// notDirectory reports whether a part of a path is a file.
func (d *Disk) notDirectory(p string) bool {
	return slices.ContainsFunc(d.Files, func(f string) bool { return strings.HasPrefix(p, f+"/") })
}

// AddImage makes the image of a brick, and AddImage and Images keep count of what is left behind.
func (d *Disk) AddImage(file string, size uint64) { d.images[file] = size }

// RemoveImage removes one.
func (d *Disk) RemoveImage(file string) { delete(d.images, file) }

// Images returns the images of bricks with their sizes.
func (d *Disk) Images() map[string]uint64 { return d.images }

// MountBrick mounts a brick that glusterd2 made.
func (d *Disk) MountBrick(at, options string, size uint64, device string) {
	if device == "" {
		device = fmt.Sprintf("/dev/loop%d", 9+d.loops)
		d.loops++
	}
	used := size / 15
	d.Mounts = append(d.Mounts, &Filesystem{Mount: at, Device: device, Type: "xfs", Options: options, Total: size, Free: size - used})
}

// Unmount removes a mount.
func (d *Disk) Unmount(at string) {
	d.Mounts = slices.DeleteFunc(d.Mounts, func(m *Filesystem) bool { return m.Mount == at })
	for dir := range d.dirs {
		if dir == at || strings.HasPrefix(dir, at+"/") {
			delete(d.dirs, dir)
		}
	}
}
