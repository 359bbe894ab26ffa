package flight_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"quarry.storage/quarry/agent/internal/node/flight"
)

// While a look is under way, whoever asks shares the next one: two looks serve all, never at once.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most, made atomic.Int64
		gate := make(chan struct{})
		f := flight.Shared[int64]{Observe: func(context.Context) (int64, error) {
			most.Store(max(most.Load(), running.Add(1)))
			<-gate
			running.Add(-1)
			return made.Add(1), nil
		}}
		var all sync.WaitGroup
		get := func(want int64) {
			all.Go(func() {
				if got, err := f.Get(t.Context()); err != nil || got != want {
					t.Errorf("look %d, not %d: %v", got, want, err)
				}
			})
		}
		get(1)
		synctest.Wait()
		if f.Awaited() {
			t.Error("somebody waits for the next look")
		}
		for range 20 {
			get(2)
		}
		synctest.Wait()
		if !f.Awaited() {
			t.Error("nobody waits for the next look")
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := f.Get(gone); !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that went away: %v", err)
		}
		close(gate)
		all.Wait()
		if most.Load() != 1 || made.Load() != 2 {
			t.Errorf("%d looks at once, %d made", most.Load(), made.Load())
		}
	})
}
