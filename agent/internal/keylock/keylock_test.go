package keylock

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

func lock(t *testing.T, l *Locks, keys ...string) func() {
	t.Helper()
	unlock, err := l.Lock(t.Context(), keys...)
	if err != nil {
		t.Fatal(err)
	}
	return unlock
}

func TestLocks(t *testing.T) {
	var l Locks
	first := lock(t, &l, "b", "a", "a")
	if _, ok := l.Try("c", "a"); ok {
		t.Error("a key was taken twice")
	}
	other, ok := l.Try("c")
	if !ok {
		t.Error("a key of its own is not free: the call before took one without the other")
	}
	other()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := l.Lock(ctx, "b", "c"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	first()
	second := lock(t, &l, "a", "b", "c")
	// Given back twice, it does not give back what another has.
	first()
	if _, ok := l.Try("a"); ok {
		t.Error("another's key was given back")
	}
	second()
	if len(l.held) > 0 {
		t.Errorf("%v are left", l.held)
	}
}

func TestLocks_manyCallers(t *testing.T) {
	var l Locks
	var wg sync.WaitGroup
	count := 0
	for i := range 50 {
		wg.Go(func() {
			keys := []string{"a", "b"}
			if i%2 > 0 {
				keys = []string{"b", "a"}
			}
			unlock, err := l.Lock(t.Context(), keys...)
			if err != nil {
				t.Error(err)
				return
			}
			defer unlock()
			count++
		})
	}
	wg.Wait()
	if count != 50 {
		t.Errorf("%d calls worked", count)
	}
}
