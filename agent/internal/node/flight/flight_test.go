package flight_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"quarry.storage/quarry/agent/internal/node/flight"
)

func TestShared(t *testing.T) {
	var running, most, made atomic.Int64
	gate := make(chan struct{})
	f := flight.Shared[int]{Observe: func(context.Context) (int, error) {
		most.Store(max(most.Load(), running.Add(1)))
		<-gate
		made.Add(1)
		running.Add(-1)
		return 0, nil
	}}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := f.Get(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Get(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that went away: %v", err)
	}
	close(gate)
	all.Wait()
	if most.Load() != 1 || made.Load() > 21 {
		t.Errorf("%d observations at once, %d made", most.Load(), made.Load())
	}
	if _, err := f.Get(t.Context()); err != nil {
		t.Error(err)
	}
}
