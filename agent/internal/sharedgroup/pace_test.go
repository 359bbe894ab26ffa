package sharedgroup

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestPacer: two copies that share a group share its rate, a later limit counts for both, and a pause gives no burst.
func TestPacer(t *testing.T) {
	p := &pacer{}
	p.limit(100)
	now := time.Unix(1000, 0)
	for i, c := range []struct {
		after time.Duration
		bytes int64
		want  time.Duration
	}{
		{0, 50, 0},
		{0, 50, 500 * time.Millisecond},
		{500 * time.Millisecond, 100, 500 * time.Millisecond},
		// A minute later: the time in which nothing was copied is not made up for.
		{time.Minute, 100, 0},
		{0, 100, time.Second},
	} {
		now = now.Add(c.after)
		if got := p.reserve(now, c.bytes); got != c.want {
			t.Errorf("%d: waits %s, want %s", i, got, c.want)
		}
	}
	p.limit(200)
	now = now.Add(2 * time.Second)
	if first, second := p.reserve(now, 100), p.reserve(now, 100); first != 0 || second != 500*time.Millisecond {
		t.Errorf("with twice the rate: %s, %s", first, second)
	}
	p.free = time.Now().Add(time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.wait(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("called off: %v", err)
	}
}
