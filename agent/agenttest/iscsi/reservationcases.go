package iscsi

import (
	"errors"
	"slices"
	"time"

	"quarry.storage/quarry/pkg/sharedlun"
)

// reserved checks what the target keeps, as both nodes read it.
func (c *check) reserved(id sharedlun.Identity, holder uint64, keys ...uint64) {
	c.Helper()
	kind := uint32(sharedlun.WriteExclusiveRegistrantsOnly)
	if holder == 0 {
		kind = 0
	}
	for _, a := range []Agent{c.A, c.B} {
		r, err := a.Reservation(c.Context(), id)
		if err != nil || !r.Supported || r.Type != kind || r.Holder != holder || !slices.Equal(r.Keys, keys) {
			c.Errorf("%+v, %v, want keys %x and holder %x", r, err, keys, holder)
		}
	}
}

func registrations(c *check) {
	id := c.login()
	c.reserved(id, 0)
	_, err := c.A.Confirm(c.Context(), id, keyA)
	c.want(err, sharedlun.ErrNoKey)
	_, err = c.A.Register(c.Context(), id, keyA, "another boot", 0)
	c.want(err, sharedlun.ErrRebooted)
	_, err = c.A.Register(c.Context(), id, 0, c.BootID, 0)
	c.want(err, sharedlun.ErrInvalid)
	c.reserved(id, 0)
	for range 2 {
		r, err := c.A.Register(c.Context(), id, keyA, c.BootID, 0)
		if err != nil || r.Writable(keyA) != nil {
			c.Errorf("%+v, %v", r, err)
		}
	}
	if !c.Write(c.A, id) || c.Write(c.B, id) {
		c.Error("only A may write")
	}
	_, err = c.B.Register(c.Context(), id, keyB, c.BootID, 0)
	c.must(err)
	c.reserved(id, keyA, keyA, keyB)
	if r, err := c.B.Confirm(c.Context(), id, keyB); err != nil || r.Generation == 0 || !c.Write(c.B, id) {
		c.Errorf("%+v, %v", r, err)
	}
	for _, key := range []uint64{0, keyA, keyC} {
		_, err = c.B.Confirm(c.Context(), id, key)
		c.want(err, sharedlun.ErrNoKey)
	}
	for range 2 {
		_, err = c.B.Unregister(c.Context(), id, keyB)
		c.must(err)
	}
	c.reserved(id, keyA, keyA)
	_, err = c.A.Unregister(c.Context(), id, keyA)
	c.must(err)
	c.reserved(id, 0)
}

func fencing(c *check) {
	id := c.login()
	_, err := c.A.Register(c.Context(), id, keyA, c.BootID, 0)
	c.must(err)
	_, err = c.B.Preempt(c.Context(), id, keyB, keyA)
	c.want(err, sharedlun.ErrNoKey)
	_, err = c.B.Register(c.Context(), id, keyB, c.BootID, 0)
	c.must(err)
	_, err = c.B.Preempt(c.Context(), id, keyB, keyB)
	c.want(err, sharedlun.ErrInvalid)
	for range 2 {
		r, err := c.B.Preempt(c.Context(), id, keyB, keyA)
		if err != nil || r.Has(keyA) || r.Writable(keyB) != nil {
			c.Errorf("%+v, %v", r, err)
		}
	}
	c.reserved(id, keyB, keyB)
	if c.Write(c.A, id) || !c.Write(c.B, id) {
		c.Error("only B may write")
	}
	_, err = c.A.Confirm(c.Context(), id, keyA)
	c.want(err, sharedlun.ErrNoKey)
	_, err = c.A.Preempt(c.Context(), id, keyA, keyB)
	c.want(err, sharedlun.ErrNoKey)
	c.reserved(id, keyB, keyB)
}

func oldKeys(c *check) {
	id := c.login()
	_, err := c.A.Register(c.Context(), id, keyA, c.BootID, 0)
	c.must(err)
	_, err = c.A.Register(c.Context(), id, keyC, c.BootID, 0)
	c.want(err, sharedlun.ErrNoKey)
	_, err = c.A.Register(c.Context(), id, keyC, c.BootID, keyB)
	c.want(err, sharedlun.ErrNoKey)
	c.reserved(id, keyA, keyA)
	for range 2 {
		_, err = c.A.Register(c.Context(), id, keyC, c.BootID, keyA)
		c.must(err)
	}
	c.reserved(id, keyC, keyC)
	// An old key that is nobody's is in nobody's way.
	_, err = c.B.Register(c.Context(), id, keyB, c.BootID, 0xdead)
	c.must(err)
	c.reserved(id, keyC, keyB, keyC)
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
	_, err := c.A.Register(c.Context(), id, keyA, c.BootID, 0)
	c.must(err)
	c.Swap()
	_, err = c.A.Device(c.Context(), id)
	c.want(err, sharedlun.ErrOtherLun)
	_, err = c.A.Confirm(c.Context(), id, keyA)
	c.want(err, sharedlun.ErrOtherLun)
	_, err = c.A.Register(c.Context(), id, keyC, c.BootID, keyA)
	c.want(err, sharedlun.ErrOtherLun)
}

func lostKeys(c *check) {
	id := c.login()
	_, err := c.A.Register(c.Context(), id, keyA, c.BootID, 0)
	c.must(err)
	c.LoseKeys()
	_, err = c.A.Confirm(c.Context(), id, keyA)
	c.want(err, sharedlun.ErrNoKey)
	c.reserved(id, 0)
	_, err = c.A.Register(c.Context(), id, keyA, c.BootID, 0)
	c.must(err)
	c.reserved(id, keyA, keyA)
}

func targetGone(c *check) {
	id := c.login()
	_, err := c.A.Register(c.Context(), id, keyA, c.BootID, 0)
	c.must(err)
	state := func(want sharedlun.SessionState) {
		c.Helper()
		for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
			seen, err := c.A.GetTarget(c.Context(), c.Target)
			c.must(err)
			s := seen.Sessions[0]
			if s.State == want && (s.Message == "") == (want == sharedlun.SessionUp) && seen.Luns[0].Paths[0].Up == (want == sharedlun.SessionUp) {
				return
			}
			if time.Now().After(end) {
				c.Fatalf("%+v", seen)
			}
		}
	}
	c.Stop()
	state(sharedlun.SessionDown)
	_, err = c.A.Confirm(c.Context(), id, keyA)
	c.want(err, sharedlun.ErrUnknown)
	_, err = c.A.Device(c.Context(), id)
	c.want(err, sharedlun.ErrUnknown)
	_, err = c.A.Login(c.Context(), c.Target, nil, false)
	c.wantReason(err, sharedlun.ReasonTargetUnreachable)
	c.Start()
	state(sharedlun.SessionUp)
	_, err = c.A.Confirm(c.Context(), id, keyA)
	c.must(err)
}
