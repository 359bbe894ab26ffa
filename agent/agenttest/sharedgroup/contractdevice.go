package sharedgroup

import (
	"slices"
	"time"

	"quarry.storage/quarry/pkg/sharedlun"
)

func mappings(c *check) {
	v := c.made()
	agent := c.A.Agent()
	m, err := agent.Map(c.Context(), c.ref, v, c.group.Sequence)
	c.must(err)
	if m.VolumeUUID != v.UUID || m.Device == "" || !slices.Equal(m.Ranges, v.Ranges) {
		c.Errorf("mapped: %+v", m)
	}
	again, err := agent.Map(c.Context(), c.ref, v, c.group.Sequence)
	c.must(err)
	if again.Device != m.Device {
		c.Errorf("mapped again: %+v", again)
	}
	c.idle()
	if all := c.mappings(); len(all) != 1 || all[0].VolumeUUID != v.UUID {
		c.Errorf("listed: %+v", all)
	}
	outside, moved, shrunk := v, v, v
	outside.Ranges = []sharedlun.Range{{Start: c.Lun.SizeBytes - 4*mib, Size: 8 * mib}}
	moved.Ranges = []sharedlun.Range{{Start: v.Ranges[0].Start + 4*mib, Size: v.SizeBytes}}
	shrunk.Ranges, shrunk.SizeBytes = []sharedlun.Range{{Start: v.Ranges[0].Start, Size: 4 * mib}}, 4*mib
	for _, wrong := range []sharedlun.Volume{outside, moved, shrunk} {
		_, err := agent.Map(c.Context(), c.ref, wrong, c.group.Sequence)
		c.want(err, sharedlun.ErrMoved, "lies elsewhere")
	}
	none := v
	none.Ranges = nil
	_, err = agent.Map(c.Context(), c.ref, none, c.group.Sequence)
	c.want(err, sharedlun.ErrInvalid, "")
	closing, err := c.A.Open(v.UUID)
	c.must(err)
	if all := c.mappings(); len(all) != 1 || !all[0].InUse {
		c.Errorf("an open device: %+v", all)
	}
	c.want(agent.Unmap(c.Context(), c.ref, v.UUID, c.group.Sequence, false), sharedlun.ErrInUse, "open")
	c.leave("v")
	c.change(sharedlun.Change{Release: &sharedlun.Hold{Name: "v", Node: "n1"}})
	c.change(sharedlun.Change{Remove: &sharedlun.Remove{Name: "v", UUID: v.UUID}})
	c.want(agent.Remove(c.Context(), c.ref, c.writer(c.A)), sharedlun.ErrInUse, v.UUID)
	closing()
	c.must(agent.Unmap(c.Context(), c.ref, v.UUID, c.group.Sequence, false))
	c.must(agent.Unmap(c.Context(), c.ref, v.UUID, c.group.Sequence, false))
	if all := c.mappings(); len(all) > 0 {
		c.Errorf("unmapped: %+v", all)
	}
}

// idle waits until nobody has a device open: udev looks at a new one for a moment.
func (c *check) idle() {
	c.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		all := c.mappings()
		if !slices.ContainsFunc(all, func(m sharedlun.Mapping) bool { return m.InUse }) {
			return
		}
		if time.Now().After(end) {
			c.Fatalf("in use for ever: %+v", all)
		}
	}
}

func lateOrders(c *check) {
	v := c.made()
	late := c.group.Sequence
	agent := c.A.Agent()
	_, err := agent.Map(c.Context(), c.ref, v, late)
	c.must(err)
	c.must(agent.Unmap(c.Context(), c.ref, v.UUID, late, false))
	_, err = agent.Map(c.Context(), c.ref, v, late)
	c.want(err, sharedlun.ErrMoved, "")
	c.change(sharedlun.Change{Ready: &sharedlun.Ready{Name: "v", Bytes: 4 * mib}})
	_, err = agent.Map(c.Context(), c.ref, v, c.group.Sequence)
	c.must(err)
	c.want(agent.Unmap(c.Context(), c.ref, v.UUID, late, false), sharedlun.ErrMoved, "")
	if all := c.mappings(); len(all) != 1 {
		c.Errorf("unmapped by a late order: %+v", all)
	}
	c.must(agent.Unmap(c.Context(), c.ref, v.UUID, c.group.Sequence, false))
}

// notMine: the LUN says whose a volume is, whatever the order says and however late it comes, also after a start of the agent.
func notMine(c *check) {
	v := c.made()
	ordered := c.group.Sequence
	_, err := c.B.Agent().Map(c.Context(), c.ref, v, ordered)
	c.want(err, sharedlun.ErrHeld, "n1")
	c.leave("v")
	for range 2 {
		_, err = c.A.Agent().Map(c.Context(), c.ref, v, ordered)
		c.want(err, sharedlun.ErrHeld, "being taken")
		_, err = c.A.Agent().Map(c.Context(), c.ref, c.volume("v"), c.group.Sequence)
		c.want(err, sharedlun.ErrHeld, "being taken")
		c.A.Restart(c)
	}
	c.change(sharedlun.Change{Release: &sharedlun.Hold{Name: "v", Node: "n1"}})
	c.change(sharedlun.Change{Hold: &sharedlun.Hold{Name: "v", Node: "n2"}})
	_, err = c.A.Agent().Map(c.Context(), c.ref, v, ordered)
	c.want(err, sharedlun.ErrHeld, "n2")
	other := c.volume("v")
	other.UUID = c.ref.UUID
	_, err = c.A.Agent().Map(c.Context(), c.ref, other, c.group.Sequence)
	c.want(err, sharedlun.ErrNotFound, "v")
	if all := c.mappings(); len(all) > 0 {
		c.Errorf("mapped: %+v", all)
	}
}

func growth(c *check) {
	v := c.mapped()
	c.must(c.A.Write(v.UUID, 0))
	closing, err := c.A.Open(v.UUID)
	c.must(err)
	c.change(sharedlun.Change{Create: &sharedlun.Create{Name: "w", SizeBytes: 4 * mib}})
	c.change(sharedlun.Change{Grow: &sharedlun.Grow{Name: "v", SizeBytes: 20 * mib}})
	v = c.volume("v")
	m, err := c.A.Agent().Map(c.Context(), c.ref, v, c.group.Sequence)
	c.must(err)
	if len(m.Ranges) != 2 || !m.InUse {
		c.Errorf("grown: %+v", m)
	}
	c.must(c.A.Write(v.UUID, 16*mib))
	if c.A.Blank(v.UUID, 0, 4*mib) || c.A.Blank(v.UUID, 16*mib, 20*mib) || !c.A.Blank(v.UUID, 4*mib, 16*mib) {
		c.Error("what was written is not where it was written")
	}
	closing()
	c.must(c.A.Agent().Unmap(c.Context(), c.ref, v.UUID, c.group.Sequence, false))
}

func fencedDevice(c *check) {
	v := c.mapped()
	closing, err := c.A.Open(v.UUID)
	c.must(err)
	c.want(c.A.Agent().Unmap(c.Context(), c.ref, v.UUID, c.group.Sequence, true), sharedlun.ErrInUse, "open")
	if err := c.A.Write(v.UUID, 0); err == nil {
		c.Error("a device that was cut off takes a write")
	}
	c.want(c.A.Agent().Unmap(c.Context(), c.ref, v.UUID, c.group.Sequence, true), sharedlun.ErrInUse, "")
	c.change(sharedlun.Change{Ready: &sharedlun.Ready{Name: "v", Bytes: 4 * mib}})
	_, err = c.A.Agent().Map(c.Context(), c.ref, v, c.group.Sequence)
	c.want(err, sharedlun.ErrMisfit, "open")
	closing()
	_, err = c.A.Agent().Map(c.Context(), c.ref, v, c.group.Sequence)
	c.must(err)
	c.must(c.A.Write(v.UUID, 0))
	c.must(c.A.Agent().Unmap(c.Context(), c.ref, v.UUID, c.group.Sequence, true))
	if all := c.mappings(); len(all) > 0 {
		c.Errorf("unmapped: %+v", all)
	}
}

// zeroed calls until a volume is zeroed.
func (c *check) zeroed(v sharedlun.Volume, discard bool) {
	c.Helper()
	c.idle()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		p, err := c.A.Agent().Zero(c.Context(), c.ref, v, discard)
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

func zeroing(c *check) {
	v := c.mapped()
	c.must(c.A.Write(v.UUID, 0))
	c.must(c.A.Write(v.UUID, 4*mib))
	c.zeroed(v, false)
	if !c.A.Blank(v.UUID, 0, 8*mib) {
		c.Error("the volume is not zero")
	}
	c.change(sharedlun.Change{Ready: &sharedlun.Ready{Name: "v", Bytes: 4 * mib}})
	v = c.volume("v")
	c.must(c.A.Write(v.UUID, 0))
	c.must(c.A.Write(v.UUID, 4*mib))
	c.zeroed(v, true)
	if c.A.Blank(v.UUID, 0, 4*mib) || !c.A.Blank(v.UUID, 4*mib, 8*mib) {
		c.Error("what is ready was zeroed, or the rest was not")
	}
	c.must(c.A.Agent().Unmap(c.Context(), c.ref, v.UUID, c.group.Sequence, false))
}

func zeroingRefused(c *check) {
	v := c.made()
	agent := c.A.Agent()
	zero := func(v sharedlun.Volume) error {
		_, err := agent.Zero(c.Context(), c.ref, v, false)
		return err
	}
	c.want(zero(v), sharedlun.ErrNotFound, "device")
	_, err := agent.Map(c.Context(), c.ref, v, c.group.Sequence)
	c.must(err)
	closing, err := c.A.Open(v.UUID)
	c.must(err)
	c.want(zero(v), sharedlun.ErrInUse, "")
	closing()
	stale := v
	c.change(sharedlun.Change{Ready: &sharedlun.Ready{Name: "v", Bytes: 4 * mib}})
	c.must(c.A.Write(v.UUID, 0))
	c.idle()
	c.want(zero(stale), sharedlun.ErrMoved, "4194304")
	c.change(sharedlun.Change{Ready: &sharedlun.Ready{Name: "v", Bytes: 8 * mib}})
	c.want(zero(c.volume("v")), sharedlun.ErrInvalid, "ready")
	if c.A.Blank(v.UUID, 0, 4*mib) {
		c.Error("what holds something was zeroed")
	}
	c.must(agent.Unmap(c.Context(), c.ref, v.UUID, c.group.Sequence, false))
}

// zeroingNew: what a volume in use grows by, and another volume has left something in, is zeroed before anybody sees it.
func zeroingNew(c *check) {
	v := c.mapped()
	c.change(sharedlun.Change{Ready: &sharedlun.Ready{Name: "v", Bytes: v.SizeBytes}})
	c.must(c.A.Write(v.UUID, 4*mib))
	closing, err := c.A.Open(v.UUID)
	c.must(err)
	c.change(sharedlun.Change{Create: &sharedlun.Create{Name: "w", SizeBytes: 8 * mib}})
	c.change(sharedlun.Change{Hold: &sharedlun.Hold{Name: "w", Node: "n1"}})
	w := c.volume("w")
	_, err = c.A.Agent().Map(c.Context(), c.ref, w, c.group.Sequence)
	c.must(err)
	c.must(c.A.Write(w.UUID, 0))
	c.must(c.A.Write(w.UUID, 4*mib))
	c.must(c.A.Agent().Unmap(c.Context(), c.ref, w.UUID, c.group.Sequence, false))
	c.leave("w")
	c.change(sharedlun.Change{Release: &sharedlun.Hold{Name: "w", Node: "n1"}})
	c.change(sharedlun.Change{Remove: &sharedlun.Remove{Name: "w", UUID: w.UUID}})
	c.change(sharedlun.Change{Grow: &sharedlun.Grow{Name: "v", SizeBytes: 16 * mib}})
	v = c.volume("v")
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		p, err := c.A.Agent().Zero(c.Context(), c.ref, v, false)
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
	c.change(sharedlun.Change{Ready: &sharedlun.Ready{Name: "v", Bytes: v.SizeBytes}})
	_, err = c.A.Agent().Map(c.Context(), c.ref, v, c.group.Sequence)
	c.must(err)
	if c.A.Blank(v.UUID, 4*mib, 8*mib) || !c.A.Blank(v.UUID, 8*mib, 16*mib) {
		c.Error("what was there is gone, or what is new holds something")
	}
	closing()
	c.must(c.A.Agent().Unmap(c.Context(), c.ref, v.UUID, c.group.Sequence, false))
}
