package decide

import (
	"fmt"

	"quarry.storage/quarry/pkg/sharedlun"
)

// Order is a request to change a group.
type Order struct {
	Mandate sharedlun.Mandate
	// Sequence is the sequence number that the caller decided on.
	Sequence uint64
	Change   sharedlun.Change
}

// Change returns the step that an order needs; nil when what it asks for holds already. promised is the epoch that this node has on its own disk.
//
// An order that holds already is no error, whatever it was decided on: the answer to an earlier one may have been lost. Every other refusal
// comes behind that of the sequence number, for it was found in another group than the caller's.
func Change(g sharedlun.Group, promised uint64, o Order) (Step, error) {
	if err := valid(o.Change); err != nil {
		return nil, err
	}
	if err := mayWrite(g, promised, o); err != nil {
		return nil, err
	}
	step, err := wanted(g, o)
	switch {
	case err == nil && step == nil:
		return nil, nil
	case o.Sequence != g.Sequence:
		return nil, fmt.Errorf("%w: it is at sequence number %d, the request was decided on %d", sharedlun.ErrMoved, g.Sequence, o.Sequence)
	}
	return step, err
}

// valid wants exactly one change, with parts that LVM takes.
func valid(c sharedlun.Change) error {
	var errs []error
	set := 0
	if c.TakeOver {
		set++
	}
	add := func(is bool, check func() error) {
		if is {
			set++
			errs = append(errs, check())
		}
	}
	add(c.Create != nil, func() error { return validCreate(*c.Create) })
	add(c.Grow != nil, func() error { return first(meant(c.Grow.Name, c.Grow.UUID), positive(c.Grow.SizeBytes)) })
	add(c.Remove != nil, func() error { return first(meant(c.Remove.Name, c.Remove.UUID), booted(c.Remove.Boots)) })
	for _, h := range []*sharedlun.Hold{c.Hold, c.Making, c.Used} {
		add(h != nil, func() error { return first(validHold(*h), nothingReady(*h)) })
	}
	add(c.Leave != nil, func() error { return first(validHold(*c.Leave), sectors(c.Leave.ReadyBytes)) })
	add(c.Release != nil, func() error { return validRelease(*c.Release) })
	add(c.Ready != nil, func() error {
		return first(meant(c.Ready.Name, c.Ready.UUID), positive(c.Ready.Bytes), sectors(c.Ready.Bytes))
	})
	add(c.Copied != nil, func() error {
		return first(meant(c.Copied.Name, c.Copied.UUID), positive(c.Copied.Bytes), sectors(c.Copied.Bytes))
	})
	add(c.Void != nil, func() error { return meant(c.Void.Name, c.Void.UUID) })
	add(c.Forget != nil, func() error { return first(meant(c.Forget.Name, c.Forget.UUID), booted(c.Forget.Boots)) })
	if set != 1 {
		return fmt.Errorf("%w: %d changes in one request", sharedlun.ErrInvalid, set)
	}
	return first(errs...)
}

// meant wants the name and the UUID of a volume: another one may have been given the name since the request was decided on.
func meant(name, uuid string) error {
	return first(sharedlun.CheckName(name), sharedlun.CheckUUID("volume", uuid))
}

func validHold(h sharedlun.Hold) error {
	return first(meant(h.Name, h.UUID), sharedlun.CheckNode(h.Node))
}

// nothingReady wants a change that says nothing of what is ready.
func nothingReady(h sharedlun.Hold) error {
	if h.ReadyBytes != 0 {
		return fmt.Errorf("%w: %d bytes ready in a change that does not mark the volume as leaving", sharedlun.ErrInvalid, h.ReadyBytes)
	}
	return nil
}

func validRelease(r sharedlun.Release) error {
	err := first(validHold(r.Hold), nothingReady(r.Hold))
	if err == nil && r.FencedBootID != "" {
		err = sharedlun.Boot{Node: r.Node, ID: r.FencedBootID}.Check()
	}
	return err
}

func booted(boots []sharedlun.Boot) error {
	for _, b := range boots {
		if err := b.Check(); err != nil {
			return err
		}
	}
	return nil
}

func validCreate(c sharedlun.Create) error {
	for _, t := range c.Tags {
		if err := sharedlun.CheckTag(t); err != nil {
			return err
		}
	}
	var holder, origin error
	if c.HeldBy != "" {
		holder = sharedlun.CheckNode(c.HeldBy)
	}
	switch {
	case c.Origin != (sharedlun.Origin{}):
		origin = c.Origin.Check()
	case c.Snapshot:
		origin = fmt.Errorf("%w: a snapshot of nothing", sharedlun.ErrInvalid)
	}
	return first(sharedlun.CheckName(c.Name), positive(c.SizeBytes), holder, origin)
}

func positive(bytes int64) error {
	if bytes <= 0 {
		return fmt.Errorf("%w: %d bytes", sharedlun.ErrInvalid, bytes)
	}
	return nil
}

// sectors wants what can be zeroed from there on.
func sectors(bytes int64) error {
	if bytes < 0 || bytes%512 != 0 {
		return fmt.Errorf("%w: %d bytes are no whole sectors of 512", sharedlun.ErrInvalid, bytes)
	}
	return nil
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// mayWrite holds the epochs against each other: only a take-over may have a later one than the group.
func mayWrite(g sharedlun.Group, promised uint64, o Order) error {
	epoch := o.Mandate.Epoch
	if err := Promised(promised, epoch); err != nil {
		return err
	}
	switch {
	case epoch < g.Epoch:
		return fmt.Errorf("%w: this writer has epoch %d, the group was changed by that of epoch %d", sharedlun.ErrOldEpoch, epoch, g.Epoch)
	case epoch > g.Epoch && !o.Change.TakeOver:
		return fmt.Errorf("%w: the group has epoch %d, and a writer of epoch %d has to take it over first", sharedlun.ErrOldEpoch, g.Epoch, epoch)
	}
	return nil
}

// Promised refuses an epoch that is older than the one that this node has on its own disk, or none.
func Promised(promised, epoch uint64) error {
	switch {
	case epoch == 0:
		return fmt.Errorf("%w: no epoch", sharedlun.ErrInvalid)
	case epoch < promised:
		return fmt.Errorf("%w: this writer has epoch %d, and this node promised to leave the group to that of epoch %d", sharedlun.ErrOldEpoch, epoch, promised)
	}
	return nil
}

// wanted is the step that a change needs in a group that may be changed.
func wanted(g sharedlun.Group, o Order) (Step, error) {
	c := o.Change
	switch {
	case c.TakeOver:
		if o.Mandate.Epoch == g.Epoch {
			return nil, nil
		}
		return SetEpoch{Epoch: o.Mandate.Epoch}, nil
	case c.Create != nil:
		return create(g, *c.Create)
	case c.Remove != nil:
		return remove(g, *c.Remove)
	case c.Leave != nil:
		return leave(g, *c.Leave)
	case c.Release != nil:
		return release(g, *c.Release)
	case c.Grow != nil:
		return grow(g, *c.Grow)
	case c.Hold != nil:
		return hold(g, *c.Hold)
	case c.Forget != nil:
		return forget(g, *c.Forget)
	case c.Making != nil:
		return making(g, *c.Making)
	case c.Used != nil:
		return used(g, *c.Used)
	case c.Copied != nil:
		return copied(g, *c.Copied)
	case c.Void != nil:
		return void(g, *c.Void)
	}
	return ready(g, *c.Ready)
}
