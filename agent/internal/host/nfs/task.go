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
type task struct{ killed time.Time }

// once runs one task to its end. A process that does not end in time is killed; while the kernel does not let it go, another task on
// the same thing is refused.
func (c *Client) once(ctx context.Context, kind, on string, limit time.Duration, message any, files ...*os.File) error {
	t, err := c.begin(kind, on)
	if err != nil {
		return err
	}
	p, err := c.cfg.Start(kind, files...)
	if err != nil {
		c.finish(on)
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	result := make(chan error, 1)
	go func() { result <- talk(p, message) }()
	select {
	case err = <-result:
		p.End()
	case <-ctx.Done():
		err = fmt.Errorf("%s %s: it took longer than %s: %w", kind, on, limit, context.DeadlineExceeded)
		p.Kill()
	}
	select {
	case <-p.Done():
		c.finish(on)
	case <-time.After(time.Second):
		c.mu.Lock()
		t.killed = time.Now()
		c.mu.Unlock()
		p.Kill()
		c.cfg.Log.Info("Waiting for a process that waits for a server", "task", kind, "on", on)
		go func() {
			<-p.Done()
			c.finish(on)
			c.cfg.Log.Info("A process that waited for a server is gone", "task", kind, "on", on)
		}()
	}
	return err
}

func (c *Client) begin(kind, on string) (*task, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch before := c.tasks[on]; {
	case before != nil && before.killed.IsZero():
		return nil, fmt.Errorf("%s %s: %w", kind, on, sharedvolume.ErrBusy)
	case before != nil:
		return nil, sharedvolume.NewProblem(sharedvolume.ReasonUnreachable, "A process of this node waits for a server since %s (%s).",
			before.killed.UTC().Format(time.RFC3339), on)
	case len(c.shares)+len(c.tasks) >= c.cfg.Limits.Processes:
		return nil, sharedvolume.NewProblem(sharedvolume.ReasonUnreachable, "%d processes wait for servers already.", c.cfg.Limits.Processes)
	}
	t := &task{}
	c.tasks[on] = t
	return t, nil
}

func (c *Client) finish(on string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.tasks, on)
}

// talk hands a process its message and reads how it went.
func talk(p Process, message any) error {
	err := json.NewEncoder(p).Encode(message)
	var r child.Response
	if err == nil {
		err = json.NewDecoder(p).Decode(&r)
	}
	if err != nil {
		return fmt.Errorf("task: %w%s", err, lastWords(p))
	}
	return r.Failure.Err()
}
