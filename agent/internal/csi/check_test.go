package csi_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"quarry.storage/quarry/agent/internal/csi/csitest"
)

// checked is a node with a volume whose check lasts until it is released, and calls that have little patience.
func checked(t *testing.T, end func() error) (c *client, handle string, begun *atomic.Int32) {
	t.Helper()
	host, id := csitest.NewHost(kubeletDir(t)), csitest.ID("pvc-1")
	host.Add(id, gib)
	cfg := host.Config()
	cfg.CheckPatience = time.Millisecond
	c = startConfig(t, host, cfg)
	must(t, c.stage(t, id.String(), filesystem("ext4")))
	must(t, c.unstage(t, id.String()))
	begun = &atomic.Int32{}
	host.Checking = func(tell func(string)) error {
		begun.Add(1)
		tell("pass 2 of 5, 40 %")
		return end()
	}
	return c, id.String(), begun
}

// staged repeats a call until something else than that the check goes on is told.
func (c *client) staged(t *testing.T, handle string) error {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		err := c.stage(t, handle, filesystem("ext4"))
		if err == nil || !strings.Contains(err.Error(), "is being checked") {
			return err
		}
		c.wantMounts(t)
	}
	t.Fatal("the check does not end")
	return nil
}

// TestNode_longCheck outlives its calls, tells how far it is, and runs once.
func TestNode_longCheck(t *testing.T) {
	release := make(chan struct{})
	c, handle, begun := checked(t, func() error { <-release; return nil })
	for range 3 {
		err := c.stage(t, handle, filesystem("ext4"))
		wantCode(t, err, codes.Aborted)
		if begun.Load() == 1 && !strings.Contains(err.Error(), "is being checked") {
			t.Errorf("%v", err)
		}
		c.wantMounts(t)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if err := c.stage(t, handle, filesystem("ext4")); strings.Contains(err.Error(), "pass 2 of 5, 40 %") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("nobody tells how far the check is")
		}
	}
	// The volume may be given up meanwhile.
	must(t, c.unstage(t, handle))
	close(release)
	must(t, c.staged(t, handle))
	if begun.Load() != 1 {
		t.Errorf("%d checks", begun.Load())
	}
	c.wantMounts(t, "staging/globalmount")
}

// TestNode_longCheckThatFails is told to the next call, and begun anew by the one after it.
func TestNode_longCheckThatFails(t *testing.T) {
	fails := errors.New("damaged")
	c, handle, begun := checked(t, func() error { time.Sleep(20 * time.Millisecond); return fails })
	wantCode(t, c.staged(t, handle), codes.Internal)
	wantCode(t, c.staged(t, handle), codes.Internal)
	if begun.Load() != 2 {
		t.Errorf("%d checks", begun.Load())
	}
	c.wantMounts(t)
}
