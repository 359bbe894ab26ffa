package nfs

import (
	"context"
	"errors"

	"quarry.storage/quarry/agent/internal/host/nfs/child"
	"quarry.storage/quarry/agent/internal/host/run/task"
	"quarry.storage/quarry/pkg/sharedvolume"
)

// Usage is what is used and free of a mount.
type Usage = child.Usage

// Measure reads the usage of a mount of a pod. ErrStale means that the server does not know what is mounted. It runs in a process of its own: whoever waits for a server holds the mount, and nobody
// could unmount it as long as a thread of this process did.
func (c *Client) Measure(ctx context.Context, m Mounted) (Usage, error) {
	t := &task.Task{Kind: child.TaskMeasure, On: "usage of " + m.What, For: server(m.Server), Limit: c.cfg.Limits.Measure}
	r, err := c.ask(ctx, t, child.Measuring{Name: m.Name}, m.Dir)
	if errors.Is(err, context.DeadlineExceeded) {
		err = sharedvolume.NewProblem(sharedvolume.ReasonUnreachable, "The server %s does not answer: %v.", m.Server, err)
	}
	return r.Measured, c.explain(err)
}
