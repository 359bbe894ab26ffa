package nfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"quarry.storage/quarry/agent/internal/host/nfs/child"
	"quarry.storage/quarry/agent/internal/host/nfs/kernel"
	"quarry.storage/quarry/agent/internal/host/run/task"
	"quarry.storage/quarry/pkg/sharedvolume"
)

// Volume says which volume is meant, and where it is.
type Volume struct {
	sharedvolume.ID
	sharedvolume.Attributes
	// Options outrank those of the attributes, if there are any. None takes a flag of them off: rw does not undo ro.
	Options []string
}

// Attach mounts the directory of a volume, as pods use it, on an open place of this process's mount namespace. The directory is found by
// its record, in the very mount that pods get. While an earlier mount of the volume is not unmounted to its end it is refused: what that one did not
// write yet would replace what pods write through the new one.
func (c *Client) Attach(ctx context.Context, v Volume, place *os.File) error {
	a := child.Attachment{Volume: v.Name, Directory: v.Directory}
	a.Target.Owner, a.Target.ShareID = v.Owner, v.ShareID
	var err error
	if a.Mount, err = source(sharedvolume.Share{Server: v.Server, Path: v.Path, MountOptions: slices.Concat(v.MountOptions, v.Options)}, kernel.Use); err != nil {
		return err
	}
	if a.Mount.Addresses, err = c.addresses(ctx, a.Mount.Host); err != nil {
		return c.explain(err)
	}
	limits := c.cfg.Limits
	err = c.once(ctx, &task.Task{
		Kind: child.TaskAttach, On: v.ID.String(), Volume: v.ID.String(), Mounts: true, For: server(a.Mount.Host), Limit: limits.Mount + limits.Call,
	}, a, place)
	if errors.Is(err, context.DeadlineExceeded) {
		err = sharedvolume.NewProblem(sharedvolume.ReasonUnreachable, "The server of %s did not let directory %q be mounted in time: %v.",
			sharedvolume.Source(a.Mount.Host, v.Path), v.Directory, err)
	}
	return c.explain(err)
}

// Errors of mounts.
var (
	// ErrInUse means that somebody uses a mount.
	ErrInUse = child.ErrInUse
	// ErrStale means that the server does not know what is mounted.
	ErrStale = child.ErrStale
	// ErrHangs means that an unmount waits for a server: this one, or an earlier one of the same mount whose process is not gone yet.
	ErrHangs = errors.New("the unmount waits for the server")
	// ErrNotBegun means that an unmount was not begun, mostly because an earlier one of the same mount is not over yet. Nothing was done.
	ErrNotBegun = errors.New("the unmount was not begun")
)

// Mounted is where something is mounted that is to be unmounted.
type Mounted struct {
	// Dir is the open directory, and Name the name in it.
	Dir  *os.File
	Name string
	// What is mounted, for messages, and the server that it is connected to.
	What, Server string
	// Volume is the id of the volume that is mounted.
	Volume string
}

// Unmount takes a mount away. With force, what waits for the server fails, and what was not written yet is lost.
func (c *Client) Unmount(ctx context.Context, m Mounted, force bool) error {
	t := &task.Task{Kind: child.TaskUnmount, On: m.What, Volume: m.Volume, Writes: true, For: server(m.Server), Limit: c.cfg.Limits.Unmount}
	err := c.once(ctx, t, child.Unmounting{Name: m.Name, Force: force}, m.Dir)
	if err != nil && !t.Started {
		err = fmt.Errorf("%w: %w", ErrNotBegun, err)
	}
	var problem *sharedvolume.Problem
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &problem) {
		return fmt.Errorf("%w: %w", ErrHangs, err)
	}
	return err
}

// Reaches reports whether the server of a mount answers, with a Problem that says why not. Where it could not be asked, the error is no
// Problem.
func (c *Client) Reaches(ctx context.Context, host string, options []string) error {
	m, err := source(sharedvolume.Share{Server: host, Path: "/", MountOptions: options}, kernel.Use)
	if err != nil {
		return err
	}
	if m.Addresses, err = c.addresses(ctx, m.Host); err != nil {
		return c.explain(err)
	}
	t := &task.Task{Kind: child.TaskProbe, On: server(host), For: server(host), Limit: c.cfg.Limits.Mount}
	err = c.once(ctx, t, m)
	if err != nil && !t.Started {
		return fmt.Errorf("server %s was not asked: %s: %w", host, err.Error(), sharedvolume.ErrBusy)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = sharedvolume.NewProblem(sharedvolume.ReasonUnreachable, "The server %s does not answer: %v.", host, err)
	}
	return c.explain(err)
}
