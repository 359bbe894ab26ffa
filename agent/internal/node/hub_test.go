package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"quarry.storage/quarry/agent/internal/plan"
)

// stubObserver shows n devices.
type stubObserver struct {
	devices  atomic.Int64
	observed atomic.Int64
	events   chan struct{}
	watchErr error

	mu  sync.Mutex
	err error
	// mute is why LVM reports nothing.
	mute string
}

func (o *stubObserver) Observe(context.Context) (plan.Snapshot, error) {
	o.observed.Add(1)
	o.mu.Lock()
	defer o.mu.Unlock()
	var s plan.Snapshot
	for i := range o.devices.Load() {
		s.Devices = append(s.Devices, plan.Device{Path: fmt.Sprintf("/dev/sd%d", i)})
	}
	if o.mute != "" {
		s.UnknownGroups = []plan.UnknownGroup{{Reason: o.mute}}
	}
	return s, o.err
}

func (o *stubObserver) Watch(context.Context) (<-chan struct{}, error) { return o.events, o.watchErr }

func (o *stubObserver) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err = err
}

// startHub runs a hub until the test ends.
func startHub(t *testing.T, o *stubObserver) *hub {
	t.Helper()
	h := newHub(o)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, errWatchEnded) {
			t.Errorf("run: %v", err)
		}
	})
	return h
}

func newStub() *stubObserver { return &stubObserver{events: make(chan struct{})} }

func TestHub_showsOnlyChanges(t *testing.T) {
	o := newStub()
	h := startHub(t, o)
	first, err := h.next(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	o.events <- struct{}{}
	for o.observed.Load() < 2 {
		time.Sleep(time.Millisecond)
	}
	o.devices.Store(1)
	o.events <- struct{}{}
	second, err := h.next(t.Context(), first.Number)
	if err != nil || second.Number != first.Number+1 || len(second.Snapshot.Devices) != 1 {
		t.Errorf("second view %+v, %v", second, err)
	}
}

func TestHub_stormCannotStarve(t *testing.T) {
	o := newStub()
	h := startHub(t, o)
	first, err := h.next(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	o.devices.Store(1)
	stop := make(chan struct{})
	var storm sync.WaitGroup
	storm.Go(func() {
		for {
			select {
			case <-stop:
				return
			case o.events <- struct{}{}:
				time.Sleep(quietTime / 10)
			}
		}
	})
	begin := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err = h.next(ctx, first.Number)
	close(stop)
	storm.Wait()
	if err != nil {
		t.Fatalf("no view during a storm: %v", err)
	}
	t.Logf("Saw the change after %s.", time.Since(begin))
}

func TestHub_leavesChangesAlone(t *testing.T) {
	o := newStub()
	h := newHub(o)
	settled := func() chan struct{} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			h.settle(t.Context(), o.events)
		}()
		return done
	}
	end := h.underway.begin()
	done := settled()
	o.events <- struct{}{}
	select {
	case <-done:
		t.Error("settled while a change was under way")
	case <-time.After(3 * quietTime):
	}
	end()
	<-done
	// One that takes long is not waited for.
	defer h.underway.begin()()
	<-settled()
}

func TestHub_observedSince(t *testing.T) {
	o := newStub()
	h := newHub(o)
	before := time.Now()
	if h.observedSince(before) {
		t.Error("observed before the first observation")
	}
	if _, err := h.observe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !h.observedSince(before) || h.observedSince(time.Now()) {
		t.Error("an observation is newer than what came before it, and not than what comes after")
	}
	o.fail(errors.New("no sysfs"))
	before = time.Now()
	if _, err := h.observe(t.Context()); err == nil || h.observedSince(before) {
		t.Errorf("one that failed counts: %v", err)
	}
}

func TestHub_errorEndsWatchesOnce(t *testing.T) {
	o := newStub()
	h := startHub(t, o)
	first, err := h.next(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("no sysfs")
	o.fail(broken)
	h.poke()
	if _, err := h.next(t.Context(), first.Number); !errors.Is(err, broken) {
		t.Fatalf("error %v", err)
	}
	o.fail(nil)
	if v, err := h.next(t.Context(), h.start()); err != nil || v.Number != first.Number+2 {
		t.Errorf("a new watcher: %+v, %v", v, err)
	}
}

func TestHub_stops(t *testing.T) {
	o := newStub()
	h := newHub(o)
	close(o.events)
	if err := h.run(t.Context()); !errors.Is(err, errWatchEnded) {
		t.Errorf("a watch that ends: %v", err)
	}
	if err := h.follow(t.Context(), func(View) error { return nil }); !errors.Is(err, ErrStopping) {
		t.Errorf("a watcher after the stop: %v", err)
	}
	o.watchErr = errors.New("no netlink")
	if err := newHub(o).run(t.Context()); !errors.Is(err, o.watchErr) {
		t.Errorf("a watch that cannot start: %v", err)
	}
}

// TestHub_looksAgainWhileLVMCannotReport: no event tells that it can.
func TestHub_looksAgainWhileLVMCannotReport(t *testing.T) {
	o := newStub()
	o.mute = "exit status 5"
	h := newHub(o)
	h.blindPeriod = time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	}()
	blind, err := h.next(ctx, 0)
	if err != nil || len(blind.Snapshot.UnknownGroups) == 0 {
		t.Fatalf("%+v, %v", blind, err)
	}
	o.mu.Lock()
	o.mute = ""
	o.mu.Unlock()
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	if seen, err := h.next(ctx, blind.Number); err != nil || len(seen.Snapshot.UnknownGroups) > 0 {
		t.Errorf("%+v, %v", seen, err)
	}
}
