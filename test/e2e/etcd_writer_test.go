//go:build e2e

package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
	"testing"
	"time"
)

// etcdPrefix is of all keys that are written.
const etcdPrefix = "written/"

// etcdWriter writes one key after another and remembers what was acknowledged. A key that was not is written again, so that none is left out.
type etcdWriter struct {
	to *membership

	mu sync.Mutex
	// count is how many keys were acknowledged: those below this number.
	count int
	// since is when the last one was, and pause the longest time from one to the next.
	since time.Time
	pause time.Duration
}

// etcdKey and etcdValue say what the key of a number is called and holds.
func etcdKey(n int) string { return fmt.Sprintf("%s%08d", etcdPrefix, n) }

func etcdValue(n int) string {
	sum := sha256.Sum256([]byte(etcdKey(n)))
	return hex.EncodeToString(sum[:])
}

// run writes until the test ends.
func (w *etcdWriter) run(ctx context.Context) {
	for n := 0; ctx.Err() == nil; {
		acknowledged := false
		for _, address := range w.to.addresses() {
			if etcdPut(ctx, address, etcdKey(n), etcdValue(n)) == nil {
				acknowledged = true
				break
			}
		}
		pause := 200 * time.Millisecond
		if acknowledged {
			w.acknowledge()
			n++
		} else {
			pause = 50 * time.Millisecond
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

func (w *etcdWriter) acknowledge() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if pause := now.Sub(w.since); w.count > 0 && pause > w.pause {
		w.pause = pause
	}
	w.count++
	w.since = now
}

// so returns how many keys were acknowledged, and the longest time since the last call in which none was.
func (w *etcdWriter) so() (count int, pause time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	pause = max(w.pause, time.Since(w.since))
	w.pause = 0
	return w.count, pause
}

// startWriter begins to write, and ends with the test.
func startWriter(t *testing.T, to *membership) *etcdWriter {
	t.Helper()
	w := &etcdWriter{to: to}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { w.run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	eventually(t, limitPod, "writes are acknowledged", func(context.Context) error {
		if n, _ := w.so(); n < 100 {
			return fmt.Errorf("%d so far", n)
		}
		return nil
	})
	return w
}
