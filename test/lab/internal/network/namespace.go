// Package network makes the lab's network namespace with its bridges and taps,
// and runs functions inside it. It knows interfaces and namespaces, not nodes
// or Kubernetes.
package network

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// namespaceDir is where `ip netns` looks too.
const namespaceDir = "/run/netns"

// EnsureNamespace makes a named network namespace unless it is there.
func EnsureNamespace(name string) error {
	if Inode(name) != 0 {
		return nil
	}
	return onOwnThread(func() error {
		handle, err := netns.NewNamed(name)
		if err != nil {
			return fmt.Errorf("create network namespace %s: %w", name, err)
		}
		return handle.Close()
	})
}

// DeleteNamespace removes a named network namespace, and with it every
// interface in it, once no process is left inside.
func DeleteNamespace(name string) error {
	path := filepath.Join(namespaceDir, name)
	// An interrupted creation leaves the file without the mount.
	if err := unix.Unmount(path, unix.MNT_DETACH); err != nil &&
		!errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount %s: %w", path, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// nsfsMagic is the file system type of a mounted namespace.
const nsfsMagic = 0x6e736673

// Inode identifies a named network namespace; zero means that there is none.
func Inode(name string) uint64 {
	path := filepath.Join(namespaceDir, name)
	var fsStat unix.Statfs_t
	if unix.Statfs(path, &fsStat) != nil || int64(fsStat.Type) != nsfsMagic {
		return 0
	}
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return 0
	}
	return st.Ino
}

// Inside runs f on a thread inside the named network namespace. Sockets f opens
// and processes f starts belong to that namespace. The empty name is this
// process's own namespace.
func Inside(name string, f func() error) error {
	if name == "" {
		return f()
	}
	return onOwnThread(func() error {
		handle, err := netns.GetFromName(name)
		if err != nil {
			return fmt.Errorf("network namespace %s: %w", name, err)
		}
		defer handle.Close()
		if err := netns.Set(handle); err != nil {
			return fmt.Errorf("enter network namespace %s: %w", name, err)
		}
		return f()
	})
}

// onOwnThread runs f on a thread that is thrown away afterwards, because a
// thread that changed its namespace must not serve other goroutines.
func onOwnThread(f func() error) error {
	result := make(chan error)
	go func() {
		// Never unlocked: the runtime ends the thread with the goroutine.
		runtime.LockOSThread()
		result <- f()
	}()
	return <-result
}
