package sharedgroup

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"quarry.storage/quarry/pkg/sharedlun"
)

// TestGuard_killed: whatever step of a cut the agent is killed at, the next one ends it.
func TestGuard_killed(t *testing.T) {
	for steps := range 6 {
		c, l, a, _ := started(t)
		v := c.shown()
		l.Swap("other")
		a.KillDevice(steps)
		if says := a.Guard(t.Context(), c.ref); !strings.Contains(says, v.UUID) {
			t.Errorf("killed at step %d, it does not say which device is not cut: %q", steps, says)
		}
		a.Restart(t)
		if says := a.Guard(t.Context(), c.ref); says == "" || strings.Contains(says, v.UUID) {
			t.Errorf("after step %d: %q", steps, says)
		}
		if all := c.mappings(); len(all) != 1 || !all[0].Cut || all[0].Suspended || a.Write(v.UUID, 0) == nil {
			t.Errorf("after step %d: %+v", steps, all)
		}
	}
}

// TestUnmap_uncut: a device that is open and could not be made to return errors is not reported as one that is open and does.
func TestUnmap_uncut(t *testing.T) {
	for steps := range 6 {
		c, _, a, _ := started(t)
		v := c.shown()
		closing, err := a.Open(v.UUID)
		c.must(err)
		a.KillDevice(steps)
		err = a.Unmap(t.Context(), c.ref, v.UUID, c.group.Sequence, true)
		c.want(err, sharedlun.ErrUnknown, "did not end")
		err = a.Unmap(t.Context(), c.ref, v.UUID, c.group.Sequence, true)
		if c.want(err, sharedlun.ErrInUse, "open"); errors.Is(err, sharedlun.ErrUnknown) {
			t.Errorf("after step %d: %v", steps, err)
		}
		if all := c.mappings(); len(all) != 1 || !all[0].Cut || a.Write(v.UUID, 0) == nil {
			t.Errorf("after step %d: %+v", steps, all)
		}
		closing()
	}
}

// shown is mapped, for a group that is there.
func (c *check) shown() sharedlun.Volume {
	c.Helper()
	c.change(sharedlun.Change{Create: &sharedlun.Create{Name: "v", SizeBytes: 8 * mib}})
	c.change(sharedlun.Change{Hold: c.hold("v", "n1")})
	c.change(c.ready("v", 8*mib))
	_, err := c.A.Agent().Map(c.Context(), c.ref, c.cred(c.A), c.volume("v"), c.group.Sequence)
	c.must(err)
	return c.volume("v")
}

// TestGuard_unread: a LUN that does not answer is not another one, and does not stop to be another one.
func TestGuard_unread(t *testing.T) {
	c, l, a, _ := started(t)
	v := c.shown()
	a.Blind(true)
	if says := a.Guard(t.Context(), c.ref); says != "" || c.mappings()[0].Cut {
		t.Errorf("a LUN that does not answer: %q, %+v", says, c.mappings())
	}
	a.Blind(false)
	c.must(a.Write(v.UUID, 0))
	l.Swap("other")
	said := a.Guard(t.Context(), c.ref)
	a.Blind(true)
	if says := a.Guard(t.Context(), c.ref); says != said || said == "" {
		t.Errorf("another LUN that does not answer any more: %q, before %q", says, said)
	}
	a.Blind(false)
	l.Swap(c.Lun.Serial)
	if says := a.Guard(t.Context(), c.ref); says != "" {
		t.Errorf("the recorded LUN again: %q", says)
	}
	if _, err := a.Map(t.Context(), c.ref, c.cred(a), v, c.group.Sequence); err != nil || c.mappings()[0].Cut {
		t.Errorf("mapped anew: %v, %+v", err, c.mappings())
	}
	c.must(a.Write(v.UUID, 0))
}

// TestGuard_zeroing: zeroes are not written to another LUN either, and what was not zeroed is not said to be.
func TestGuard_zeroing(t *testing.T) {
	c, l, a, _ := started(t)
	c.change(sharedlun.Change{Create: &sharedlun.Create{Name: "v", SizeBytes: 8 * mib}})
	c.change(sharedlun.Change{Hold: c.hold("v", "n1")})
	v := c.volume("v")
	release := a.DelayZeroing()
	_, err := a.Zero(t.Context(), c.ref, c.cred(a), v, false)
	c.must(err)
	waitFor(t, func() bool {
		a.san.mu.Lock()
		defer a.san.mu.Unlock()
		return a.zeroing[v.UUID] != nil
	})
	l.Swap("other")
	if says := a.Guard(t.Context(), c.ref); says == "" {
		t.Error("it says nothing")
	}
	release()
	waitFor(t, func() bool {
		_, err = a.Zero(t.Context(), c.ref, c.cred(a), v, false)
		return err != nil
	})
	if !strings.Contains(err.Error(), "I/O error") {
		t.Error(err)
	}
}

// TestWatch: nobody has to ask. A controller may be away for long.
func TestWatch(t *testing.T) {
	c, l, a, _ := started(t)
	v := c.shown()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	done := make(chan struct{})
	go func() { a.Watch(ctx); close(done) }()
	l.Swap("other")
	waitFor(t, func() bool { return c.mappings()[0].Cut })
	if a.Write(v.UUID, 0) == nil {
		t.Error("another LUN takes a write")
	}
	cancel()
	<-done
}

// TestRecorded: a LUN is that of an Iscsi because the controller says so, and not because a device of it is looked at. It is not any more once its group was to be removed.
func TestRecorded(t *testing.T) {
	c, _, a, _ := started(t)
	if all := a.Recorded(); len(all) > 0 {
		t.Errorf("before anybody said so: %v", all)
	}
	a.Guard(t.Context(), c.ref)
	if all := a.Recorded(); !slices.Equal(all, []sharedlun.Identity{c.Lun}) {
		t.Errorf("%v", all)
	}
	a.Restart(t)
	if all := a.Recorded(); len(all) > 0 {
		t.Errorf("after a start of the agent: %v", all)
	}
	a.Guard(t.Context(), c.ref)
	c.must(a.Remove(t.Context(), c.ref, c.mandate(a)))
	if all := a.Recorded(); len(all) > 0 {
		t.Errorf("after its group was removed: %v", all)
	}
}

// TestGuard_meanwhile: another call works on the volume when its LUN is found to be another one. Once that call ends, the recorded LUN is back: nothing is cut.
func TestGuard_meanwhile(t *testing.T) {
	for _, back := range []bool{true, false} {
		c, l, a, _ := started(t)
		v := c.shown()
		release := a.DelayLooks()
		mapped := make(chan error, 1)
		go func() {
			_, err := a.Map(c.Context(), c.ref, c.cred(a), v, c.group.Sequence)
			mapped <- err
		}()
		waitFor(t, func() bool {
			a.mu.Lock()
			defer a.mu.Unlock()
			return a.looking > 0
		})
		l.Swap("other")
		if says := a.Guard(t.Context(), c.ref); !strings.Contains(says, "other") {
			t.Errorf("while a call works on the volume: %q", says)
		}
		if back {
			l.Swap(c.Lun.Serial)
		}
		release()
		if err := <-mapped; (err == nil) != back {
			t.Errorf("back: %t, mapped: %v", back, err)
		}
		// The look that waited for the call has ended when another one could begin.
		waitFor(t, func() bool { return (a.Guard(t.Context(), c.ref) == "") == back })
		if err := a.Write(v.UUID, 0); (err == nil) != back || c.mappings()[0].Cut == back {
			t.Errorf("back: %t, %v, %+v", back, err, c.mappings())
		}
	}
}
