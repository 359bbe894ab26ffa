package mount

import (
	"fmt"
	"os"

	"github.com/u-root/u-root/pkg/mount"
	"golang.org/x/sys/unix"
)

// Mounter mounts at places of a tree. It remembers nothing: what is mounted is read from the kernel.
type Mounter interface {
	// Points reads the mount table afresh, in the order of mounting.
	Points() ([]Point, error)
	// Mount mounts the filesystem of a device on a directory.
	Mount(device, target, fsType string, options Options) error
	// BindDir shows a mounted directory of the tree at a second one, with the same options.
	BindDir(source, target string) error
	// BindDevice shows a device node at a file of the tree.
	BindDevice(device, target string) error
	// Protect makes the mount at the path read-only; others of the same filesystem stay as they are.
	Protect(target string) error
	// Unmount takes away the mount that is seen at a path. It never forces, and fails where the mount is in use.
	Unmount(target string) error
}

// Kernel is the Mounter of this machine, for one tree.
type Kernel struct {
	Tree
	table  string
	number func(path string) (Device, error)
}

var _ Mounter = (*Kernel)(nil)

// NewKernel makes a Kernel whose mounts are below root.
func NewKernel(root string) *Kernel {
	return &Kernel{Tree: NewTree(root), table: "/proc/self/mountinfo", number: blockNumber}
}

// Points reads the mount table of this process.
func (k *Kernel) Points() ([]Point, error) { return points(k.table, k.number) }

// Mount mounts the filesystem of a device.
func (k *Kernel) Mount(device, target, fsType string, options Options) error {
	return k.at(target, func(path string) error {
		_, err := mount.Mount(device, path, fsType, joined(options.data), options.bits())
		return err
	})
}

// BindDir binds a directory.
func (k *Kernel) BindDir(source, target string) error {
	return k.at(source, func(from string) error {
		return k.bind(from, target)
	})
}

// BindDevice binds a device node.
func (k *Kernel) BindDevice(device, target string) error {
	if _, err := k.number(device); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	return k.bind(device, target)
}

func (k *Kernel) bind(from, target string) error {
	return k.at(target, func(path string) error {
		_, err := mount.Mount(from, path, "", "", unix.MS_BIND)
		return err
	})
}

// Protect remounts one mount. The kernel replaces all flags of the mount, so those it has are repeated.
func (k *Kernel) Protect(target string) error {
	points, err := k.Points()
	if err != nil {
		return err
	}
	clean, err := k.Check(target)
	if err != nil {
		return err
	}
	p, ok := Top(points, clean)
	if !ok {
		return fmt.Errorf("protect %s: %w", target, unix.EINVAL)
	}
	return k.at(target, func(path string) error {
		_, err := mount.Mount("", path, "", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|p.flags)
		return err
	})
}

// Unmount unmounts through the parent directory: an open mount point would itself keep the mount in use.
func (k *Kernel) Unmount(target string) error {
	dir, base, err := k.parent(target)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := mount.Unmount(handle(dir)+"/"+base, false, false); err != nil {
		return fmt.Errorf("%s: %w", target, err)
	}
	return nil
}

// at calls f with a path that stands for the open target, whatever happens to the names meanwhile.
func (k *Kernel) at(target string, f func(path string) error) error {
	place, err := k.open(target)
	if err != nil {
		return err
	}
	defer place.Close()
	if err := f(handle(place)); err != nil {
		return fmt.Errorf("%s: %w", target, err)
	}
	return nil
}

func handle(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }
