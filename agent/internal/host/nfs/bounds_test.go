package nfs

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"quarry.storage/quarry/pkg/sharedvolume"
)

func TestClient_bounds(t *testing.T) {
	w := newWorld(t)
	c := w.client(quick)
	_, err := c.GetShare(t.Context(), shareOf("one"), true)
	must(t, err)
	w.stop("one")
	var busy, gone atomic.Int64
	var wait sync.WaitGroup
	for i := range 6 {
		wait.Go(func() {
			_, err := c.EnsureDirectory(t.Context(), shareOf("one"), sharedvolume.Wish{Name: fmt.Sprintf("pvc-%d", i), Directory: fmt.Sprintf("d%d", i), OnDelete: sharedvolume.Delete})
			var p *sharedvolume.Problem
			switch {
			case !errors.As(err, &p):
				t.Errorf("%v", err)
			case p.Reason == sharedvolume.ReasonTooManyCalls:
				busy.Add(1)
			case p.Reason == sharedvolume.ReasonUnreachable:
				gone.Add(1)
			default:
				t.Errorf("%v", err)
			}
		})
	}
	wait.Wait()
	if busy.Load() != 3 || gone.Load() != 3 {
		t.Errorf("%d busy, %d gone", busy.Load(), gone.Load())
	}
	w.release()
	back(t, func() error {
		if n := w.running.Load(); n > 0 {
			return fmt.Errorf("%d processes", n)
		}
		return nil
	})
	// Different ports are different mounts of the same share.
	for i := range 6 {
		s := shareOf("two")
		s.MountOptions = []string{fmt.Sprintf("port=%d", 2049+i)}
		seen, err := c.GetShare(t.Context(), s, true)
		must(t, err)
		if (seen.Problem != nil) != (i >= quick.Processes) {
			t.Errorf("mount %d: %+v", i, seen.Problem)
		}
	}
}

// TestClient_manyRemovals: removals take long. Beside as many as there may be a look finds out how the share is, and a volume is made.
func TestClient_manyRemovals(t *testing.T) {
	w := newWorld(t)
	limits := Limits{Calls: 4}
	c := w.client(limits)
	_, err := c.GetShare(t.Context(), shareOf("one"), true)
	must(t, err)
	w.stop("one")
	var removed sync.WaitGroup
	var refused atomic.Int64
	for i := range 4 {
		removed.Go(func() {
			_, err := c.RemoveDirectory(t.Context(), shareOf("one"), fmt.Sprintf("pvc-%d", i), "", sharedvolume.Delete)
			var p *sharedvolume.Problem
			if errors.As(err, &p) && p.Reason == sharedvolume.ReasonTooManyCalls {
				refused.Add(1)
			}
		})
	}
	back(t, func() error {
		if n := refused.Load(); n != 1 {
			return fmt.Errorf("%d removals were refused", n)
		}
		return nil
	})
	seen, made := make(chan error, 1), make(chan error, 1)
	go func() {
		s, err := c.GetShare(t.Context(), shareOf("one"), false)
		if err == nil && s.Problem != nil {
			err = s.Problem
		}
		seen <- err
	}()
	go func() {
		_, err := c.EnsureDirectory(t.Context(), shareOf("one"), sharedvolume.Wish{Name: "pvc-new", Directory: "new", OnDelete: sharedvolume.Delete})
		made <- err
	}()
	time.Sleep(20 * time.Millisecond) // Both are sent while the share does not answer.
	w.release()
	must(t, <-seen)
	must(t, <-made)
	removed.Wait()
}
