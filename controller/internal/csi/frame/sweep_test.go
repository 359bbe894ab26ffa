package frame

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"quarry.storage/quarry/pkg/csirpc"
)

// sweeper says what is in the way of each sweep, one after the other, and cancels then.
type sweeper struct {
	errs   []error
	cancel context.CancelFunc
}

func (s *sweeper) Sweep(context.Context) ([]string, error) {
	err := s.errs[0]
	if s.errs = s.errs[1:]; len(s.errs) == 0 {
		s.cancel()
	}
	return nil, err
}

// TestSweep_logsOnce: what stays in the way is told once, and again after it was not.
func TestSweep_logsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		told := 0
		s := &Server{pause: sweepPause, calls: csirpc.Calls{Log: funcr.New(func(string, string) { told++ }, funcr.Options{})}}
		a, b := errors.New("a"), errors.New("b")
		s.sweep(ctx, &sweeper{errs: []error{a, a, a, b, b, nil, b, nil}, cancel: cancel})
		if told != 3 {
			t.Errorf("told %d times, not 3", told)
		}
	})
}

// broom is a Backend that tells of every sweep.
type broom struct {
	Backend
	swept chan struct{}
}

func (b broom) Sweep(ctx context.Context) ([]string, error) {
	select {
	case <-ctx.Done():
	case b.swept <- struct{}{}:
	}
	return nil, nil
}

// TestStart_sweeps: a Server lets its backend sweep while it serves, and only once the backend knows enough.
func TestStart_sweeps(t *testing.T) {
	var ready atomic.Bool
	asked, b := make(chan struct{}, 1000), broom{swept: make(chan struct{})}
	s := New(Config{Socket: filepath.Join(t.TempDir(), "s"), Log: logr.Discard(), Ready: func() bool {
		select {
		case asked <- struct{}{}:
		default:
		}
		return ready.Load()
	}}, Driver{Name: "d"}, b)
	if s.pause != sweepPause {
		t.Errorf("sweeps every %v", s.pause)
	}
	s.pause = time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Start(ctx) }()
	for range 3 {
		select {
		case <-asked:
		case <-b.swept:
			t.Fatal("swept before the backend was ready")
		case err := <-done:
			t.Fatalf("ended: %v", err)
		}
	}
	ready.Store(true)
	select {
	case <-b.swept:
	case err := <-done:
		t.Errorf("ended: %v", err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
