package sharedgroup

import (
	"time"

	"quarry.storage/quarry/pkg/sharedlun"
)

// zeroed calls until a volume is zeroed.
func (c *check) zeroed(v sharedlun.Volume, discard bool) {
	c.Helper()
	c.idle()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		p, err := c.A.Agent().Zero(c.Context(), c.ref, c.cred(c.A), v, discard)
		c.must(err)
		if p.Total != v.SizeBytes-v.ReadyBytes || p.DoneBytes < 0 || p.DoneBytes > p.Total || p.Done != (p.DoneBytes == p.Total) && p.Done {
			c.Fatalf("progress: %+v", p)
		}
		if p.Done {
			return
		}
		if time.Now().After(end) {
			c.Fatalf("it is never done: %+v", p)
		}
	}
}

// soil leaves something where the next volume comes to lie.
func (c *check) soil() {
	c.Helper()
	c.change(sharedlun.Change{Create: &sharedlun.Create{Name: "w", SizeBytes: 8 * mib}})
	c.change(sharedlun.Change{Hold: c.hold("w", "n1")})
	c.change(c.ready("w", 8*mib))
	w := c.volume("w")
	_, err := c.A.Agent().Map(c.Context(), c.ref, c.cred(c.A), w, c.group.Sequence)
	c.must(err)
	c.must(c.A.Write(w.UUID, 0))
	c.must(c.A.Write(w.UUID, 4*mib))
	c.must(c.A.Agent().Unmap(c.Context(), c.ref, w.UUID, c.group.Sequence, false))
	c.leave("w")
	c.change(c.release("w"))
	c.change(sharedlun.Change{Remove: &sharedlun.Remove{Name: "w", UUID: w.UUID}})
}

// zeroing: a volume that was never mapped is zeroed, with and without discarding, and shows nothing of before.
func zeroing(c *check) {
	c.create()
	c.soil()
	c.change(sharedlun.Change{Create: &sharedlun.Create{Name: "v", SizeBytes: 8 * mib}})
	c.change(sharedlun.Change{Hold: c.hold("v", "n1")})
	v := c.volume("v")
	for _, discard := range []bool{false, true} {
		c.zeroed(v, discard)
		if all := c.mappings(); len(all) > 0 {
			c.Errorf("mapped by zeroing: %+v", all)
		}
		c.change(c.ready("v", v.ReadyBytes+4*mib))
		v = c.volume("v")
	}
	_, err := c.A.Agent().Map(c.Context(), c.ref, c.cred(c.A), v, c.group.Sequence)
	c.must(err)
	if !c.A.Blank(v.UUID, 0, 8*mib) {
		c.Error("the volume is not zero")
	}
	c.must(c.A.Agent().Unmap(c.Context(), c.ref, v.UUID, c.group.Sequence, false))
}

func zeroingRefused(c *check) {
	v := c.made()
	agent := c.A.Agent()
	zero := func(m Member, v sharedlun.Volume) error {
		_, err := m.Agent().Zero(c.Context(), c.ref, c.cred(m), v, false)
		return err
	}
	c.want(zero(c.B, v), sharedlun.ErrHeld, "n1")
	stale := v
	c.change(c.ready("v", 4*mib))
	c.want(zero(c.A, stale), sharedlun.ErrMoved, "4194304")
	c.change(c.ready("v", 8*mib))
	v = c.volume("v")
	c.want(zero(c.A, v), sharedlun.ErrInvalid, "ready")
	_, err := agent.Map(c.Context(), c.ref, c.cred(c.A), v, c.group.Sequence)
	c.must(err)
	c.must(c.A.Write(v.UUID, 0))
	c.want(zero(c.A, stale), sharedlun.ErrMoved, "")
	if c.A.Blank(v.UUID, 0, 4*mib) {
		c.Error("what holds something was zeroed")
	}
	c.must(agent.Unmap(c.Context(), c.ref, v.UUID, c.group.Sequence, false))
	c.change(c.grow("v", 16*mib))
	c.leave("v")
	c.want(zero(c.A, c.volume("v")), sharedlun.ErrHeld, "being taken")
}

// zeroingNew: what a volume in use grows by, and another volume has left something in, is zeroed before anybody sees it.
func zeroingNew(c *check) {
	v := c.mapped()
	c.must(c.A.Write(v.UUID, 4*mib))
	closing, err := c.A.Open(v.UUID)
	c.must(err)
	c.soil()
	c.change(c.grow("v", 16*mib))
	v = c.volume("v")
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		p, err := c.A.Agent().Zero(c.Context(), c.ref, c.cred(c.A), v, false)
		c.must(err)
		if p.Done {
			break
		}
		if time.Now().After(end) {
			c.Fatalf("it is never done: %+v", p)
		}
	}
	if all := c.mappings(); len(all) != 1 || all[0].Ranges[0].Size != 8*mib {
		c.Errorf("mapped while what is new is zeroed: %+v", all)
	}
	c.change(c.ready("v", v.SizeBytes))
	_, err = c.A.Agent().Map(c.Context(), c.ref, c.cred(c.A), v, c.group.Sequence)
	c.must(err)
	if c.A.Blank(v.UUID, 4*mib, 8*mib) || !c.A.Blank(v.UUID, 8*mib, 16*mib) {
		c.Error("what was there is gone, or what is new holds something")
	}
	closing()
	c.must(c.A.Agent().Unmap(c.Context(), c.ref, v.UUID, c.group.Sequence, false))
}

// zeroingBeside: what is ready of a volume is mapped while the rest is being zeroed, from its first moment on.
func zeroingBeside(c *check) {
	c.made()
	c.change(c.ready("v", 4*mib))
	v := c.volume("v")
	_, err := c.A.Agent().Zero(c.Context(), c.ref, c.cred(c.A), v, false)
	c.must(err)
	_, err = c.A.Agent().Map(c.Context(), c.ref, c.cred(c.A), v, c.group.Sequence)
	c.must(err)
	c.must(c.A.Write(v.UUID, 0))
	c.zeroed(v, false)
	if all := c.mappings(); len(all) != 1 || all[0].Ranges[0].Size != 4*mib {
		c.Errorf("%+v", all)
	}
	c.must(c.A.Agent().Unmap(c.Context(), c.ref, v.UUID, c.group.Sequence, false))
}
