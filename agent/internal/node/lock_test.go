package node

import (
	"context"
	"errors"
	"testing"

	"quarry.storage/quarry/agent/internal/plan"
)

func TestLocks(t *testing.T) {
	var l locks
	unlock, err := l.tryLock("group a", "device x", "group a")
	if err != nil {
		t.Fatal(err)
	}
	other, err := l.tryLock("group b", "device y")
	if err != nil {
		t.Fatalf("another group and device: %v", err)
	}
	if _, err := l.tryLock("device z", "device x"); !errors.Is(err, plan.ErrBusy) {
		t.Errorf("a device that is taken: %v", err)
	}
	if free, err := l.tryLock("device z"); err != nil {
		t.Errorf("a refused call kept a lock: %v", err)
	} else {
		free()
	}
	unlock()
	other()
	if again, err := l.tryLock("group a", "device x"); err != nil {
		t.Errorf("after unlock: %v", err)
	} else {
		again()
	}
}

func TestLocks_volumesOfAGroupTakeTurns(t *testing.T) {
	e, _, _ := lvmEngine(t, nil)
	first, err := e.lockVolume(t.Context(), "vg", "a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.lockVolume(t.Context(), "vg", "a"); !errors.Is(err, plan.ErrBusy) {
		t.Errorf("a second call on the volume: %v", err)
	}
	if _, err := e.locks.tryLock("group vg"); !errors.Is(err, plan.ErrBusy) {
		t.Errorf("a call on the group: %v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.lockVolume(gone, "vg", "b"); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that went away: %v", err)
	}
	turn := make(chan error)
	go func() {
		unlock, err := e.lockVolume(t.Context(), "vg", "b")
		if err == nil {
			unlock()
		}
		turn <- err
	}()
	first()
	if err := <-turn; err != nil {
		t.Errorf("the next in turn: %v", err)
	}
	if len(e.locks.held) != 0 {
		t.Errorf("still held: %v", e.locks.held)
	}
}
