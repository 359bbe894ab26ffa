package sharedgroup

import (
	"time"

	"quarry.storage/quarry/pkg/sharedlun"
)

// rate lets copies go as fast as they can.
const rate = 1 << 40

// copyOf makes a copy of a volume that nobody holds, and gives it to A.
func (c *check) copyOf(name, of string, bytes int64, snapshot bool) sharedlun.Volume {
	c.Helper()
	c.change(c.copying(name, of, bytes, snapshot))
	c.change(sharedlun.Change{Hold: c.hold(name, "n1")})
	return c.volume(name)
}

func (c *check) copying(name, of string, bytes int64, snapshot bool) sharedlun.Change {
	c.Helper()
	v := c.volume(of)
	return sharedlun.Change{Create: &sharedlun.Create{
		Name: name, SizeBytes: bytes, Snapshot: snapshot, Origin: sharedlun.Origin{Name: of, UUID: v.UUID, Bytes: v.ReadyBytes},
	}}
}

func (c *check) copied(name string, bytes int64) sharedlun.Change {
	return sharedlun.Change{Copied: &sharedlun.Copied{Name: name, UUID: c.uuid(name), Bytes: bytes}}
}

// copyWhole calls until a volume is copied, and returns how far it was at the first call.
func (c *check) copyWhole(m Member, v sharedlun.Volume) (began int64) {
	c.Helper()
	c.idle()
	for n, end := 0, time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		p, err := m.Agent().Copy(c.Context(), c.ref, c.cred(m), v, false, rate)
		c.must(err)
		if n++; n == 1 {
			began = p.DoneBytes
		}
		if p.Total != v.SizeBytes || p.DoneBytes < v.CopiedBytes || p.DoneBytes > p.Total || p.Done && p.DoneBytes != p.Total {
			c.Fatalf("progress: %+v", p)
		}
		if p.Done {
			return began
		}
		if time.Now().After(end) {
			c.Fatalf("it is never done: %+v", p)
		}
	}
}

// original makes the group, and a volume of 12 MiB that nobody holds, with something in its first and its last extent.
func (c *check) original() sharedlun.Volume {
	c.Helper()
	c.create()
	c.change(sharedlun.Change{Create: &sharedlun.Create{Name: "v", SizeBytes: 12 * mib}})
	c.change(sharedlun.Change{Hold: c.hold("v", "n1")})
	c.change(c.ready("v", 12*mib))
	c.change(sharedlun.Change{Used: c.hold("v", "n1")})
	c.show("v")
	v := c.volume("v")
	c.must(c.A.Write(v.UUID, 0))
	c.must(c.A.Write(v.UUID, 8*mib))
	c.hide("v")
	return c.volume("v")
}

// show maps a volume that A holds on A, and hide takes it from A.
func (c *check) show(name string) {
	c.Helper()
	_, err := c.A.Agent().Map(c.Context(), c.ref, c.cred(c.A), c.volume(name), c.group.Sequence)
	c.must(err)
}

func (c *check) hide(name string) {
	c.Helper()
	c.leave(name)
	c.must(c.A.Agent().Unmap(c.Context(), c.ref, c.uuid(name), c.group.Sequence, false))
	c.change(c.release(name))
}

// whole ends a copy that A made, and shows it.
func (c *check) whole(name string) {
	c.Helper()
	c.change(c.copied(name, c.volume(name).SizeBytes))
	c.hide(name)
	c.change(c.ready(name, c.volume(name).SizeBytes))
}

// copies: a copy has what its origin had, zeroes behind that, and whether it was used; its origin may change and go once it is whole.
func copies(c *check) {
	v := c.original()
	c.soil()
	w := c.copyOf("copy", "v", 20*mib, false)
	if !w.Used || !w.Copying() || w.Origin.UUID != v.UUID || w.Snapshot {
		c.Errorf("made: %+v", w)
	}
	c.copyWhole(c.A, w)
	if all := c.mappings(); len(all) > 0 {
		c.Errorf("mapped by copying: %+v", all)
	}
	c.whole("copy")
	if w = c.volume("copy"); w.Copying() || w.CopiedBytes != 0 || w.ReadyBytes != 20*mib || w.Origin.UUID != v.UUID {
		c.Errorf("whole: %+v", w)
	}
	// The origin is another one's again, and is written to: the copy stays as it is.
	c.change(sharedlun.Change{Hold: c.hold("v", "n1")})
	c.show("v")
	c.must(c.A.Write(v.UUID, 4*mib))
	c.change(sharedlun.Change{Hold: c.hold("copy", "n1")})
	c.show("copy")
	if c.A.Blank(w.UUID, 0, 4*mib) || !c.A.Blank(w.UUID, 4*mib, 8*mib) || c.A.Blank(w.UUID, 8*mib, 12*mib) || !c.A.Blank(w.UUID, 12*mib, 20*mib) {
		c.Error("the copy has not what its origin had, with zeroes behind")
	}
	c.must(c.A.Write(w.UUID, 16*mib))
	c.hide("copy")
	c.hide("v")
	c.change(sharedlun.Change{Remove: &sharedlun.Remove{Name: "v", UUID: v.UUID}})
}

// copiesRefused: what would make a copy of no single moment, or have it seen before it is whole, is refused by the LUN's own words.
func copiesRefused(c *check) {
	v := c.original()
	c.change(sharedlun.Change{Hold: c.hold("v", "n1")})
	c.want(c.try(c.A, c.copying("copy", "v", 12*mib, false)), sharedlun.ErrHeld, "n1")
	c.leave("v")
	c.want(c.try(c.A, c.copying("copy", "v", 12*mib, false)), sharedlun.ErrHeld, "n1")
	c.change(c.release("v"))
	c.want(c.try(c.A, c.copying("copy", "v", 8*mib, false)), sharedlun.ErrInvalid, "12582912")
	stale := c.copying("copy", "v", 12*mib, false)
	stale.Create.Origin.Bytes = 8 * mib
	c.want(c.try(c.A, stale), sharedlun.ErrMoved, "12582912")
	stale.Create.Origin = sharedlun.Origin{}
	stale.Create.Snapshot = true
	c.want(c.try(c.A, stale), sharedlun.ErrInvalid, "snapshot")
	w := c.copyOf("copy", "v", 12*mib, false)

	// The origin stays as it is, and is nobody's.
	c.want(c.try(c.A, sharedlun.Change{Hold: c.hold("v", "n1")}), sharedlun.ErrHeld, "copied to copy")
	c.want(c.try(c.A, sharedlun.Change{Hold: c.hold("v", "n2")}), sharedlun.ErrHeld, "copied to copy")
	c.want(c.try(c.A, sharedlun.Change{Remove: &sharedlun.Remove{Name: "v", UUID: v.UUID}}), sharedlun.ErrHeld, "copied to copy")
	// The copy is not seen, not zeroed, and not grown.
	_, err := c.A.Agent().Map(c.Context(), c.ref, c.cred(c.A), w, c.group.Sequence)
	c.want(err, sharedlun.ErrMisfit, "ready")
	_, err = c.A.Agent().Zero(c.Context(), c.ref, c.cred(c.A), w, false)
	c.want(err, sharedlun.ErrMisfit, "copy of v")
	c.want(c.try(c.A, c.grow("copy", 16*mib)), sharedlun.ErrMisfit, "copied")
	c.want(c.try(c.A, c.ready("copy", 12*mib)), sharedlun.ErrMisfit, "reached")
	c.want(c.try(c.A, c.copied("copy", 16*mib)), sharedlun.ErrInvalid, "16777216")
	c.want(c.try(c.A, c.copied("v", 4*mib)), sharedlun.ErrMisfit, "not being copied")
	// It is copied by the node that holds it, with its key, and by no other one.
	copying := func(m Member, v sharedlun.Volume) error {
		_, err := m.Agent().Copy(c.Context(), c.ref, c.cred(m), v, false, rate)
		return err
	}
	c.want(copying(c.B, w), sharedlun.ErrHeld, "n1")
	other := w
	other.Origin.Name = "w"
	c.want(copying(c.A, other), sharedlun.ErrMoved, "")
	c.copyWhole(c.A, w)
	c.change(c.copied("copy", 12*mib))
	c.want(c.try(c.A, c.ready("copy", 12*mib)), sharedlun.ErrHeld, "n1")
	c.want(c.try(c.A, c.copying("copy", "copy", 12*mib, false)), sharedlun.ErrInvalid, "0 bytes")
	c.hide("copy")
	c.want(copying(c.A, w), sharedlun.ErrHeld, "held by")
	c.want(c.try(c.A, c.ready("copy", 8*mib)), sharedlun.ErrMisfit, "8388608")
	c.change(c.ready("copy", 12*mib))
	c.change(sharedlun.Change{Hold: c.hold("copy", "n1")})
	c.want(copying(c.A, w), sharedlun.ErrMoved, "copy")
}

// copiesGoOn: an agent that was started again, and another node, go on where the LUN says that the copy was, and only there.
func copiesGoOn(c *check) {
	c.original()
	w := c.copyOf("copy", "v", 12*mib, false)
	c.copyWhole(c.A, w)
	c.change(c.copied("copy", 8*mib))
	c.A.Restart(c.T)
	// The devices of an agent of before are no hindrance, and what was copied counts.
	if began := c.copyWhole(c.A, c.volume("copy")); began < 8*mib {
		c.Errorf("it began at byte %d", began)
	}
	c.hide("copy")
	c.change(sharedlun.Change{Hold: c.hold("copy", "n2")})
	if began := c.copyWhole(c.B, c.volume("copy")); began < 8*mib {
		c.Errorf("another node began at byte %d", began)
	}
	c.want(c.try(c.A, c.copied("copy", 4*mib)), nil, "")
	if v := c.volume("copy"); v.CopiedBytes != 8*mib {
		c.Errorf("what was copied became less: %+v", v)
	}
}

// snapshots are copied and copied from, and no node gets them.
func snapshots(c *check) {
	c.original()
	w := c.copyOf("snap", "v", 12*mib, true)
	c.copyWhole(c.A, w)
	c.whole("snap")
	if w = c.volume("snap"); !w.Snapshot || w.Copying() {
		c.Errorf("whole: %+v", w)
	}
	c.want(c.try(c.A, sharedlun.Change{Hold: c.hold("snap", "n1")}), sharedlun.ErrMisfit, "snapshot")
	c.want(c.try(c.A, c.grow("snap", 16*mib)), sharedlun.ErrMisfit, "snapshot")
	again := c.copying("snap", "v", 12*mib, true)
	before := c.group.Sequence
	c.change(again)
	again.Create.Snapshot = false
	c.want(c.try(c.A, again), sharedlun.ErrExists, "snapshot true")
	r := c.copyOf("restored", "snap", 12*mib, false)
	if c.group.Sequence != before+2 || r.Snapshot || !r.Used {
		c.Errorf("restored: %+v", r)
	}
	c.copyWhole(c.A, r)
	c.whole("restored")
	c.change(sharedlun.Change{Hold: c.hold("restored", "n1")})
	c.show("restored")
	if c.A.Blank(r.UUID, 0, 4*mib) || c.A.Blank(r.UUID, 8*mib, 12*mib) {
		c.Error("what was restored is blank")
	}
	c.hide("restored")
}

// copiesEnd: an order to unmap a copy ends it, and so does a fence; what was copied until then counts.
func copiesEnd(c *check) {
	c.original()
	w := c.copyOf("copy", "v", 12*mib, false)
	_, err := c.A.Agent().Copy(c.Context(), c.ref, c.cred(c.A), w, false, 1)
	c.must(err)
	c.copiesOn(w.UUID)
	c.hide("copy")
	if all := c.mappings(); len(all) > 0 {
		c.Errorf("left of a copying that was ended: %+v", all)
	}
	c.change(sharedlun.Change{Remove: &sharedlun.Remove{Name: "copy", UUID: w.UUID}})
	w = c.copyOf("copy", "v", 12*mib, false)
	c.Preempt(c.A.Key())
	_, err = c.A.Agent().Copy(c.Context(), c.ref, c.cred(c.A), w, false, rate)
	c.want(err, sharedlun.ErrNoKey, "")
	c.must(c.A.Agent().Unmap(c.Context(), c.ref, w.UUID, c.group.Sequence, true))
}

// copiesOn waits until A tells of both devices of a copying that goes on.
func (c *check) copiesOn(uuid string) {
	c.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		parts := map[sharedlun.Part]bool{}
		for _, m := range c.mappings() {
			if m.VolumeUUID == uuid && m.InUse && m.Reaches() {
				parts[m.Part] = true
			}
		}
		if len(parts) == 2 && parts[sharedlun.PartNew] && parts[sharedlun.PartSource] {
			return
		}
		if time.Now().After(end) {
			c.Fatalf("what copies %s is not told: %v", uuid, c.mappings())
		}
	}
}

// copiesVoid: a copy that nobody wants holds nothing up but the removal of its origin, and never becomes whole.
func copiesVoid(c *check) {
	v := c.original()
	w := c.copyOf("copy", "v", 12*mib, true)
	_, err := c.A.Agent().Copy(c.Context(), c.ref, c.cred(c.A), w, false, 1)
	c.must(err)
	c.copiesOn(w.UUID)
	void := sharedlun.Change{Void: &sharedlun.Void{Name: "copy", UUID: w.UUID}}
	c.change(void)
	if got := c.volume("copy"); !got.Void || !got.Copying() || got.HeldBy != "n1" || got.Origin.UUID != v.UUID {
		c.Errorf("void: %+v", got)
	}
	before := c.group.Sequence
	c.change(void)
	if c.group.Sequence != before {
		c.Error("what is void was made void once more")
	}
	c.want(c.try(c.A, c.copied("copy", 4*mib)), sharedlun.ErrMisfit, "void")
	c.want(c.try(c.A, sharedlun.Change{Remove: &sharedlun.Remove{Name: "v", UUID: v.UUID}}), sharedlun.ErrHeld, "n1, which may read it")
	// The origin goes to a node, and changes, while the copy is filled still.
	c.change(sharedlun.Change{Hold: c.hold("v", "n2")})
	c.change(sharedlun.Change{Leave: c.hold("v", "n2")})
	c.change(sharedlun.Change{Release: &sharedlun.Release{Hold: *c.hold("v", "n2")}})
	c.hide("copy")
	_, err = c.A.Agent().Copy(c.Context(), c.ref, c.cred(c.A), w, false, rate)
	c.want(err, sharedlun.ErrHeld, "")
	c.want(c.try(c.A, sharedlun.Change{Hold: c.hold("copy", "n1")}), sharedlun.ErrMisfit, "void")
	c.want(c.try(c.A, c.ready("copy", 12*mib)), sharedlun.ErrMisfit, "void")
	c.change(sharedlun.Change{Remove: &sharedlun.Remove{Name: "v", UUID: v.UUID}})
	c.change(sharedlun.Change{Remove: &sharedlun.Remove{Name: "copy", UUID: w.UUID}})
}
