package nfs

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"quarry.storage/quarry/agent/internal/host/nfs/child"
	"quarry.storage/quarry/pkg/sharedvolume"
)

// task is a process that does one thing and ends.
type task struct {
	// kind is one of the tasks of package child, on says what it works on, server whom it may wait for.
	kind, on, server string
	// volume is the volume that it mounts or unmounts, if it does.
	volume string
	limit  time.Duration
	// started is true when there was room for it, and its process was started.
	started bool
	// killed is the time when it was killed because it did not end.
	killed time.Time
}

// once runs one task of which only the outcome counts.
func (c *Client) once(ctx context.Context, t *task, message any, files ...*os.File) error {
	_, err := c.ask(ctx, t, message, files...)
	return err
}

// reply is what a process said.
type reply struct {
	child.Response
	err error
}

// ask runs one task to its end. A process that does not end in time is killed; while the kernel does not let it go, another task on
// the same thing is refused.
func (c *Client) ask(ctx context.Context, t *task, message any, files ...*os.File) (child.Response, error) {
	if err := c.begin(t); err != nil {
		return child.Response{}, err
	}
	p, err := c.cfg.Start(t.kind, files...)
	if err != nil {
		c.finish(t)
		return child.Response{}, err
	}
	t.started = true
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.limit)
	defer cancel()
	result := make(chan reply, 1)
	go func() {
		r, err := talk(p, message)
		result <- reply{r, err}
	}()
	var out reply
	select {
	case out = <-result:
		p.End()
	case <-ctx.Done():
		out.err = fmt.Errorf("%s %s: it took longer than %s: %w", t.kind, t.on, t.limit, context.DeadlineExceeded)
		p.Kill()
	}
	select {
	case <-p.Done():
		c.finish(t)
	case <-time.After(time.Second):
		c.mu.Lock()
		t.killed = time.Now()
		c.mu.Unlock()
		p.Kill()
		c.cfg.Log.Info("Waiting for a process that waits for a server", "task", t.kind, "on", t.on, "server", t.server)
		go func() {
			<-p.Done()
			c.finish(t)
			c.cfg.Log.Info("A process that waited for a server is gone", "task", t.kind, "on", t.on, "server", t.server)
		}()
	}
	return out.Response, out.err
}

// begin counts a task. What hangs because of one server is bounded, so that there is always room for the others. A bound says nothing about
// the server of the task that it refuses.
func (c *Client) begin(t *task) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	hanging := 0
	for _, other := range c.tasks {
		if t.kind == child.TaskAttach && other.kind == child.TaskUnmount && other.volume == t.volume {
			// Its pages come before those of the next mount, or they would replace them.
			return fmt.Errorf("%s %s: an earlier mount of the volume on this node still has to write to server %s: %w",
				t.kind, t.on, other.server, sharedvolume.ErrBusy)
		}
		if other.server == t.server && !other.killed.IsZero() {
			hanging++
		}
	}
	switch before := c.tasks[t.on]; {
	case before != nil && before.killed.IsZero():
		return fmt.Errorf("%s %s: %w", t.kind, t.on, sharedvolume.ErrBusy)
	case before != nil:
		return sharedvolume.NewProblem(sharedvolume.ReasonUnreachable, "A process of this node waits for server %s since %s (%s).",
			t.server, before.killed.UTC().Format(time.RFC3339), t.on)
	case hanging >= c.cfg.Limits.Hanging:
		return fmt.Errorf("%s %s: %d processes of this node wait for server %s already: %w", t.kind, t.on, hanging, t.server, sharedvolume.ErrBusy)
	case len(c.shares)+len(c.tasks) >= c.cfg.Limits.Processes:
		return fmt.Errorf("%s %s: %d processes work on shares already: %w", t.kind, t.on, c.cfg.Limits.Processes, sharedvolume.ErrBusy)
	}
	c.tasks[t.on] = t
	return nil
}

func (c *Client) finish(t *task) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.tasks, t.on)
}

// talk hands a process its message and reads how it went.
func talk(p Process, message any) (child.Response, error) {
	err := json.NewEncoder(p).Encode(message)
	var r child.Response
	if err == nil {
		err = json.NewDecoder(p).Decode(&r)
	}
	if err != nil {
		return r, fmt.Errorf("task: %w%s", err, lastWords(p))
	}
	return r, r.Failure.Err()
}
