package iscsi

import (
	"errors"
	"slices"
	"strings"

	"quarry.storage/quarry/pkg/sharedlun"
)

// reserved checks which keys the target keeps, as both nodes read it, and that nobody else can write; without keys, that it keeps nothing.
func (c *check) reserved(id sharedlun.Identity, keys ...uint64) {
	c.Helper()
	kind := uint32(sharedlun.WriteExclusiveAllRegistrants)
	if len(keys) == 0 {
		kind = 0
	}
	c.keeps(id, kind, 0, keys...)
}

// keeps checks what the target keeps.
func (c *check) keeps(id sharedlun.Identity, kind uint32, holder uint64, keys ...uint64) {
	c.Helper()
	for _, a := range []Agent{c.A, c.B} {
		r, err := a.Reservation(c.Context(), id, true)
		if err != nil || !r.Supported || r.Type != kind || r.Holder != holder || !slices.Equal(r.Keys, keys) {
			c.Errorf("%+v, %v, want keys %x, type %d and holder %x", r, err, keys, kind, holder)
		}
	}
}

// grant is what the controller grants a node.
func (c *check) grant(a Agent, key, old uint64) sharedlun.Grant {
	g := sharedlun.Grant{Key: key, BootID: c.BootID, Initiator: c.NameA, Others: []string{c.NameB}, Reserve: true}
	if old != 0 {
		g.Old = []uint64{0xdead, old}
	}
	if a == c.B {
		g.Initiator, g.Others = c.NameB, []string{c.NameA}
	}
	return g
}

func (c *check) register(a Agent, id sharedlun.Identity, key, old uint64) error {
	_, err := a.Register(c.Context(), id, c.grant(a, key, old))
	return err
}

func registrations(c *check) {
	id := c.login()
	c.reserved(id)
	_, err := c.A.Confirm(c.Context(), id, keyA)
	c.want(err, sharedlun.ErrNoKey)
	other := c.grant(c.A, keyA, 0)
	other.BootID = "another boot"
	_, err = c.A.Register(c.Context(), id, other)
	c.want(err, sharedlun.ErrRebooted)
	c.want(c.register(c.A, id, 0, 0), sharedlun.ErrInvalid)
	c.reserved(id)
	for range 2 {
		r, err := c.A.Register(c.Context(), id, c.grant(c.A, keyA, 0))
		if err != nil || r.Writable(keyA) != nil {
			c.Errorf("%+v, %v", r, err)
		}
	}
	if !c.Write(c.A, id) || c.Write(c.B, id) {
		c.Error("only A may write")
	}
	c.must(c.register(c.B, id, keyB, 0))
	c.reserved(id, keyA, keyB)
	if r, err := c.B.Confirm(c.Context(), id, keyB); err != nil || !r.Held() || !c.Write(c.B, id) {
		c.Errorf("%+v, %v", r, err)
	}
	for _, key := range []uint64{0, keyA, keyC} {
		_, err = c.B.Confirm(c.Context(), id, key)
		c.want(err, sharedlun.ErrNoKey)
	}
	for range 2 {
		_, err = c.B.Unregister(c.Context(), id, keyB, false)
		c.must(err)
	}
	c.reserved(id, keyA)
	_, err = c.A.Unregister(c.Context(), id, keyA, false)
	c.want(err, sharedlun.ErrLast)
	c.reserved(id, keyA)
	for range 2 {
		_, err = c.A.Unregister(c.Context(), id, keyA, true)
		c.must(err)
	}
	c.reserved(id)
}

func fencing(c *check) {
	id := c.login()
	c.must(c.register(c.A, id, keyA, 0))
	_, err := c.B.Preempt(c.Context(), id, keyB, keyA)
	c.want(err, sharedlun.ErrNoKey)
	c.must(c.register(c.B, id, keyB, 0))
	_, err = c.B.Preempt(c.Context(), id, keyB, keyB)
	c.want(err, sharedlun.ErrInvalid)
	for range 2 {
		r, err := c.B.Preempt(c.Context(), id, keyB, keyA)
		if err != nil || r.Has(keyA) || r.Writable(keyB) != nil {
			c.Errorf("%+v, %v", r, err)
		}
	}
	c.reserved(id, keyB)
	if c.Write(c.A, id) || !c.Write(c.B, id) {
		c.Error("only B may write")
	}
	_, err = c.A.Confirm(c.Context(), id, keyA)
	c.want(err, sharedlun.ErrNoKey)
	_, err = c.A.Preempt(c.Context(), id, keyA, keyB)
	c.want(err, sharedlun.ErrNoKey)
	c.reserved(id, keyB)
}

func oldKeys(c *check) {
	id := c.login()
	c.must(c.register(c.A, id, keyA, 0))
	c.want(c.register(c.A, id, keyC, 0), sharedlun.ErrNoKey)
	c.want(c.register(c.A, id, keyC, keyB), sharedlun.ErrNoKey)
	c.reserved(id, keyA)
	for range 2 {
		c.must(c.register(c.A, id, keyC, keyA))
	}
	c.reserved(id, keyC)
	// An old key that is nobody's is in nobody's way.
	c.must(c.register(c.B, id, keyB, 0xdead))
	c.reserved(id, keyB, keyC)
}

func otherLuns(c *check) {
	id := c.login()
	for what, o := range map[string]struct {
		id   sharedlun.Identity
		want error
	}{
		"another serial number": {sharedlun.Identity{WWID: id.WWID, Serial: id.Serial + "x", SizeBytes: id.SizeBytes}, sharedlun.ErrOtherLun},
		"larger":                {sharedlun.Identity{WWID: id.WWID, Serial: id.Serial, SizeBytes: id.SizeBytes + 1}, sharedlun.ErrOtherLun},
		"another WWID":          {sharedlun.Identity{WWID: id.WWID + "0", Serial: id.Serial, SizeBytes: id.SizeBytes}, sharedlun.ErrNotFound},
		"none":                  {sharedlun.Identity{}, sharedlun.ErrInvalid},
		"it has grown":          {sharedlun.Identity{WWID: id.WWID, Serial: id.Serial, SizeBytes: id.SizeBytes - 1}, nil},
	} {
		_, err := c.A.Device(c.Context(), o.id)
		if !errors.Is(err, o.want) {
			c.Errorf("%s: %v, want %v", what, err, o.want)
		}
	}
	c.must(c.register(c.A, id, keyA, 0))
	if _, says, err := c.A.Astray(c.Context(), id, VolumeGroup); says != "" || err != nil {
		c.Errorf("the recorded LUN: %q, %v", says, err)
	}
	c.Swap()
	if _, says, err := c.A.Astray(c.Context(), id, VolumeGroup); !strings.Contains(says, id.WWID) || err != nil {
		c.Errorf("another LUN under its number: %q, %v", says, err)
	}
	_, err := c.A.Device(c.Context(), id)
	c.want(err, sharedlun.ErrOtherLun)
	_, err = c.A.Confirm(c.Context(), id, keyA)
	c.want(err, sharedlun.ErrOtherLun)
	c.want(c.register(c.A, id, keyC, keyA), sharedlun.ErrOtherLun)
}

// lostKeys: nobody is kept out before somebody is told to reserve the LUN again.
func lostKeys(c *check) {
	id := c.login()
	c.must(c.register(c.A, id, keyA, 0))
	c.LoseKeys()
	_, err := c.A.Confirm(c.Context(), id, keyA)
	c.want(err, sharedlun.ErrNoKey)
	c.reserved(id)
	g := c.grant(c.B, keyB, 0)
	g.Reserve = false
	for range 2 {
		r, err := c.B.Register(c.Context(), id, g)
		if err != nil || r.Held() || !r.Has(keyB) {
			c.Errorf("%+v, %v", r, err)
		}
	}
	c.keeps(id, 0, 0, keyB)
	if !c.Write(c.A, id) {
		c.Error("A is kept out by a key alone")
	}
	_, err = c.B.Confirm(c.Context(), id, keyB)
	c.want(err, sharedlun.ErrNotReserved)
	c.must(c.register(c.A, id, keyA, 0))
	c.reserved(id, keyA, keyB)
}

// used: whoever uses the LUN on a node keeps it from getting a key, and not from keeping the one that it has.
func used(c *check) {
	id := c.login()
	end := c.Use(id)
	seen, err := c.A.GetTarget(c.Context(), c.Target, true)
	c.must(err)
	if len(seen.Luns) != 1 || len(seen.Luns[0].Users) != 1 || seen.Luns[0].UsersError != "" {
		c.Errorf("%+v", seen.Luns)
	}
	if seen, err = c.A.GetTarget(c.Context(), c.Target, false); err != nil || len(seen.Luns) != 1 || len(seen.Luns[0].Users) != 0 {
		c.Errorf("%+v, %v", seen.Luns, err)
	}
	c.want(c.register(c.A, id, keyA, 0), sharedlun.ErrInUse)
	c.reserved(id)
	end()
	c.must(c.register(c.A, id, keyA, 0))
	end = c.Use(id)
	c.must(c.register(c.A, id, keyA, 0))
	end()
}
