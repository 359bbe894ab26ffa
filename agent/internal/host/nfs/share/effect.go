package share

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// change runs one system call that changes the share. Each can be the last one before this process is killed.
func (s *Share) change(effect, name string, call func() error) error {
	if s.hook != nil {
		if err := s.hook(effect+" "+name, false); err != nil {
			return err
		}
	}
	if err := retry(call); err != nil {
		return &fs.PathError{Op: effect, Path: name, Err: err}
	}
	if s.hook != nil {
		return s.hook(effect+" "+name, true)
	}
	return nil
}

func (s *Share) mkdir(in dir, name string, mode uint32) error {
	return s.change("mkdir", name, func() error { return unix.Mkdirat(in.fd, name, mode) })
}

func (s *Share) rmdir(in dir, name string) error {
	return s.change("rmdir", name, func() error { return unix.Unlinkat(in.fd, name, unix.AT_REMOVEDIR) })
}

func (s *Share) unlink(in dir, name string) error {
	return s.change("unlink", name, func() error { return unix.Unlinkat(in.fd, name, 0) })
}

// rename replaces what has the name.
func (s *Share) rename(from dir, name string, to dir, newName string) error {
	return s.change("rename", newName, func() error { return unix.Renameat(from.fd, name, to.fd, newName) })
}

// move renames a directory to a name that nothing has. NFS cannot refuse to replace: there the name is looked for first. What a
// rename between these two could replace is an empty directory, for the kernel and every server refuse to replace anything else.
func (s *Share) move(from dir, name string, to dir, newName string) error {
	return s.change("move", newName, func() error {
		err := error(unix.EINVAL)
		if !s.plain {
			err = unix.Renameat2(from.fd, name, to.fd, newName, unix.RENAME_NOREPLACE)
		}
		if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS) {
			return err
		}
		if _, err := to.lstat(newName); err == nil {
			return unix.EEXIST
		} else if !isMissing(err) {
			return err
		}
		return unix.Renameat(from.fd, name, to.fd, newName)
	})
}

// link gives a file a second name that nothing has.
func (s *Share) link(from dir, name string, to dir, newName string) error {
	return s.change("link", newName, func() error { return unix.Linkat(from.fd, name, to.fd, newName, 0) })
}

// write makes a new file with its whole content on disk.
func (s *Share) write(in dir, name string, content []byte) error {
	return s.change("write", name, func() error {
		fd, err := in.openat(name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		f := os.NewFile(uintptr(fd), name)
		_, err = f.Write(content)
		return errors.Join(err, f.Sync(), f.Close())
	})
}

// permit sets the mode of a directory, whatever the mask of this process is.
func (s *Share) permit(d dir, name string, mode uint32) error {
	return s.change("chmod", name, func() error { return unix.Fchmod(d.fd, mode) })
}

// give makes a directory another user's.
func (s *Share) give(d dir, name string, uid, gid int) error {
	return s.change("chown", name, func() error { return unix.Fchown(d.fd, uid, gid) })
}
