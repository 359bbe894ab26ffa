package nfs

import (
	"context"
	"errors"
	"fmt"
	"os"

	"quarry.storage/quarry/agent/internal/host/nfs/child"
	"quarry.storage/quarry/agent/internal/host/run/task"
	"quarry.storage/quarry/pkg/sharedvolume"
)

// server is whom a process waits for, in words.
func server(host string) string { return "server " + host }

// ask runs one task to its end.
func (c *Client) ask(ctx context.Context, t *task.Task, message any, files ...*os.File) (child.Response, error) {
	r, err := task.Run[child.Response](ctx, c.tasks, t, message, files...)
	if err != nil {
		return r, refused(err)
	}
	return r, r.Failure.Err()
}

// once runs one task of which only the outcome counts.
func (c *Client) once(ctx context.Context, t *task.Task, message any, files ...*os.File) error {
	_, err := c.ask(ctx, t, message, files...)
	return err
}

// refused says what it means that a task was not begun. Only a process that still waits for the server says something about the server; a bound says nothing about the
// server of the task that it refuses.
func refused(err error) error {
	var r *task.Refusal
	switch {
	case !errors.As(err, &r):
		return err
	case r.Why == task.Waits:
		return sharedvolume.NewProblem(sharedvolume.ReasonUnreachable, "%s.", r.Message)
	}
	return fmt.Errorf("%w: %w", r, sharedvolume.ErrBusy)
}
