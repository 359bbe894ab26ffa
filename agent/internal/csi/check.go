package csi

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// DefaultCheckPatience is shorter than the kubelet waits for an answer, two minutes: so the pod's events tell how far a check is.
const DefaultCheckPatience = 90 * time.Second

// errUnfinished means that work goes on without the call. A repeated call finds it.
var errUnfinished = errors.New("the filesystem is being checked")

// checks are the checks of filesystems that are under way, by the volume's handle. A check ends by itself, however long it takes: one that is
// killed begins from the start.
type checks struct {
	mu      sync.Mutex
	running map[string]*check
}

// check is one check.
type check struct {
	began time.Time
	done  chan struct{}
	err   error // once it is done

	mu  sync.Mutex
	far string
}

func (c *check) tell(far string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.far = far
}

func (c *check) unfinished() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	since := time.Since(c.began).Round(time.Second)
	if c.far == "" {
		return fmt.Errorf("%w for %s; it is mounted when that has ended", errUnfinished, since)
	}
	return fmt.Errorf("%w for %s: %s; it is mounted when that has ended", errUnfinished, since, c.far)
}

// wait begins a check of a volume, or finds the one that is under way, and waits for its end, not longer than its patience. The end of a check
// for which nobody waited is told once.
func (c *checks) wait(ctx context.Context, handle string, patience time.Duration, work func(context.Context, func(string)) error) error {
	k := c.begin(ctx, handle, work)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-k.done:
		c.forget(handle, k)
		return k.err
	case <-timer.C:
	case <-ctx.Done():
	}
	return k.unfinished()
}

func (c *checks) begin(ctx context.Context, handle string, work func(context.Context, func(string)) error) *check {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.running[handle]; k != nil {
		return k
	}
	if c.running == nil {
		c.running = map[string]*check{}
	}
	k := &check{began: time.Now(), done: make(chan struct{})}
	c.running[handle] = k
	log := logr.FromContextOrDiscard(ctx)
	go func() {
		k.err = work(context.WithoutCancel(ctx), k.tell)
		if took := time.Since(k.began); took > time.Second || k.err != nil {
			log.Info("Checked a filesystem", "volume", handle, "seconds", int(took.Seconds()), "error", k.err)
		}
		close(k.done)
	}()
	return k
}

func (c *checks) forget(handle string, k *check) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running[handle] == k {
		delete(c.running, handle)
	}
}
