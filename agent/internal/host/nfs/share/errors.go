package share

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/pkg/sharedvolume"
)

// errDamaged means that a record is not what this agent writes.
var errDamaged = errors.New("the record is damaged")

func isMissing(err error) bool { return errors.Is(err, unix.ENOENT) }

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
