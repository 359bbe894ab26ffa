// Package cephfs mounts volumes of a Ceph filesystem on this node, measures and unmounts them. Daemons that are gone never keep it: whatever waits for Ceph runs in
// a process of its own, which is killed at its deadline. The key of the clients goes to that process through a pipe, and to nowhere else.
package cephfs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"quarry.storage/quarry/agent/internal/host/cephfs/child"
	"quarry.storage/quarry/agent/internal/host/run"
)

// Errors of this package, beside those of package child.
var (
	ErrInUse       = child.ErrInUse
	ErrRefused     = child.ErrRefused
	ErrKernel      = child.ErrKernel
	ErrUnreachable = child.ErrUnreachable
	// ErrHangs means that an unmount waits for Ceph: this one, or an earlier one of the volume whose process is not gone yet.
	ErrHangs = errors.New("the unmount waits for Ceph")
	// ErrBusy means that something is being done with the volume already.
	ErrBusy = errors.New("in progress")
)

// Usage is what is used and free of a mount.
type Usage = child.Usage

// Process is a process of this package's own: it reads one message and writes one.
type Process interface {
	io.Reader
	io.Writer
	// End closes its input.
	End()
	// Kill ends it, as soon as the kernel lets it go.
	Kill()
	// Done is closed when it is gone.
	Done() <-chan struct{}
	// LastWords are what it said when it went.
	LastWords() string
}

// Config is what a Client is made of.
type Config struct {
	// Namespace is the network namespace that volumes are mounted in: the one of the host.
	Namespace string
	// Start starts a process of a task; the agent's own program when nil.
	Start func(task string, files ...*os.File) (Process, error)
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
	cfg Config

	mu sync.Mutex
	// tasks are the processes that are not gone yet, by what they work on.
	tasks map[string]*task
}

// New makes a Client.
func New(cfg Config) *Client {
	cfg.Mount, cfg.Unmount, cfg.Measure = cmp.Or(cfg.Mount, 60*time.Second), cmp.Or(cfg.Unmount, 20*time.Second), cmp.Or(cfg.Measure, 5*time.Second)
	cfg.Processes = cmp.Or(cfg.Processes, 128)
	if cfg.Release == nil {
		cfg.Release = release
	}
	if cfg.Start == nil {
		cfg.Start = starter(cmp.Or(cfg.Namespace, "/proc/self/ns/net"))
	}
	return &Client{cfg: cfg, tasks: map[string]*task{}}
}

// starter starts the agent's own program.
func starter(namespace string) func(string, ...*os.File) (Process, error) {
	return func(task string, files ...*os.File) (Process, error) {
		p, err := run.Real{}.Start(run.Command{Path: "/proc/self/exe", Args: []string{child.Command, task, namespace}}, files...)
		if err != nil {
			return nil, err
		}
		return &process{p}, nil
	}
}

type process struct{ *run.Process }

func (p *process) Read(b []byte) (int, error)  { return p.Stdout.Read(b) }
func (p *process) Write(b []byte) (int, error) { return p.Stdin.Write(b) }

// End closes its input.
func (p *process) End() { p.Stdin.Close() }

// task is a process that does one thing and ends.
type task struct {
	// kind is one of the tasks of package child, on says what it works on, volume which volume that is of.
	kind, on, volume string
	limit            time.Duration
	// killed is the time when it was killed because it did not end.
	killed time.Time
}

// ask runs one task to its end. A process that does not end in time is killed; while the kernel does not let it go, another task on the same thing is refused.
func (c *Client) ask(ctx context.Context, t *task, message any, files ...*os.File) (child.Response, error) {
	if err := c.begin(t); err != nil {
		return child.Response{}, err
	}
	p, err := c.cfg.Start(t.kind, files...)
	if err != nil {
		c.finish(t)
		return child.Response{}, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.limit)
	defer cancel()
	type reply struct {
		child.Response
		err error
	}
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
		c.outlive(t, p)
	}
	return out.Response, out.err
}

// outlive waits for a process that the kernel does not let go.
func (c *Client) outlive(t *task, p Process) {
	c.mu.Lock()
	t.killed = time.Now()
	c.mu.Unlock()
	p.Kill()
	c.cfg.Log.Info("Waiting for a process that waits for Ceph", "task", t.kind, "on", t.on)
	go func() {
		<-p.Done()
		c.finish(t)
		c.cfg.Log.Info("A process that waited for Ceph is gone", "task", t.kind, "on", t.on)
	}()
}

// begin counts a task. What hangs is bounded.
func (c *Client) begin(t *task) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, other := range c.tasks {
		if t.kind == child.TaskAttach && other.kind == child.TaskUnmount && other.volume == t.volume {
			return fmt.Errorf("an earlier mount of %s on this node still has to write to Ceph: %w", t.volume, ErrBusy)
		}
	}
	if before := c.tasks[t.on]; before != nil {
		if before.killed.IsZero() {
			return fmt.Errorf("%s %s: %w", t.kind, t.on, ErrBusy)
		}
		return fmt.Errorf("%w: a process of this node waits since %s (%s)", ErrUnreachable, before.killed.UTC().Format(time.RFC3339), t.on)
	}
	if len(c.tasks) >= c.cfg.Processes {
		return fmt.Errorf("%s %s: %d processes wait for Ceph already: %w", t.kind, t.on, c.cfg.Processes, ErrBusy)
	}
	c.tasks[t.on] = t
	return nil
}

func (c *Client) finish(t *task) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.tasks, t.on)
}

// patience is how long is waited for a process that is about to be gone.
const patience = 100 * time.Millisecond

// talk hands a process its message and reads how it went.
func talk(p Process, message any) (child.Response, error) {
	var r child.Response
	// The error of an encoder has no part of what it encodes.
	err := json.NewEncoder(p).Encode(message)
	if err == nil {
		err = json.NewDecoder(p).Decode(&r)
	}
	if err == nil {
		return r, r.Failure.Err()
	}
	select {
	case <-p.Done():
	case <-time.After(patience):
	}
	return r, fmt.Errorf("task: %w: %s", err, strings.TrimSpace(p.LastWords()))
}
