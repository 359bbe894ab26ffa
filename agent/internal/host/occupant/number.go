package occupant

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// number asks the kernel for what it knows already: a server is not asked, and nothing is mounted for it.
func number(path string, follow bool) (Device, bool, error) {
	flags := unix.AT_STATX_DONT_SYNC | unix.AT_NO_AUTOMOUNT
	if !follow {
		flags |= unix.AT_SYMLINK_NOFOLLOW
	}
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, flags, unix.STATX_TYPE, &st); err != nil {
		return Device{}, false, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return Device{st.Rdev_major, st.Rdev_minor}, st.Mode&unix.S_IFMT == unix.S_IFBLK, nil
}

// backing asks the loop device itself: the path that sysfs has of its file is one in the mount namespace of whoever set it up.
func backing(path string) (Device, bool, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return Device{}, false, err
	}
	defer f.Close()
	info, err := unix.IoctlLoopGetStatus64(int(f.Fd()))
	if err != nil {
		return Device{}, false, &fs.PathError{Op: "status of", Path: path, Err: err}
	}
	return Device{unix.Major(info.Rdevice), unix.Minor(info.Rdevice)}, info.Rdevice != 0, nil
}

// gone reports whether an error means that what was looked at, a process or a loop device, is not there any more, or a mount hidden below
// another one.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENXIO) || errors.Is(err, unix.ENOTDIR)
}
