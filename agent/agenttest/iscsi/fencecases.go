package iscsi

import (
	"strings"

	"quarry.storage/quarry/pkg/sharedlun"
)

// leaving: whoever reserved the LUN may leave, and the others are kept out still.
func leaving(c *check) {
	id := c.login()
	c.must(c.register(c.A, id, keyA, 0))
	c.must(c.register(c.B, id, keyB, 0))
	_, err := c.A.Unregister(c.Context(), id, keyA, false)
	c.must(err)
	c.reserved(id, keyB)
	if c.Write(c.A, id) || !c.Write(c.B, id) {
		c.Error("only B may write")
	}
	// And the other way round: whoever came later may leave, too.
	c.must(c.register(c.A, id, keyC, 0))
	_, err = c.B.Unregister(c.Context(), id, keyB, false)
	c.must(err)
	c.reserved(id, keyC)
	if !c.Write(c.A, id) || c.Write(c.B, id) {
		c.Error("only A may write")
	}
}

// released: a fence is one only while the LUN is reserved.
func released(c *check) {
	id := c.login()
	c.must(c.register(c.A, id, keyA, 0))
	c.must(c.register(c.B, id, keyB, 0))
	c.Release(c.A, keyA)
	r, err := c.B.Preempt(c.Context(), id, keyB, keyA)
	if err != nil || r.Writable(keyB) != nil {
		c.Errorf("%+v, %v", r, err)
	}
	c.reserved(id, keyB)
	if c.Write(c.A, id) || !c.Write(c.B, id) {
		c.Error("only B may write")
	}
	// One that is gone already is fenced only if the LUN is reserved.
	c.Release(c.B, keyB)
	_, err = c.B.Preempt(c.Context(), id, keyB, keyA)
	c.must(err)
	c.reserved(id, keyB)
	if c.Write(c.A, id) {
		c.Error("only B may write")
	}
	// Whoever leaves a LUN that nobody reserved leaves the others with a reservation.
	c.must(c.register(c.A, id, keyC, 0))
	c.Release(c.B, keyB)
	_, err = c.A.Unregister(c.Context(), id, keyC, false)
	c.must(err)
	c.reserved(id, keyB)
	// Another type keeps out whom it likes.
	c.Release(c.B, keyB)
	c.Reserve(c.B, keyB, 1)
	_, err = c.B.Preempt(c.Context(), id, keyB, keyA)
	c.want(err, sharedlun.ErrNotReserved)
	c.want(c.register(c.B, id, keyB, 0), sharedlun.ErrNotReserved)
}

// earlier: a reservation that one node holds becomes one that all hold, when its holder registers again, leaves, or is fenced.
func earlier(c *check) {
	const before = sharedlun.WriteExclusiveRegistrantsOnly
	id := c.login()
	for _, end := range []func(){
		func() {
			c.must(c.register(c.A, id, keyC, keyA))
			c.reserved(id, keyB, keyC)
		},
		func() {
			_, err := c.A.Unregister(c.Context(), id, keyA, false)
			c.must(err)
		},
		func() {
			_, err := c.B.Preempt(c.Context(), id, keyB, keyA)
			c.must(err)
		},
	} {
		c.must(c.register(c.A, id, keyA, 0))
		c.must(c.register(c.B, id, keyB, 0))
		c.Release(c.A, keyA)
		c.Reserve(c.A, keyA, before)
		c.must(c.register(c.B, id, keyB, 0))
		c.keeps(id, before, keyA, keyA, keyB)
		// It is what every node goes on with until then.
		_, err := c.B.Confirm(c.Context(), id, keyB)
		c.must(err)
		end()
		_, err = c.A.Unregister(c.Context(), id, keyC, false)
		c.must(err)
		c.reserved(id, keyB)
		if c.Write(c.A, id) || !c.Write(c.B, id) {
			c.Error("only B may write")
		}
	}
}

// mapped: what a node had mapped when it was fenced does not write with its next key.
func mapped(c *check) {
	id := c.login()
	end := c.Hold(id)
	c.want(c.register(c.A, id, keyA, 0), sharedlun.ErrInUse)
	c.reserved(id)
	end()
	c.must(c.register(c.A, id, keyA, 0))
	c.must(c.register(c.B, id, keyB, 0))
	end = c.Hold(id)
	c.must(c.register(c.A, id, keyA, 0))
	_, err := c.B.Preempt(c.Context(), id, keyB, keyA)
	c.must(err)
	for _, g := range [][2]uint64{{keyA, 0}, {keyC, 0}, {keyC, keyA}} {
		c.want(c.register(c.A, id, g[0], g[1]), sharedlun.ErrInUse)
	}
	c.reserved(id, keyB)
	if c.Write(c.A, id) {
		c.Error("a fenced node writes")
	}
	end()
	c.must(c.register(c.A, id, keyC, keyA))
	c.reserved(id, keyB, keyC)
}

// initiators: a node that the target does not tell from another gets no key.
func initiators(c *check) {
	id := c.login()
	for what, change := range map[string]func(*sharedlun.Grant){
		"another node has the name": func(g *sharedlun.Grant) { g.Others = append(g.Others, g.Initiator) },
		"it is written differently": func(g *sharedlun.Grant) { g.Others = []string{strings.ToUpper(g.Initiator)} },
		"the record is of another":  func(g *sharedlun.Grant) { g.Initiator, g.Others = c.NameB, nil },
	} {
		g := c.grant(c.A, keyA, 0)
		change(&g)
		if _, err := c.A.Register(c.Context(), id, g); err == nil {
			c.Errorf("%s: it got a key", what)
		} else {
			c.want(err, sharedlun.ErrInitiator)
		}
	}
	c.reserved(id)
	c.must(c.register(c.A, id, keyA, 0))
}

// none: a target that is on record with reservations, and has none, is refused.
func none(c *check) {
	id := c.login()
	c.must(c.register(c.A, id, keyA, 0))
	c.must(c.register(c.B, id, keyB, 0))
	c.Reservations(false)
	if r, err := c.A.Reservation(c.Context(), id, false); err != nil || r.Supported {
		c.Errorf("%+v, %v", r, err)
	}
	_, errRead := c.A.Reservation(c.Context(), id, true)
	_, errConfirm := c.A.Confirm(c.Context(), id, keyA)
	_, errLeave := c.A.Unregister(c.Context(), id, keyA, false)
	_, errPreempt := c.A.Preempt(c.Context(), id, keyA, keyB)
	for _, err := range []error{errRead, errConfirm, errLeave, errPreempt, c.register(c.A, id, keyA, 0)} {
		c.want(err, sharedlun.ErrNoReservations)
	}
	c.Reservations(true)
	_, err := c.A.Confirm(c.Context(), id, keyA)
	c.must(err)
}

// renewed: a session that is made anew leaves no key behind, and the last key of a LUN that is reserved keeps it from that.
func renewed(c *check) {
	id := c.login()
	renew := func(keys ...uint64) error {
		_, err := c.A.Login(c.Context(), c.Target, nil, &sharedlun.Renewal{Keys: keys})
		return err
	}
	c.must(c.register(c.A, id, keyA, 0))
	c.wantReason(renew(keyC, keyA), sharedlun.ReasonLastKey)
	c.reserved(id, keyA)
	_, err := c.A.Confirm(c.Context(), id, keyA)
	c.must(err)
	c.must(c.register(c.B, id, keyB, 0))
	// Another node's key is not what this path has.
	for range 2 {
		c.must(renew(keyB, keyC, keyA))
		c.reserved(id, keyB)
		_, err = c.A.Confirm(c.Context(), id, keyA)
		c.want(err, sharedlun.ErrNoKey)
	}
	c.must(c.register(c.A, id, keyA, 0))
	c.reserved(id, keyA, keyB)
	_, err = c.A.Unregister(c.Context(), id, keyA, false)
	c.must(err)
	c.reserved(id, keyB)
	_, err = c.B.Unregister(c.Context(), id, keyB, true)
	c.must(err)
	c.reserved(id)
}
