package sharedgroup

import (
	"slices"
	"testing"
	"time"

	"quarry.storage/quarry/pkg/sharedlun"
)

// copying is a model with a volume of three extents, and a copy of it that A holds.
func copying(t *testing.T) (*check, *LUN, *Node, *Node, sharedlun.Volume) {
	l, a, b := model(t)
	c := &check{T: t, Site: Site{A: a, B: b, Lun: l.Identity()}, ref: sharedlun.Ref{Lun: l.Identity(), OwnerUID: contractOwner}, epoch: 1}
	c.original()
	return c, l, a, b, c.copyOf("copy", "v", 12*mib, false)
}

// TestCopy_fenced: a node that dies while it copies is fenced as one that has the volume active. Another one goes on where the LUN says that the copy was, and
// nothing that the first one writes later reaches it.
func TestCopy_fenced(t *testing.T) {
	c, l, a, b, w := copying(t)
	open := a.DelayZeroing()
	_, err := a.Copy(c.Context(), c.ref, c.cred(a), w, false, rate)
	c.must(err)
	waitFor(t, func() bool { return a.Copies(w.UUID) })
	c.change(c.copied("copy", 4*mib))
	l.Preempt(a.Key())
	hold := *c.hold("copy", "n1")
	c.must(c.tryNext(b, sharedlun.Change{TakeOver: true}))
	c.must(c.tryNext(b, sharedlun.Change{Leave: &hold}))
	c.must(c.tryNext(b, sharedlun.Change{Release: &sharedlun.Release{Hold: hold, FencedBootID: a.BootID()}}))
	c.want(c.try(b, sharedlun.Change{Hold: c.hold("v", "n2")}), sharedlun.ErrHeld, "copied to copy")
	c.must(c.tryNext(b, sharedlun.Change{Hold: c.hold("copy", "n2")}))
	if began := c.copyWhole(b, c.volume("copy")); began < 4*mib {
		t.Errorf("it began at byte %d", began)
	}
	before := l.Content("copy")
	open()
	waitFor(t, func() bool { return !a.Copies(w.UUID) })
	_, err = a.Copy(c.Context(), c.ref, c.cred(a), w, false, rate)
	if err == nil {
		t.Error("a fenced node copied all of it")
	}
	if got := l.Content("copy"); !slices.Equal(got, before) || !slices.Equal(got[1:], l.Content("v")[1:]) {
		t.Errorf("the copy has %v, its origin %v, and it had %v", got, l.Content("v"), before)
	}
}

// tryNext makes a change in the epoch after the first one.
func (c *check) tryNext(m Member, change sharedlun.Change) error {
	c.epoch = 2
	return c.try(m, change)
}

// TestCopy_unmapped: an order to unmap returns once nothing writes to the copy any more.
func TestCopy_unmapped(t *testing.T) {
	c, l, a, _, w := copying(t)
	open := a.DelayZeroing()
	defer open()
	_, err := a.Copy(c.Context(), c.ref, c.cred(a), w, false, rate)
	c.must(err)
	waitFor(t, func() bool { return a.Copies(w.UUID) })
	c.leave("copy")
	c.must(a.Unmap(c.Context(), c.ref, w.UUID, c.group.Sequence, false))
	if a.Copies(w.UUID) {
		t.Error("it is copied still")
	}
	open()
	time.Sleep(5 * time.Millisecond)
	if got := l.Content("copy"); !slices.Equal(got, []int{0, 0, 0}) {
		t.Errorf("the copy has %v", got)
	}
	_, err = a.Copy(c.Context(), c.ref, c.cred(a), w, false, rate)
	c.want(err, sharedlun.ErrHeld, "being taken")
}

// TestCopy_several: two nodes copy one origin, which is free once both are whole.
func TestCopy_several(t *testing.T) {
	c, l, a, b, w := copying(t)
	c.change(c.copying("second", "v", 16*mib, true))
	c.change(sharedlun.Change{Hold: c.hold("second", "n2")})
	second := c.volume("second")
	a.KillCopy(1)
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, err := a.Copy(c.Context(), c.ref, c.cred(a), w, false, rate); err != nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("it does not fail")
		}
	}
	c.copyWhole(a, w)
	c.copyWhole(b, second)
	c.whole("copy")
	c.want(c.try(a, sharedlun.Change{Hold: c.hold("v", "n1")}), sharedlun.ErrHeld, "copied to second")
	for _, change := range []sharedlun.Change{
		c.copied("second", 16*mib),
		{Leave: c.hold("second", "n2")},
		{Release: &sharedlun.Release{Hold: *c.hold("second", "n2")}},
		c.ready("second", 16*mib),
		{Hold: c.hold("v", "n1")},
	} {
		c.change(change)
	}
	v := l.Content("v")
	if got := l.Content("copy"); !slices.Equal(got, v) || slices.Equal(got, []int{0, 0, 0}) {
		t.Errorf("the copy has %v, its origin %v", got, v)
	}
	if got := l.Content("second"); !slices.Equal(got, append(v, 0)) {
		t.Errorf("the larger copy has %v, its origin %v", got, v)
	}
}
