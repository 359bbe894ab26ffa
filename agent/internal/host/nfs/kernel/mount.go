// Package kernel mounts NFS shares through the kernel's mount API, in a process that may be killed at any time: the kernel waits for
// servers as long as it takes. It resolves no names and knows nothing of what is on a share.
package kernel

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/agent/internal/host/run/fslog"
	"quarry.storage/quarry/pkg/sharedvolume"
)

// Source says what is mounted.
type Source struct {
	// Host is the server as people write it, without brackets; Path is what it exports.
	Host, Path string
	Options    sharedvolume.Options
	Purpose    Purpose
}

// Mount mounts a share at no place: the root of the mount is all that is seen of it, and closing it unmounts the share. The server
// is known to answer at the address.
func Mount(s Source, at netip.AddrPort) (root int, err error) {
	list, err := parameters(s.Host, s.Path, at, s.Options, s.Purpose)
	if err != nil {
		return -1, err
	}
	context, err := unix.Fsopen("nfs", unix.FSOPEN_CLOEXEC)
	if errors.Is(err, unix.ENODEV) {
		return -1, sharedvolume.NewProblem(sharedvolume.ReasonUnknown, "The kernel of this node has no NFS client (module nfs).")
	}
	if err != nil {
		return -1, fmt.Errorf("fsopen nfs: %w", err)
	}
	defer unix.Close(context)
	for _, p := range list {
		if p.value == "" {
			err = unix.FsconfigSetFlag(context, p.key)
		} else {
			err = unix.FsconfigSetString(context, p.key, p.value)
		}
		if err != nil {
			return -1, sharedvolume.NewProblem(sharedvolume.ReasonInvalid,
				"The kernel of this node does not take the mount option %s: %v%s.", strings.TrimSuffix(p.key+"="+p.value, "="), err, fslog.Read(context))
		}
	}
	if err := unix.FsconfigCreate(context); err != nil {
		return -1, refused(s, at, err, fslog.Read(context))
	}
	root, err = unix.Fsmount(context, unix.FSMOUNT_CLOEXEC, attributes(s.Options, s.Purpose))
	if err != nil {
		return -1, refused(s, at, err, fslog.Read(context))
	}
	if err := isNFS(root); err != nil {
		unix.Close(root)
		return -1, err
	}
	return root, nil
}

// isNFS refuses a mount that is not what it was asked to be.
func isNFS(root int) error {
	var st unix.Statfs_t
	if err := unix.Fstatfs(root, &st); err != nil {
		return sharedvolume.NewProblem(sharedvolume.ReasonUnreachable, "The share was mounted, and cannot be read: %v.", err)
	}
	if st.Type != unix.NFS_SUPER_MAGIC {
		return fmt.Errorf("the mount is of type %#x, not NFS", st.Type)
	}
	return nil
}

// refused says why a server that answers did not let the share be mounted.
func refused(s Source, at netip.AddrPort, err error, said string) error {
	what := sharedvolume.Source(s.Host, s.Path)
	tried := fmt.Sprintf("NFS version %s at %s was tried: %v%s", s.Options.Version, at, err, said)
	for _, r := range []struct {
		errnos  []error
		reason  string
		message string
	}{
		{[]error{unix.EACCES, unix.EPERM}, sharedvolume.ReasonRefused, "The server does not let this node mount %s (allow the node's address in its exports; %s)."},
		{[]error{unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.ESTALE}, sharedvolume.ReasonNotExported, "The server exports no %s to this node (%s)."},
		{[]error{unix.EPROTONOSUPPORT, unix.EPROTO, unix.EBADMSG, unix.EOPNOTSUPP}, sharedvolume.ReasonNotNFS, "The server does not speak what is wanted for %s (choose another vers in mountOptions; %s)."},
		{[]error{unix.EINVAL}, sharedvolume.ReasonInvalid, "The kernel of this node does not take the options of %s (%s)."},
		{[]error{
			unix.ETIMEDOUT, unix.ECONNREFUSED, unix.ECONNRESET, unix.EHOSTUNREACH, unix.ENETUNREACH, unix.EHOSTDOWN, unix.EIO, unix.EPIPE, unix.ENOTCONN,
		}, sharedvolume.ReasonUnreachable, "The server of %s stopped answering (%s)."},
	} {
		for _, errno := range r.errnos {
			if errors.Is(err, errno) {
				return sharedvolume.NewProblem(r.reason, r.message, what, tried)
			}
		}
	}
	return sharedvolume.NewProblem(sharedvolume.ReasonUnknown, "The share %s cannot be mounted (%s).", what, tried)
}
