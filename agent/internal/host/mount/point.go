package mount

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// Point is one mount in this process's own mount namespace.
type Point struct {
	// Path is the mount point, as the kernel writes it.
	Path string
	// Device is the block device of the filesystem, or the device node itself where one is mounted on a file. It is zero where
	// there is none.
	Device Device
	// Node is true where a device node, and not a filesystem, is mounted.
	Node bool
	// Whole is true when the mount shows all of the filesystem, not one directory of it.
	Whole bool
	// FSType is the kernel's name of the filesystem, Source what it is mounted from, and Options are the filesystem's own.
	FSType, Source, Options string
	// Filesystem is the number of the filesystem: all mounts that have it show the same one. One without a block device has a number too.
	Filesystem Device
	// ReadOnly is true when this mount is not for writing.
	ReadOnly bool
	// Frozen is true when the filesystem itself takes no writes: it was mounted so, or turned so after an error.
	Frozen bool
	// Shared is true when mounts made below it reach other mount namespaces.
	Shared bool

	flags uintptr
}

// points reads the mount table of a process afresh, in the order of mounting.
func points(table string, number func(string) (Device, error)) ([]Point, error) {
	f, err := os.Open(table)
	if err != nil {
		return nil, fmt.Errorf("mount table: %w", err)
	}
	defer f.Close()
	infos, err := mountinfo.GetMountsFromReader(f, nil)
	if err != nil {
		return nil, fmt.Errorf("mount table %s: %w", table, err)
	}
	out := make([]Point, 0, len(infos))
	for _, m := range infos {
		p := Point{
			Path: m.Mountpoint, FSType: m.FSType, Source: m.Source, Options: m.VFSOptions, Whole: m.Root == "/",
			Filesystem: Device{uint32(m.Major), uint32(m.Minor)},
			Shared:     strings.Contains(m.Optional, "shared:"),
			flags:      perMountFlags(m.Options),
			Frozen:     hasOption(m.VFSOptions, "ro", "emergency_ro", "shutdown"),
		}
		p.ReadOnly = p.flags&unix.MS_RDONLY != 0
		p.identify(m, number)
		out = append(out, p)
	}
	return out, nil
}

// identify finds the block device. Btrfs shows a number of its own, so its source is looked at; a device node that is mounted
// on a file shows the number of the filesystem that the node is in, so the node is. Where that fails the device stays unknown,
// which is no device of anybody's.
func (p *Point) identify(m *mountinfo.Info, number func(string) (Device, error)) {
	switch {
	case !p.Whole && (m.FSType == "devtmpfs" || m.FSType == "tmpfs"):
		if d, err := number(m.Mountpoint); err == nil {
			p.Device, p.Node, p.Whole = d, true, true
		}
	case m.Major != 0:
		p.Device = Device{uint32(m.Major), uint32(m.Minor)}
	case m.FSType == "btrfs":
		if d, err := number(m.Source); err == nil {
			p.Device = d
		}
	}
}

// At are the mounts on exactly this path, the one that is seen last.
func At(points []Point, path string) []Point {
	var out []Point
	for _, p := range points {
		if p.Path == path {
			out = append(out, p)
		}
	}
	return out
}

// Top is the mount that is seen at the path.
func Top(points []Point, path string) (Point, bool) {
	at := At(points, path)
	if len(at) == 0 {
		return Point{}, false
	}
	return at[len(at)-1], true
}

// Holding is the mount that a path is on.
func Holding(points []Point, path string) (Point, bool) {
	for dir := filepath.Clean(path); ; dir = filepath.Dir(dir) {
		if p, ok := Top(points, dir); ok {
			return p, true
		}
		if dir == "/" || dir == "." {
			return Point{}, false
		}
	}
}

func hasOption(options string, any ...string) bool {
	for o := range strings.SplitSeq(options, ",") {
		if slices.Contains(any, o) {
			return true
		}
	}
	return false
}

// perMountFlags are those options of a mount that a bind mount's remount has to repeat, or they are lost.
func perMountFlags(options string) uintptr {
	var out uintptr
	for o := range strings.SplitSeq(options, ",") {
		out |= mountFlags[o].flags()
	}
	return out
}

func (f flag) flags() uintptr {
	if !f.perMount {
		return 0
	}
	return f.set
}
