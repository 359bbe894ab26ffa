package nfs

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/pkg/sharedvolume"
)

// Usage is what is used and free of a mount.
type Usage struct {
	TotalBytes, UsedBytes, FreeBytes int64
	// Inodes are all zero where the server does not limit them.
	TotalInodes, UsedInodes, FreeInodes int64
}

// Measure reads the usage of a mount of a pod. A server that is gone keeps a thread of this process until it is back, or until the
// mount is forced; then nobody else waits for the same mount.
func (c *Client) Measure(ctx context.Context, path string) (Usage, error) {
	since, started := c.measure(path)
	if !started {
		return Usage{}, sharedvolume.NewProblem(sharedvolume.ReasonUnreachable, "The server does not answer since %s.", since.UTC().Format(time.RFC3339))
	}
	type outcome struct {
		usage Usage
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		u, err := c.statfs(path)
		c.mu.Lock()
		delete(c.measures, path)
		c.mu.Unlock()
		done <- outcome{u, err}
	}()
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Limits.Measure)
	defer cancel()
	select {
	case o := <-done:
		return o.usage, o.err
	case <-ctx.Done():
		return Usage{}, sharedvolume.NewProblem(sharedvolume.ReasonUnreachable, "The server does not answer since %s.", since.UTC().Format(time.RFC3339))
	}
}

func (c *Client) measure(path string) (since time.Time, started bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if since, ok := c.measures[path]; ok {
		return since, false
	}
	if len(c.measures) >= c.cfg.Limits.Measures {
		return now, false
	}
	c.measures[path] = now
	return now, true
}

func measure(path string) (Usage, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return Usage{}, fmt.Errorf("usage of %s: %w", path, err)
	}
	return Usage{
		TotalBytes: int64(st.Blocks) * st.Bsize, UsedBytes: int64(st.Blocks-st.Bfree) * st.Bsize, FreeBytes: int64(st.Bavail) * st.Bsize,
		TotalInodes: int64(st.Files), UsedInodes: int64(st.Files - st.Ffree), FreeInodes: int64(st.Ffree),
	}, nil
}
