package share

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/pkg/sharedvolume"
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

// take renames what has a name to one that nothing else uses.
func (s *Share) take(from dir, name string, to dir, newName string) error {
	return s.change("take", name, func() error { return unix.Renameat(from.fd, name, to.fd, newName) })
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

// errDamaged means that a record is not what this agent writes.
var errDamaged = errors.New("the record is damaged")

func isMissing(err error) bool { return errors.Is(err, unix.ENOENT) }

// isRefusal reports whether a volume alone is the reason of an error.
func isRefusal(err error) bool { return errors.Is(err, sharedvolume.ErrState) }

// isOther reports whether something else than a directory of the same filesystem is at a place.
func isOther(err error) bool {
	return errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EXDEV)
}

// isTaken reports whether a rename found something in its way.
func isTaken(err error) bool {
	return errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.ENOTDIR)
}

// reasons are the errors that lie with the share, whatever was being done.
var reasons = []struct {
	errno   unix.Errno
	reason  string
	message string
}{
	{unix.EROFS, sharedvolume.ReasonReadOnly, "The server exports the share read-only (export it with rw)"},
	{unix.ENOSPC, sharedvolume.ReasonNoSpace, "The share is full"},
	{unix.EDQUOT, sharedvolume.ReasonNoSpace, "The share's quota is used up"},
	{unix.ETIMEDOUT, sharedvolume.ReasonUnreachable, "The server stopped answering"},
	{unix.ECONNRESET, sharedvolume.ReasonUnreachable, "The server closed the connection"},
	{unix.ECONNREFUSED, sharedvolume.ReasonUnreachable, "The server refuses the connection"},
	{unix.EHOSTUNREACH, sharedvolume.ReasonUnreachable, "There is no way to the server"},
	{unix.ENETUNREACH, sharedvolume.ReasonUnreachable, "There is no way to the server"},
	{unix.ESTALE, sharedvolume.ReasonUnreachable, "The server does not know the share any more: it was exported anew"},
	{unix.EIO, sharedvolume.ReasonUnknown, "The server reports an error of its disk"},
}

// explain turns an error that lies with the share into a Problem. Others stay as they are.
func explain(err error) error {
	var problem *sharedvolume.Problem
	if err == nil || errors.As(err, &problem) {
		return err
	}
	for _, r := range reasons {
		if errors.Is(err, r.errno) {
			return sharedvolume.NewProblem(r.reason, "%s: %v.", r.message, err)
		}
	}
	if errors.Is(err, errDamaged) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("%w: %w", err, sharedvolume.ErrState)
	}
	return err
}

// explainRoot is explain for what a server refuses to root: then root is not root there.
func explainRoot(err error) error {
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		return squashed(err.Error())
	}
	return explain(err)
}

func squashed(what string) error {
	return sharedvolume.NewProblem(sharedvolume.ReasonRootSquashed,
		"The server does not let root of this node work as root (%s): export the share with no_root_squash.", what)
}

// unstable refuses a server whose directory has another number after a rename, or another one in a list than when it is opened.
func unstable(made, opened, listed uint64) error {
	switch {
	case opened != made:
		return sharedvolume.NewProblem(sharedvolume.ReasonUnstable,
			"The server gives a directory another file number when it is renamed (%d, then %d): no directory could be recognised.", made, opened)
	case listed != made:
		return sharedvolume.NewProblem(sharedvolume.ReasonUnstable,
			"The server lists a directory with another file number (%d) than it has (%d): no directory could be recognised.", listed, made)
	}
	return nil
}
