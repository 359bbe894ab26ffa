package child

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/agent/internal/host/run/fslog"
)

// superMagic is what statfs says of a mount of Ceph.
const superMagic = 0x00c36400

// Source is what such a mount is called in the mount table.
func Source(user, fsid, filesystem, path string) string {
	return user + "@" + fsid + "." + filesystem + "=" + path
}

// parameter is one option, as fsconfig takes it; a flag has no value.
type parameter struct{ key, value string }

// since says which kernels take an option that not all do.
var since = map[string]string{"source": " in this form, as Linux 5.17 and later do", "mon_addr": ", as Linux 5.17 and later do"}

// parameters are what fsconfig is given. Data are checked on their way, and encrypted where the daemons ask for that.
func parameters(a Attachment) []parameter {
	out := []parameter{
		{"source", Source(a.User, a.FSID, a.Filesystem, a.Path)}, {"mon_addr", strings.Join(a.Monitors, "/")}, {"ms_mode", "prefer-crc"}, {"secret", a.Secret},
	}
	for _, o := range a.Options {
		if o == "sync" || o == "dirsync" || o == "lazytime" {
			out = append(out, parameter{o, ""})
		}
	}
	return out
}

// attributes are the flags of a mount. Files of a volume never give rights, and never stand for devices of the node.
func attributes(options []string) int {
	out := unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	for _, o := range options {
		if o == "noatime" || o == "relatime" || o == "strictatime" {
			out &^= unix.MOUNT_ATTR__ATIME
		}
		if o == "rw" {
			out &^= unix.MOUNT_ATTR_RDONLY
		}
		out |= map[string]int{
			"ro": unix.MOUNT_ATTR_RDONLY, "noexec": unix.MOUNT_ATTR_NOEXEC, "noatime": unix.MOUNT_ATTR_NOATIME, "strictatime": unix.MOUNT_ATTR_STRICTATIME,
			"nodiratime": unix.MOUNT_ATTR_NODIRATIME,
		}[o]
	}
	return out
}

// mount mounts a volume at no place: closing the root unmounts it.
func mount(a Attachment) (root int, err error) {
	context, err := unix.Fsopen("ceph", unix.FSOPEN_CLOEXEC)
	if errors.Is(err, unix.ENODEV) {
		return -1, fmt.Errorf("%w: it has no client of Ceph (module ceph)", ErrKernel)
	}
	if err != nil {
		return -1, fmt.Errorf("fsopen ceph: %w", err)
	}
	defer unix.Close(context)
	for _, p := range parameters(a) {
		if p.value == "" {
			err = unix.FsconfigSetFlag(context, p.key)
		} else {
			err = unix.FsconfigSetString(context, p.key, p.value)
		}
		if err != nil {
			return -1, fmt.Errorf("%w: it does not take the option %s%s: %w%s", ErrKernel, p.key, since[p.key], err, fslog.Read(context))
		}
	}
	if err := unix.FsconfigCreate(context); err != nil {
		return -1, refused(a, err, fslog.Read(context))
	}
	root, err = unix.Fsmount(context, unix.FSMOUNT_CLOEXEC, attributes(a.Options))
	if err != nil {
		return -1, refused(a, err, fslog.Read(context))
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(root, &st); err != nil || st.Type != superMagic {
		unix.Close(root)
		return -1, fmt.Errorf("%w: the volume was mounted, and cannot be read (type %#x): %w", ErrUnreachable, st.Type, err)
	}
	return root, nil
}

// refused says why a volume could not be mounted.
func refused(a Attachment, err error, said string) error {
	what := fmt.Sprintf("mount %s by monitors %s: %v%s", a.Path, strings.Join(a.Monitors, ", "), err, said)
	for _, r := range []struct {
		kind   error
		errnos []error
		hint   string
	}{
		{ErrRefused, []error{unix.EACCES, unix.EPERM, unix.EKEYREJECTED}, "the monitors do not take the key of user " + a.User + ", or this node is on the blocklist"},
		{os.ErrNotExist, []error{unix.ENOENT, unix.ESTALE, unix.ENOTDIR}, "the filesystem has no such directory"},
		{ErrKernel, []error{unix.EINVAL, unix.EOPNOTSUPP}, "the kernel does not take an option, or the key"},
		{ErrUnreachable, []error{
			unix.ETIMEDOUT, unix.ECONNREFUSED, unix.ECONNRESET, unix.EHOSTUNREACH, unix.ENETUNREACH, unix.EHOSTDOWN, unix.EIO, unix.EPIPE, unix.ENOTCONN, unix.EINTR, unix.ESHUTDOWN,
		}, "no monitor, or no metadata server, answered"},
	} {
		for _, errno := range r.errnos {
			if errors.Is(err, errno) {
				return fmt.Errorf("%w: %s (%s)", r.kind, r.hint, what)
			}
		}
	}
	return errors.New(what)
}

// unreadable says why a mount cannot be read. A metadata server refuses the session of a client that it evicted, for which the kernel has EACCES: nobody else refuses root
// the attributes of a directory. OSDs refuse a client on the blocklist by EBLOCKLISTED, which is ESHUTDOWN.
func unreadable(name string, err error) error {
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.ESHUTDOWN) {
		return fmt.Errorf("%w: usage of %s: %w", ErrShutOut, name, err)
	}
	return fmt.Errorf("usage of %s: %w", name, err)
}

// entries reads how many files and directories are below a directory, which Ceph counts; 0 where it does not say.
func entries(path string) int64 {
	buffer := make([]byte, 32)
	n, err := unix.Getxattr(path, "ceph.dir.rentries", buffer)
	if err != nil || n > len(buffer) {
		return 0
	}
	count, err := strconv.ParseInt(strings.TrimRight(string(buffer[:n]), "\x00\n"), 10, 64)
	if err != nil {
		return 0
	}
	return count
}
