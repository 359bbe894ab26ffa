// Package sole lets one agent at a time work on a node. Kubernetes starts the next agent when it believes that the last one is gone; it
// believes so too when somebody forced a pod away whose processes live on.
package sole

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"
)

// lockName is the name of the file that the working agent holds locked. It stays there; what it says is for people.
const lockName = "agent.lock"

// waiting begins what the agent says while nobody is known for whom it waits.
const waiting = "waiting to be the only agent of this node"

// Config says where the agents of a node meet.
type Config struct {
	// Dir is a directory of the host that every agent of the node has mounted at this path.
	Dir string
	// Proc is where the host's /proc is seen.
	Proc string
	// Except are the first arguments of processes of the agent's program that work on nothing alone: those that an agent starts, and may outlive it, and looks at the node.
	Except []string
	// Pause between two looks.
	Pause time.Duration
	Log   logr.Logger
}

// Turn is one agent's wait for its turn.
type Turn struct {
	cfg Config

	mu sync.Mutex
	// why the agent waits; nil once it is the only one.
	why error
}

// New returns the wait of this process.
func New(cfg Config) *Turn {
	return &Turn{cfg: cfg, why: errors.New(waiting)}
}

// Check returns for whom the agent waits; nil once it works.
func (t *Turn) Check() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.why
}

// Take waits until no other agent works on the node, and returns what lets the next one begin. It fails only when the context ends. What cannot
// be read counts as another agent.
func (t *Turn) Take(ctx context.Context) (release func(), err error) {
	var file *os.File
	for {
		if file, err = t.open(file); err == nil {
			if err = t.lock(file); err == nil {
				err = t.unlocked()
			}
		}
		if t.tell(err); err == nil {
			return func() { file.Close() }, nil
		}
		select {
		case <-ctx.Done():
			file.Close()
			return nil, ctx.Err()
		case <-time.After(t.cfg.Pause):
		}
	}
}

// tell remembers why the agent waits, and logs it when it is news.
func (t *Turn) tell(why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if why != nil && (t.why == nil || why.Error() != t.why.Error()) {
		t.cfg.Log.Info("Waiting: another agent works on this node, or may", "reason", why.Error())
	}
	t.why = why
}

// open returns the file of the lock. It stays open while the agent waits: by that others see that this one knows the lock. It is opened anew
// when somebody has removed it, and made another one.
func (t *Turn) open(had *os.File) (*os.File, error) {
	if err := os.MkdirAll(t.cfg.Dir, 0o700); err != nil {
		return had, wrap(err)
	}
	f, err := os.OpenFile(filepath.Join(t.cfg.Dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return had, wrap(err)
	}
	now, err := f.Stat()
	if err != nil {
		f.Close()
		return had, wrap(err)
	}
	if had != nil {
		if before, err := had.Stat(); err == nil && os.SameFile(before, now) {
			f.Close()
			return had, nil
		}
		had.Close()
	}
	return f, nil
}

// lock takes the lock, or says who has it. The kernel takes it back when the process ends, however it ends.
func (t *Turn) lock(f *os.File) error {
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		holder, _ := io.ReadAll(io.NewSectionReader(f, 0, 256))
		return fmt.Errorf("waiting for the agent that works on this node: %s, which holds %s", strings.TrimSpace(string(holder)), f.Name())
	case err != nil:
		return wrap(fmt.Errorf("lock %s: %w", f.Name(), err))
	}
	// Nobody's work depends on what the file says.
	_ = sign(f)
	return nil
}

// sign writes who holds the lock: in a pod the name of the host is that of the pod.
func sign(f *os.File) error {
	host, err := os.Hostname()
	truncateErr := f.Truncate(0)
	_, writeErr := f.WriteAt(fmt.Appendf(nil, "%s (process %d)\n", host, os.Getpid()), 0)
	return errors.Join(err, truncateErr, writeErr)
}
