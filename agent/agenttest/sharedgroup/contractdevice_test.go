package sharedgroup

import (
	"slices"
	"strings"
	"time"

	"quarry.storage/quarry/pkg/sharedlun"
)

func mappings(c *check) {
	unready := c.made()
	_, err := c.A.Agent().Map(c.Context(), c.ref, c.cred(c.A), unready, c.group.Sequence)
	c.want(err, sharedlun.ErrMisfit, "nothing of volume v is ready")
	c.change(c.ready("v", unready.SizeBytes))
	v := c.volume("v")
	agent := c.A.Agent()
	m, err := agent.Map(c.Context(), c.ref, c.cred(c.A), v, c.group.Sequence)
	c.must(err)
	if m.VolumeUUID != v.UUID || m.Device == "" || !slices.Equal(m.Ranges, v.Ranges) {
		c.Errorf("mapped: %+v", m)
	}
	again, err := agent.Map(c.Context(), c.ref, c.cred(c.A), v, c.group.Sequence)
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
	shrunk.ReadyBytes = 4 * mib
	shrunk.Ranges, shrunk.SizeBytes = []sharedlun.Range{{Start: v.Ranges[0].Start, Size: 4 * mib}}, 4*mib
	for _, wrong := range []sharedlun.Volume{outside, moved, shrunk} {
		_, err := agent.Map(c.Context(), c.ref, c.cred(c.A), wrong, c.group.Sequence)
		c.want(err, sharedlun.ErrMoved, "lies elsewhere")
	}
	none := v
	none.Ranges = nil
	_, err = agent.Map(c.Context(), c.ref, c.cred(c.A), none, c.group.Sequence)
	c.want(err, sharedlun.ErrInvalid, "")
	closing, err := c.A.Open(v.UUID)
	c.must(err)
	if all := c.mappings(); len(all) != 1 || !all[0].InUse {
		c.Errorf("an open device: %+v", all)
	}
	c.want(agent.Unmap(c.Context(), c.ref, v.UUID, c.group.Sequence, false), sharedlun.ErrInUse, "open")
	c.leave("v")
	c.change(c.release("v"))
	c.change(sharedlun.Change{Remove: &sharedlun.Remove{Name: "v", UUID: v.UUID}})
	c.want(agent.Remove(c.Context(), c.ref, c.mandate(c.A)), sharedlun.ErrInUse, v.UUID)
	closing()
	c.must(agent.Unmap(c.Context(), c.ref, v.UUID, c.group.Sequence, false))
	c.must(agent.Unmap(c.Context(), c.ref, v.UUID, c.group.Sequence, false))
	if all := c.mappings(); len(all) > 0 {
		c.Errorf("unmapped: %+v", all)
	}
}

// idle waits until nobody has a device open that a volume shows: udev looks at a new one for a moment.
func (c *check) idle() {
	c.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		all := c.mappings()
		if !slices.ContainsFunc(all, func(m sharedlun.Mapping) bool { return m.InUse && m.Part == sharedlun.PartShown }) {
			return
		}
		if time.Now().After(end) {
			c.Fatalf("in use for ever: %+v", all)
		}
	}
}

func lateOrders(c *check) {
	v := c.readied()
	late := c.group.Sequence
	agent := c.A.Agent()
	_, err := agent.Map(c.Context(), c.ref, c.cred(c.A), v, late)
	c.must(err)
	c.must(agent.Unmap(c.Context(), c.ref, v.UUID, late, false))
	_, err = agent.Map(c.Context(), c.ref, c.cred(c.A), v, late)
	c.want(err, sharedlun.ErrMoved, "")
	c.moves()
	_, err = agent.Map(c.Context(), c.ref, c.cred(c.A), v, c.group.Sequence)
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
	_, err := c.B.Agent().Map(c.Context(), c.ref, c.cred(c.B), v, ordered)
	c.want(err, sharedlun.ErrHeld, "n1")
	c.leave("v")
	for range 2 {
		_, err = c.A.Agent().Map(c.Context(), c.ref, c.cred(c.A), v, ordered)
		c.want(err, sharedlun.ErrHeld, "being taken")
		_, err = c.A.Agent().Map(c.Context(), c.ref, c.cred(c.A), c.volume("v"), c.group.Sequence)
		c.want(err, sharedlun.ErrHeld, "being taken")
		c.A.Restart(c)
	}
	c.change(c.release("v"))
	c.change(sharedlun.Change{Hold: c.hold("v", "n2")})
	_, err = c.A.Agent().Map(c.Context(), c.ref, c.cred(c.A), v, ordered)
	c.want(err, sharedlun.ErrHeld, "n2")
	other := c.volume("v")
	other.UUID = c.ref.UUID
	_, err = c.A.Agent().Map(c.Context(), c.ref, c.cred(c.A), other, c.group.Sequence)
	c.want(err, sharedlun.ErrNotFound, "v")
	if all := c.mappings(); len(all) > 0 {
		c.Errorf("mapped: %+v", all)
	}
}

// growth: what a device in use grows by is seen only once it is ready.
func growth(c *check) {
	v := c.mapped()
	c.must(c.A.Write(v.UUID, 0))
	closing, err := c.A.Open(v.UUID)
	c.must(err)
	c.change(sharedlun.Change{Create: &sharedlun.Create{Name: "w", SizeBytes: 4 * mib}})
	c.change(c.grow("v", 20*mib))
	for _, ready := range []int64{8 * mib, 12 * mib} {
		c.change(c.ready("v", ready))
		m, err := c.A.Agent().Map(c.Context(), c.ref, c.cred(c.A), c.volume("v"), c.group.Sequence)
		c.must(err)
		shown := int64(0)
		for _, r := range m.Ranges {
			shown += r.Size
		}
		if shown != ready {
			c.Errorf("%d bytes are ready, and the device shows %d", ready, shown)
		}
	}
	c.change(c.ready("v", 20*mib))
	v = c.volume("v")
	m, err := c.A.Agent().Map(c.Context(), c.ref, c.cred(c.A), v, c.group.Sequence)
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
	c.moves()
	_, err = c.A.Agent().Map(c.Context(), c.ref, c.cred(c.A), v, c.group.Sequence)
	c.want(err, sharedlun.ErrMisfit, "open")
	closing()
	_, err = c.A.Agent().Map(c.Context(), c.ref, c.cred(c.A), v, c.group.Sequence)
	c.must(err)
	c.must(c.A.Write(v.UUID, 0))
	c.must(c.A.Agent().Unmap(c.Context(), c.ref, v.UUID, c.group.Sequence, true))
	if all := c.mappings(); len(all) > 0 {
		c.Errorf("unmapped: %+v", all)
	}
}

// keyless: a node without its key maps nothing, makes no device, and zeroes nothing.
func keyless(c *check) {
	v := c.readied()
	c.change(c.grow("v", 16*mib))
	grown := c.volume("v")
	wrong := sharedlun.Credential{Key: c.B.Key()}
	_, err := c.A.Agent().Map(c.Context(), c.ref, wrong, grown, c.group.Sequence)
	c.want(err, sharedlun.ErrNoKey, "")
	_, err = c.A.Agent().Zero(c.Context(), c.ref, wrong, grown, false)
	c.want(err, sharedlun.ErrNoKey, "")
	if all := c.mappings(); len(all) > 0 {
		c.Errorf("mapped without a key: %+v", all)
	}
	_, err = c.A.Agent().Map(c.Context(), c.ref, c.cred(c.A), grown, c.group.Sequence)
	c.must(err)
	c.Preempt(c.A.Key())
	_, err = c.A.Agent().Map(c.Context(), c.ref, c.cred(c.A), grown, c.group.Sequence)
	c.want(err, sharedlun.ErrNoKey, "")
	if all := c.mappings(); len(all) != 1 || all[0].VolumeUUID != v.UUID || all[0].Ranges[0].Size != 8*mib {
		c.Errorf("mapped with its key: %+v", all)
	}
	c.must(c.A.Agent().Unmap(c.Context(), c.ref, v.UUID, c.group.Sequence, false))
}

// otherLun: what is mapped on a LUN in whose place another one is writes nothing to that. Its user gets errors, and it is made anew once the recorded one is back.
func otherLun(c *check) {
	v := c.mapped()
	closing, err := c.A.Open(v.UUID)
	c.must(err)
	if says := c.A.Agent().Guard(c.Context(), c.ref); says != "" {
		c.Errorf("the recorded LUN: %q", says)
	}
	c.must(c.A.Write(v.UUID, 0))
	c.Swap()
	for range 2 {
		if says := c.A.Agent().Guard(c.Context(), c.ref); !strings.Contains(says, "other") {
			c.Errorf("another LUN: %q", says)
		}
		if err := c.A.Write(v.UUID, 0); err == nil {
			c.Error("another LUN takes a write")
		}
		if all := c.mappings(); len(all) != 1 || !all[0].Cut || all[0].Suspended || !all[0].InUse {
			c.Errorf("%+v", all)
		}
		c.A.Restart(c)
	}
	c.want(c.A.Agent().Unmap(c.Context(), c.ref, v.UUID, c.group.Sequence, false), sharedlun.ErrInUse, "open")
	closing()
	c.must(c.A.Agent().Unmap(c.Context(), c.ref, v.UUID, c.group.Sequence, false))
}
