package cephfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/agent/internal/host/cephfs/child"
	"quarry.storage/quarry/agent/internal/host/run/task"
	"quarry.storage/quarry/pkg/cephname"
	"quarry.storage/quarry/pkg/cephvolume"
)

// Volume says which volume is meant, where it is, and what it is mounted with.
type Volume struct {
	ID         cephvolume.ID
	Path       string
	Monitors   []string
	Credential cephvolume.Credential
	// Options are mount options of the kernel for any filesystem.
	Options []string
}

// Source is what a mount of the volume is called in the mount table.
func Source(id cephvolume.ID, path string) string {
	return child.Source(cephname.ClientUser, id.FSID, cephname.Filesystem, path)
}

// firstAES256 is the first major version of the kernel that knows keys of that kind.
const firstAES256 = 7

// Attach mounts a volume, as pods use it, on an open place of this process's mount namespace. While an earlier mount of the volume is not unmounted to its end it
// is refused.
func (c *Client) Attach(ctx context.Context, v Volume, place *os.File) error {
	if err := c.takes(v.Credential.Cipher); err != nil {
		return err
	}
	a := child.Attachment{
		FSID: v.ID.FSID, Filesystem: cephname.Filesystem, Path: v.Path, Monitors: v.Monitors, User: v.Credential.User, Secret: v.Credential.Key.Reveal(), Options: v.Options,
	}
	on := v.ID.String()
	_, err := c.ask(ctx, &task.Task{Kind: child.TaskAttach, On: on, Volume: on, Mounts: true, For: ceph, Limit: c.cfg.Mount}, a, place)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return err
}

// takes refuses a key that the kernel of this node cannot use, in words that say what to do.
func (c *Client) takes(cipher cephvolume.Cipher) error {
	if cipher != cephvolume.CipherAES256 {
		return nil
	}
	text, err := c.cfg.Release()
	if err != nil {
		return fmt.Errorf("release of the kernel: %w", err)
	}
	major, err := strconv.Atoi(text[:max(0, strings.IndexByte(text, '.'))])
	if err != nil {
		return fmt.Errorf("release of the kernel %.40q: %w", text, ErrKernel)
	}
	if major < firstAES256 {
		return fmt.Errorf("%w: it is %s, and keys of kind %s need %d.0 or later; the Ceph cluster has to give its clients a key of kind %s",
			ErrKernel, text, cipher, firstAES256, cephvolume.CipherAES)
	}
	return nil
}

func release() (string, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "", err
	}
	return unix.ByteSliceToString(u.Release[:]), nil
}

// Mounted is where something is mounted.
type Mounted struct {
	// Dir is the open directory, and Name the name in it.
	Dir  *os.File
	Name string
	// What is mounted, for messages, and the handle of the volume.
	What, Volume string
}

// Unmount takes a mount away. It is never forced: what is not written yet would be lost, and Ceph may come back.
func (c *Client) Unmount(ctx context.Context, m Mounted) error {
	t := &task.Task{Kind: child.TaskUnmount, On: m.What, Volume: m.Volume, Writes: true, For: ceph, Limit: c.cfg.Unmount}
	_, err := c.ask(ctx, t, child.Unmounting{Name: m.Name}, m.Dir)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrUnreachable) {
		return fmt.Errorf("%w: %w", ErrHangs, err)
	}
	return err
}

// Measure reads the usage of a mount, and finds whether Ceph still serves it, in a process of its own: nobody could unmount what a thread of this process waits in.
func (c *Client) Measure(ctx context.Context, m Mounted) (Usage, error) {
	t := &task.Task{Kind: child.TaskMeasure, On: "usage of " + m.What, For: ceph, Limit: c.cfg.Measure}
	r, err := c.ask(ctx, t, child.Measuring{Name: m.Name}, m.Dir)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return r.Measured, err
}
