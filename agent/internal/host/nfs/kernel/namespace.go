package kernel

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// Attach shows one directory of a mount that is at no place at a place of this process's mount namespace. dir is open, and so is
// place. What else the share holds is reached by nobody: the mount of the whole goes with this process.
func Attach(root, dir, place int) error {
	// The thread changes its namespaces, and ends with the goroutine.
	runtime.LockOSThread()
	home, err := unix.Open("/proc/thread-self/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("mount namespace: %w", err)
	}
	defer unix.Close(home)
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("mount namespace of its own: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts to this process: %w", err)
	}
	// A directory can be cloned only out of a mount that has a place.
	if err := unix.MoveMount(root, "", unix.AT_FDCWD, "/", unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("place the share: %w", err)
	}
	clone, err := unix.OpenTree(dir, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return fmt.Errorf("clone the directory: %w", err)
	}
	defer unix.Close(clone)
	if err := unix.Setns(home, unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("return to the mount namespace: %w", err)
	}
	if err := unix.MoveMount(clone, "", place, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount the directory: %w", err)
	}
	return nil
}

// Unmount takes away what is mounted on a name in an open directory.
func Unmount(dir int, name string, flags int) error {
	if err := unix.Unmount(fmt.Sprintf("/proc/self/fd/%d/%s", dir, name), flags|unix.UMOUNT_NOFOLLOW); err != nil {
		return fmt.Errorf("unmount %s: %w", name, err)
	}
	return nil
}
