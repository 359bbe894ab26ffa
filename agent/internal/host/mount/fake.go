package mount

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Fake is a Mounter without a kernel, for tests: its directories are real, its mounts are kept in a table.
type Fake struct {
	Tree
	// Number tells which device is behind a path.
	Number func(path string) (Device, error)
	// Fail, if set, is asked before every change; its error is returned instead.
	Fail func(operation, target string) error

	mu     sync.Mutex
	points []Point
	data   map[string]string
}

var _ Mounter = (*Fake)(nil)

// NewFake makes a Fake for a tree, whose root counts as shared.
func NewFake(root string, number func(path string) (Device, error)) *Fake {
	return &Fake{
		Tree: NewTree(root), Number: number, data: map[string]string{},
		points: []Point{{Path: root, Whole: true, Shared: true, FSType: "tmpfs"}},
	}
}

// Points are the mounts made so far.
func (f *Fake) Points() ([]Point, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.points), nil
}

// Data are the filesystem's own options that were given for the mount at a path.
func (f *Fake) Data(target string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.data[target]
}

// Mount adds a mount.
func (f *Fake) Mount(device, target, fsType string, options Options) error {
	d, err := f.Number(device)
	if err != nil {
		return err
	}
	return f.change("mount", target, func(target string) error {
		f.data[target] = joined(options.data)
		f.points = append(f.points, Point{
			Path: target, Device: d, Filesystem: d, Source: device, Whole: true, FSType: fsType,
			ReadOnly: options.bits()&unix.MS_RDONLY != 0, Frozen: options.bits()&unix.MS_RDONLY != 0,
		})
		return nil
	})
}

// MountTree adds a mount of a tree that is on no device of this machine.
func (f *Fake) MountTree(p Point) error {
	return f.change("attach", p.Path, func(target string) error {
		p.Path, p.Whole = target, true
		f.points = append(f.points, p)
		return nil
	})
}

// BindDir repeats a mount at another place.
func (f *Fake) BindDir(source, target string) error {
	return f.change("bind", target, func(target string) error {
		p, ok := Top(f.points, source)
		if !ok {
			return fmt.Errorf("bind %s: %w", source, unix.EINVAL)
		}
		p.Path = target
		f.points = append(f.points, p)
		return nil
	})
}

// BindDevice adds a mount of a device node.
func (f *Fake) BindDevice(device, target string) error {
	d, err := f.Number(device)
	if err != nil {
		return err
	}
	return f.change("bind", target, func(target string) error {
		f.points = append(f.points, Point{Path: target, Device: d, Node: true, Whole: true, FSType: "devtmpfs"})
		return nil
	})
}

// Protect makes a mount read-only.
func (f *Fake) Protect(target string) error {
	return f.change("protect", target, func(target string) error {
		i := f.top(target)
		if i < 0 {
			return unix.EINVAL
		}
		f.points[i].ReadOnly = true
		return nil
	})
}

// Unmount removes a mount.
func (f *Fake) Unmount(target string) error {
	return f.change("unmount", target, func(target string) error {
		i := f.top(target)
		if i < 0 {
			return unix.EINVAL
		}
		f.points = slices.Delete(f.points, i, i+1)
		return nil
	})
}

// Freeze makes the filesystem of a device turn read-only by itself, as one does after an error.
func (f *Fake) Freeze(d Device) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.points {
		if f.points[i].Device == d {
			f.points[i].Frozen = true
		}
	}
}

func (f *Fake) top(target string) int {
	for i := len(f.points) - 1; i >= 0; i-- {
		if f.points[i].Path == target {
			return i
		}
	}
	return -1
}

func (f *Fake) change(operation, target string, do func(target string) error) error {
	place, err := f.open(target)
	if err != nil {
		return err
	}
	defer place.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Fail != nil {
		if err := f.Fail(operation, target); err != nil {
			return &fs.PathError{Op: operation, Path: target, Err: err}
		}
	}
	return do(place.Name())
}

func joined(data []string) string { return strings.Join(data, ",") }
