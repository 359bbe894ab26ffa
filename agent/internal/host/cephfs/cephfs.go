// Package cephfs mounts volumes of a Ceph filesystem on this node, measures and unmounts them. Daemons that are gone never keep it: whatever waits for Ceph runs in
// a process of its own, which is killed at its deadline. The key of the clients goes to that process through a pipe, and to nowhere else.
package cephfs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"

	"quarry.storage/quarry/agent/internal/host/cephfs/child"
	"quarry.storage/quarry/agent/internal/host/run/task"
)

// Errors of this package, beside those of package child.
var (
	ErrInUse       = child.ErrInUse
	ErrRefused     = child.ErrRefused
	ErrKernel      = child.ErrKernel
	ErrUnreachable = child.ErrUnreachable
	ErrShutOut     = child.ErrShutOut
	// ErrHangs means that an unmount waits for Ceph: this one, or an earlier one of the volume whose process is not gone yet.
	ErrHangs = errors.New("the unmount waits for Ceph")
	// ErrBusy means that something is being done with the volume already.
	ErrBusy = errors.New("in progress")
)

// Usage is what is used and free of a mount.
type Usage = child.Usage

// Config is what a Client is made of.
type Config struct {
	// Namespace is the network namespace that volumes are mounted in: the one of the host.
	Namespace string
	// Start starts a process of a task; the agent's own program when nil.
	Start task.Start
	// Release returns the release of the kernel; that of the running one when nil.
	Release func() (string, error)
	// Mount, Unmount and Measure bound the tasks. Each has a default.
	Mount, Unmount, Measure time.Duration
	// Processes bounds the processes at a time, those that were killed and still wait too; default 128.
	Processes int
	Log       logr.Logger
}

// Client mounts volumes.
type Client struct {
	cfg   Config
	tasks *task.Table
}

// New makes a Client.
func New(cfg Config) *Client {
	cfg.Mount, cfg.Unmount, cfg.Measure = cmp.Or(cfg.Mount, 60*time.Second), cmp.Or(cfg.Unmount, 20*time.Second), cmp.Or(cfg.Measure, 5*time.Second)
	cfg.Processes = cmp.Or(cfg.Processes, 128)
	if cfg.Release == nil {
		cfg.Release = release
	}
	if cfg.Start == nil {
		cfg.Start = task.Program(child.Command, cfg.Namespace)
	}
	// One Ceph is all that they wait for: what hangs is bounded by the room.
	return &Client{cfg: cfg, tasks: task.NewTable(cfg.Start, task.NewRoom(cfg.Processes), cfg.Processes, cfg.Log)}
}

// ceph is whom a process waits for, in words.
const ceph = "Ceph"

// ask runs one task to its end.
func (c *Client) ask(ctx context.Context, t *task.Task, message any, files ...*os.File) (child.Response, error) {
	r, err := task.Run[child.Response](ctx, c.tasks, t, message, files...)
	if err != nil {
		return r, refused(err)
	}
	return r, r.Err()
}

// refused says what it means that a task was not begun. Only a process that still waits for Ceph says something about Ceph.
func refused(err error) error {
	var r *task.Refusal
	switch {
	case !errors.As(err, &r):
		return err
	case r.Why == task.Waits:
		return fmt.Errorf("%w: %w", ErrUnreachable, r)
	}
	return fmt.Errorf("%w: %w", r, ErrBusy)
}
