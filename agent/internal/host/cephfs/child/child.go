// Package child is what the agent runs in processes of their own to mount, measure and unmount volumes of a Ceph filesystem: the kernel waits for daemons of Ceph
// as long as it takes. Such a process may be killed at any time. The key that it mounts with comes over its standard input, and is in nothing that it says.
package child

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/agent/internal/host/run/netns"
	"quarry.storage/quarry/agent/internal/host/run/task"
)

// Command is the first argument of the agent's program that makes it one of these processes. The second is one of the tasks, the third the network namespace to
// mount in.
const Command = "ceph-child"

// Tasks.
const (
	// TaskAttach mounts a volume for pods.
	TaskAttach = "attach"
	// TaskUnmount unmounts.
	TaskUnmount = "unmount"
	// TaskMeasure reads the usage of a mount.
	TaskMeasure = "measure"
)

// place is the number of the file that a task is handed.
const place = 3

// Main is the whole process. It talks over standard input and output.
func Main(argv []string, in io.Reader, out io.Writer) int {
	return task.Main(func() error { return run(argv, in, out) })
}

func run(argv []string, in io.Reader, out io.Writer) error {
	if len(argv) != 4 || argv[1] != Command {
		return errors.New("this is for the agent itself")
	}
	switch argv[2] {
	case TaskAttach:
		if err := netns.Enter(argv[3], argv); err != nil {
			return err
		}
		return once(in, out, attach)
	case TaskUnmount:
		return once(in, out, unmount)
	case TaskMeasure:
		return once(in, out, measure)
	}
	return fmt.Errorf("no task %q", argv[2])
}

// once reads one message, does what it asks for, and says how that went.
func once[T any](in io.Reader, out io.Writer, do func(T) (Response, error)) error {
	return task.Once(in, out, func(message T) Response {
		r, err := do(message)
		r.Failure = kinds.Failure(err)
		return r
	})
}

func attach(a Attachment) (Response, error) {
	root, err := mount(a)
	if err != nil {
		return Response{}, hide(err, a.Secret)
	}
	defer unix.Close(root)
	if err := unix.MoveMount(root, "", place, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return Response{}, fmt.Errorf("show the volume: %w", err)
	}
	return Response{}, nil
}

// hide takes the key out of an error, even if the kernel put it there.
func hide(err error, secret string) error {
	if secret == "" || !strings.Contains(err.Error(), secret) {
		return err
	}
	f := kinds.Failure(err)
	f.Message = strings.ReplaceAll(f.Message, secret, "(a secret key)")
	return kinds.Err(f)
}

func unmount(u Unmounting) (Response, error) {
	err := unix.Unmount(fmt.Sprintf("/proc/self/fd/%d/%s", place, u.Name), unix.UMOUNT_NOFOLLOW)
	switch {
	case errors.Is(err, unix.EBUSY):
		err = fmt.Errorf("unmount %s: %w: %w", u.Name, ErrInUse, err)
	case err != nil:
		err = fmt.Errorf("unmount %s: %w", u.Name, err)
	}
	return Response{}, err
}

// measure reads the usage of a mount. What else is there, once the mount is gone, is nobody's volume. Ceph counts the files below each directory itself, and limits them
// nowhere. A metadata server is asked first, whatever the kernel remembers: statfs is a question to the monitors, who answer a client that was shut out, too.
func measure(m Measuring) (Response, error) {
	path := fmt.Sprintf("/proc/self/fd/%d/%s", place, m.Name)
	var root unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_FORCE_SYNC|unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_BASIC_STATS, &root); err != nil {
		return Response{}, unreadable(m.Name, err)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return Response{}, unreadable(m.Name, err)
	}
	if st.Type != superMagic {
		return Response{}, fmt.Errorf("%s is no mount of Ceph: %w", m.Name, os.ErrNotExist)
	}
	u := Usage{TotalBytes: int64(st.Blocks) * st.Bsize, UsedBytes: int64(st.Blocks-st.Bfree) * st.Bsize, FreeBytes: int64(st.Bavail) * st.Bsize}
	u.UsedInodes = entries(path)
	return Response{Measured: u}, nil
}
