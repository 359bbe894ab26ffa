package sharedgroup

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"quarry.storage/quarry/pkg/sharedlun"
)

// started is a model with a group that A made.
func started(t *testing.T) (*check, *LUN, *Node, *Node) {
	l, a, b := model(t)
	c := &check{T: t, Site: Site{A: a, B: b, Lun: l.Identity()}, ref: sharedlun.Ref{Lun: l.Identity(), OwnerUID: contractOwner}, epoch: 1}
	c.create()
	return c, l, a, b
}

// TestLostUpdate is what the protocol is for: a write of the earlier writer is late, and nobody fenced it.
func TestLostUpdate(t *testing.T) {
	for name, fenced := range map[string]bool{"without a fence, the update is lost": false, "with one, it is not": true} {
		t.Run(name, func(t *testing.T) {
			c, l, a, b := started(t)
			late := a.Delay()
			answer := make(chan error, 1)
			before := c.group
			go func() {
				_, err := a.Change(c.Context(), c.ref, c.mandate(a), before.Sequence, sharedlun.Change{Create: &sharedlun.Create{Name: "from-a", SizeBytes: 8 * mib}})
				answer <- err
			}()
			waitFor(t, func() bool { return busy(a, c.ref) })
			if fenced {
				l.Preempt(a.Key())
			}
			c.epoch = 2
			c.must(c.try(b, sharedlun.Change{TakeOver: true}))
			c.must(c.try(b, sharedlun.Change{Create: &sharedlun.Create{Name: "from-b", SizeBytes: 8 * mib}}))
			late()
			err := <-answer
			g := l.Group()
			switch {
			case fenced && (!errors.Is(err, sharedlun.ErrUnknown) || g.Volume("from-b") == nil || g.Epoch != 2):
				t.Errorf("the late write: %v, the group %+v", err, g)
			case !fenced && (g.Volume("from-b") != nil || g.Epoch != 1):
				t.Errorf("the model lost no update: %+v", g)
			}
		})
	}
}

// busy reports whether a call works on the LUN.
func busy(n *Node, ref sharedlun.Ref) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err := n.Get(ctx, ref)
	return errors.Is(err, sharedlun.ErrBusy)
}

func waitFor(t *testing.T, is func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it never happens")
		}
	}
}

// yielded is the error of a call to yield.
func promised(_ uint64, err error) error { return err }

// TestPromise_waits: a node gives its word only when its change has ended, and the change that comes next is refused.
func TestPromise_waits(t *testing.T) {
	c, _, a, _ := started(t)
	late := a.Delay()
	create := func(name string) error {
		_, err := a.Change(c.Context(), c.ref, c.mandate(a), c.group.Sequence, sharedlun.Change{Create: &sharedlun.Create{Name: name, SizeBytes: mib}})
		return err
	}
	first, word := make(chan error, 1), make(chan error, 1)
	go func() { first <- create("first") }()
	waitFor(t, func() bool { return busy(a, c.ref) })
	go func() { word <- promised(a.Promise(c.Context(), c.ref, 2)) }()
	select {
	case err := <-word:
		t.Fatalf("it gave its word while a change ran: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	late()
	c.must(errors.Join(<-first, <-word))
	c.want(create("second"), sharedlun.ErrOldEpoch, "promised")
}

// TestPromise_earlierCommand: an agent was killed while LVM wrote. The next one gives its word, and changes the group, once that command is gone.
func TestPromise_earlierCommand(t *testing.T) {
	c, l, a, b := started(t)
	late := a.Delay()
	before := c.group
	go func() {
		_, _ = a.Service.Change(context.WithoutCancel(c.Context()), c.ref, c.mandate(a), before.Sequence,
			sharedlun.Change{Create: &sharedlun.Create{Name: "late", SizeBytes: mib}})
	}()
	waitFor(t, func() bool { return busy(a, c.ref) })
	a.Crash(t)
	short, cancel := context.WithTimeout(c.Context(), 30*time.Millisecond)
	defer cancel()
	c.want(promised(a.Promise(short, c.ref, 2)), sharedlun.ErrBusy, "agent of before")
	w := c.mandate(a)
	w.Timeout = 30 * time.Millisecond
	_, err := a.Change(c.Context(), c.ref, w, before.Sequence, sharedlun.Change{Create: &sharedlun.Create{Name: "early", SizeBytes: mib}})
	c.want(err, sharedlun.ErrBusy, "agent of before")
	late()
	c.must(promised(a.Promise(c.Context(), c.ref, 2)))
	seen, err := b.Get(c.Context(), c.ref)
	c.must(err)
	c.group, c.epoch = *seen.Group, 2
	c.must(c.try(b, sharedlun.Change{TakeOver: true}))
	if g := l.Group(); g.Volume("late") == nil || g.Epoch != 2 || l.Damage() != "" {
		t.Errorf("%+v", g)
	}
}

// TestKilled: whatever command is killed, before its write or after it, the next call sees what was done, and ends it.
func TestKilled(t *testing.T) {
	for _, after := range []bool{false, true} {
		c, l, a, _ := started(t)
		again := func(change sharedlun.Change) {
			t.Helper()
			a.Kill(after)
			c.want(c.try(a, change), sharedlun.ErrUnknown, "killed")
			seen, err := a.Get(c.Context(), c.ref)
			c.must(err)
			if moved := seen.Group.Sequence > c.group.Sequence; moved != after {
				t.Errorf("after a kill the group is at %d, before at %d", seen.Group.Sequence, c.group.Sequence)
			}
			c.group = *seen.Group
			c.must(c.try(a, change))
			if d := l.Damage(); d != "" {
				t.Error(d)
			}
		}
		again(sharedlun.Change{Create: &sharedlun.Create{Name: "v", SizeBytes: 8 * mib}})
		again(c.grow("v", 16*mib))
		again(sharedlun.Change{Hold: c.hold("v", "n1")})
		again(c.ready("v", 16*mib))
		again(sharedlun.Change{Leave: c.hold("v", "n1")})
		again(c.release("v"))
		again(sharedlun.Change{Remove: &sharedlun.Remove{Name: "v", UUID: c.volume("v").UUID}})
		c.epoch = 2
		again(sharedlun.Change{TakeOver: true})
		for range 2 {
			a.Kill(after)
			c.want(a.Remove(c.Context(), c.ref, c.mandate(a)), sharedlun.ErrUnknown, "killed")
		}
		c.must(a.Remove(c.Context(), c.ref, c.mandate(a)))
		c.ref.UUID = ""
		for range 2 {
			a.Kill(after)
			_, err := a.Create(c.Context(), c.ref, contractGroup, c.mandate(a), "")
			c.want(err, sharedlun.ErrUnknown, "killed")
		}
		c.create()
	}
}

// TestKilled_devices: a device that was left between two steps is what it is to be after the next call.
func TestKilled_devices(t *testing.T) {
	for steps := range 6 {
		c, _, a, _ := started(t)
		c.change(sharedlun.Change{Create: &sharedlun.Create{Name: "v", SizeBytes: 8 * mib}})
		c.change(sharedlun.Change{Hold: c.hold("v", "n1")})
		for _, size := range []int64{8 * mib, 16 * mib} {
			c.change(c.grow("v", size))
			c.change(c.ready("v", size))
			a.KillDevice(steps)
			_, err := a.Map(c.Context(), c.ref, c.cred(c.A), c.volume("v"), c.group.Sequence)
			c.want(err, sharedlun.ErrUnknown, "killed")
			m, err := a.Map(c.Context(), c.ref, c.cred(c.A), c.volume("v"), c.group.Sequence)
			c.must(err)
			if len(m.Ranges) != 1 || m.Ranges[0].Size != size || m.Device == "" {
				t.Errorf("after %d steps: %+v", steps, m)
			}
		}
		c.must(a.Unmap(c.Context(), c.ref, c.volume("v").UUID, c.group.Sequence, false))
	}
}

// zeroes begins to zero a volume of 64 MiB, of which 8 are ready and mapped, and holds that back.
func zeroes(t *testing.T) (c *check, a *Node, l *LUN, v sharedlun.Volume, release func()) {
	c, l, a, _ = started(t)
	c.change(sharedlun.Change{Create: &sharedlun.Create{Name: "v", SizeBytes: 64 * mib}})
	c.change(sharedlun.Change{Hold: c.hold("v", "n1")})
	c.change(c.ready("v", 8*mib))
	v = c.volume("v")
	_, err := a.Map(c.Context(), c.ref, c.cred(a), v, c.group.Sequence)
	c.must(err)
	release = a.DelayZeroing()
	t.Cleanup(release)
	p, err := a.Zero(c.Context(), c.ref, c.cred(a), v, false)
	c.must(err)
	if p.Done || p.Total != 56*mib {
		t.Errorf("%+v", p)
	}
	waitFor(t, func() bool {
		a.san.mu.Lock()
		defer a.san.mu.Unlock()
		return a.zeroing[v.UUID] != nil
	})
	return c, a, l, v, release
}

// TestZero_alone: what is being zeroed is seen by nobody: not by who has the rest open, and not when somebody says too early that it is ready. An order to
// unmap the volume ends the zeroing.
func TestZero_alone(t *testing.T) {
	c, a, _, v, _ := zeroes(t)
	closing, err := a.Open(v.UUID)
	c.must(err)
	_, err = a.Map(c.Context(), c.ref, c.cred(a), v, c.group.Sequence)
	c.must(err)
	closing()
	c.change(c.ready("v", 16*mib))
	_, err = a.Map(c.Context(), c.ref, c.cred(a), c.volume("v"), c.group.Sequence)
	c.want(err, sharedlun.ErrInUse, "being zeroed")
	if all := c.mappings(); len(all) != 2 || all[0].Part != sharedlun.PartShown || all[0].Ranges[0].Size != 8*mib || all[1].Part != sharedlun.PartNew || !all[1].InUse {
		t.Errorf("%+v", all)
	}
	c.must(a.Unmap(c.Context(), c.ref, v.UUID, c.group.Sequence, false))
	if len(c.mappings()) > 0 {
		t.Error("still mapped")
	}
	_, err = a.Zero(c.Context(), c.ref, c.cred(a), v, false)
	c.want(err, sharedlun.ErrMoved, "")
}

// TestZero_beside: a volume is attached while its node zeroes what it grew by.
func TestZero_beside(t *testing.T) {
	c, a, _, v, _ := zeroes(t)
	c.must(a.Unmap(c.Context(), c.ref, v.UUID, c.group.Sequence, false))
	release := a.DelayZeroing()
	t.Cleanup(release)
	c.leave("v")
	c.change(c.release("v"))
	c.change(sharedlun.Change{Hold: c.hold("v", "n1")})
	v = c.volume("v")
	_, err := a.Zero(c.Context(), c.ref, c.cred(a), v, false)
	c.must(err)
	waitFor(t, func() bool {
		a.san.mu.Lock()
		defer a.san.mu.Unlock()
		return a.zeroing[v.UUID] != nil
	})
	_, err = a.Map(c.Context(), c.ref, c.cred(a), v, c.group.Sequence)
	c.must(err)
}

// TestZero_mapped: a device that has what is ready, and nothing more, is not loaded again over what is being zeroed: the same table is refused, too.
func TestZero_mapped(t *testing.T) {
	c, a, _, v, _ := zeroes(t)
	c.must(a.Unmap(c.Context(), c.ref, v.UUID, c.group.Sequence, false))
	c.change(c.ready("v", 64*mib))
	_, err := a.Map(c.Context(), c.ref, c.cred(a), c.volume("v"), c.group.Sequence)
	c.must(err)
	// A late request to zero what was new once finds that it is ready.
	_, err = a.Zero(c.Context(), c.ref, c.cred(a), v, false)
	c.want(err, sharedlun.ErrMoved, "")
}

// TestZero_fails: an error is told once, and the next call begins anew.
func TestZero_fails(t *testing.T) {
	c, a, l, v, release := zeroes(t)
	l.Preempt(a.Key())
	release()
	waitFor(t, func() bool {
		p, err := a.Zero(c.Context(), c.ref, c.cred(a), v, false)
		if p.Done {
			t.Fatal("a fenced node zeroed a volume")
		}
		return errors.Is(err, sharedlun.ErrUnknown)
	})
	_, err := a.Zero(c.Context(), c.ref, c.cred(a), v, false)
	c.want(err, sharedlun.ErrNoKey, "")
	l.Reserve(a.Key())
	c.zeroed(v, false)
}

// TestMap_renumbered: the number of the LUN's device became another device's after it was looked up. The table that was loaded with it is dropped.
func TestMap_renumbered(t *testing.T) {
	c, _, a, _ := started(t)
	c.change(sharedlun.Change{Create: &sharedlun.Create{Name: "v", SizeBytes: 8 * mib}})
	c.change(sharedlun.Change{Hold: c.hold("v", "n1")})
	c.change(c.ready("v", 8*mib))
	v := c.volume("v")
	a.Renumber(1)
	_, err := a.Map(c.Context(), c.ref, c.cred(a), v, c.group.Sequence)
	c.want(err, sharedlun.ErrMoved, "by now")
	if all := c.mappings(); len(all) > 0 {
		t.Errorf("mapped on another device: %+v", all)
	}
	_, err = a.Map(c.Context(), c.ref, c.cred(a), v, c.group.Sequence)
	c.must(err)
	closing, err := a.Open(v.UUID)
	c.must(err)
	c.change(c.grow("v", 16*mib))
	c.change(c.ready("v", 16*mib))
	a.Renumber(1)
	_, err = a.Map(c.Context(), c.ref, c.cred(a), c.volume("v"), c.group.Sequence)
	c.want(err, sharedlun.ErrMoved, "by now")
	if all := c.mappings(); len(all) != 1 || all[0].Ranges[0].Size != 8*mib {
		t.Errorf("grown onto another device: %+v", all)
	}
	closing()
}

// TestBlind: a node that sees the LUN no more keeps its promises, and gives its devices up.
func TestBlind(t *testing.T) {
	c, _, a, b := started(t)
	c.change(sharedlun.Change{Create: &sharedlun.Create{Name: "v", SizeBytes: 8 * mib}})
	c.change(sharedlun.Change{Hold: c.hold("v", "n1")})
	c.change(c.ready("v", 8*mib))
	v := c.volume("v")
	_, err := a.Map(c.Context(), c.ref, c.cred(c.A), v, c.group.Sequence)
	c.must(err)
	a.Blind(true)
	_, err = a.Get(c.Context(), c.ref)
	c.want(err, sharedlun.ErrNotFound, "")
	c.want(c.try(a, sharedlun.Change{TakeOver: true}), sharedlun.ErrNotFound, "")
	_, err = a.Map(c.Context(), c.ref, c.cred(c.A), v, c.group.Sequence)
	c.want(err, sharedlun.ErrNotFound, "")
	c.must(promised(a.Promise(c.Context(), c.ref, 2)))
	c.must(a.Unmap(c.Context(), c.ref, v.UUID, c.group.Sequence, false))
	a.Blind(false)
	c.want(c.try(a, c.grow("v", 16*mib)), sharedlun.ErrOldEpoch, "promised")
	c.epoch = 2
	c.must(c.try(b, sharedlun.Change{TakeOver: true}))
	a.Boot(t, 0xc)
	if all := c.mappings(); len(all) > 0 {
		t.Errorf("after a boot: %+v", all)
	}
}

// TestManyCallers: calls on one LUN take turns, and of those that were decided on one number, one is taken.
func TestManyCallers(t *testing.T) {
	c, l, a, _ := started(t)
	var wg sync.WaitGroup
	errs := make(chan error, 16)
	for i := range 16 {
		wg.Go(func() {
			name := "v" + string(rune('a'+i))
			_, err := a.Change(c.Context(), c.ref, c.mandate(a), c.group.Sequence, sharedlun.Change{Create: &sharedlun.Create{Name: name, SizeBytes: mib}})
			errs <- err
		})
	}
	wg.Wait()
	close(errs)
	taken := 0
	for err := range errs {
		if err == nil {
			taken++
		} else if !errors.Is(err, sharedlun.ErrMoved) {
			t.Error(err)
		}
	}
	if g := l.Group(); taken != 1 || len(g.Volumes) != 1 || l.Damage() != "" {
		t.Errorf("%d were taken: %+v", taken, g)
	}
}
