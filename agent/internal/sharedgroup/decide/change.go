package decide

import (
	"fmt"
	"slices"
	"strconv"

	"quarry.storage/quarry/pkg/sharedlun"
)

// Order is a request to change a group.
type Order struct {
	Writer sharedlun.Writer
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
	add(c.Grow != nil, func() error { return first(sharedlun.CheckName(c.Grow.Name), positive(c.Grow.SizeBytes)) })
	add(c.Remove != nil, func() error {
		return first(sharedlun.CheckName(c.Remove.Name), sharedlun.CheckUUID("volume", c.Remove.UUID))
	})
	for _, h := range []*sharedlun.Hold{c.Hold, c.Leave, c.Release} {
		add(h != nil, func() error { return first(sharedlun.CheckName(h.Name), sharedlun.CheckNode(h.Node)) })
	}
	add(c.Ready != nil, func() error {
		return first(sharedlun.CheckName(c.Ready.Name), positive(c.Ready.Bytes), sectors(c.Ready.Bytes))
	})
	if set != 1 {
		return fmt.Errorf("%w: %d changes in one request", sharedlun.ErrInvalid, set)
	}
	return first(errs...)
}

func validCreate(c sharedlun.Create) error {
	for _, t := range c.Tags {
		if err := sharedlun.CheckTag(t); err != nil {
			return err
		}
	}
	return first(sharedlun.CheckName(c.Name), positive(c.SizeBytes))
}

func positive(bytes int64) error {
	if bytes <= 0 {
		return fmt.Errorf("%w: %d bytes", sharedlun.ErrInvalid, bytes)
	}
	return nil
}

// sectors wants what can be zeroed from there on.
func sectors(bytes int64) error {
	if bytes%512 != 0 {
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
	epoch := o.Writer.Epoch
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
		if o.Writer.Epoch == g.Epoch {
			return nil, nil
		}
		return SetEpoch{Epoch: o.Writer.Epoch}, nil
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
	}
	return ready(g, *c.Ready)
}

func find(g sharedlun.Group, name string) (sharedlun.Volume, error) {
	v := g.Volume(name)
	if v == nil {
		return sharedlun.Volume{}, fmt.Errorf("volume %s in group %s: %w", name, g.Name, sharedlun.ErrNotFound)
	}
	return *v, nil
}

func create(g sharedlun.Group, c sharedlun.Create) (Step, error) {
	size, err := whole(g, c.SizeBytes)
	if err != nil {
		return nil, err
	}
	tags := slices.Compact(slices.Sorted(slices.Values(c.Tags)))
	v := g.Volume(c.Name)
	switch {
	case v == nil && size > g.FreeBytes:
		return nil, noRoom(g, size)
	case v == nil:
		return MakeVolume{Name: c.Name, SizeBytes: size, Tags: tags}, nil
	case v.SizeBytes != size:
		return nil, fmt.Errorf("volume %s: %w, with %d bytes, not %d", c.Name, sharedlun.ErrExists, v.SizeBytes, size)
	case !slices.Equal(v.Tags, tags):
		return nil, fmt.Errorf("volume %s: %w, with the tags %q, not %q", c.Name, sharedlun.ErrExists, v.Tags, tags)
	}
	return nil, nil
}

// whole is a size in whole extents.
func whole(g sharedlun.Group, bytes int64) (int64, error) {
	if g.ExtentBytes <= 0 {
		return 0, fmt.Errorf("%w: extents of %d bytes", sharedlun.ErrUnknown, g.ExtentBytes)
	}
	if bytes > g.SizeBytes {
		return 0, noRoom(g, bytes)
	}
	return (bytes + g.ExtentBytes - 1) / g.ExtentBytes * g.ExtentBytes, nil
}

func noRoom(g sharedlun.Group, bytes int64) error {
	return fmt.Errorf("%w: group %s has %d bytes free, %d more are asked for", sharedlun.ErrNoSpace, g.Name, g.FreeBytes, bytes)
}

func grow(g sharedlun.Group, c sharedlun.Grow) (Step, error) {
	v, err := find(g, c.Name)
	if err != nil {
		return nil, err
	}
	size, err := whole(g, c.SizeBytes)
	switch {
	case err != nil:
		return nil, err
	case size <= v.SizeBytes:
		return nil, nil
	case size-v.SizeBytes > g.FreeBytes:
		return nil, noRoom(g, size-v.SizeBytes)
	}
	return ExtendVolume{Volume: v, SizeBytes: size}, nil
}

// remove needs the UUID: another volume may have been given the name since.
func remove(g sharedlun.Group, c sharedlun.Remove) (Step, error) {
	v := g.Volume(c.Name)
	switch {
	case v == nil:
		return nil, nil
	case v.UUID != c.UUID:
		return nil, fmt.Errorf("volume %s: %w, with the UUID %s, not %s", c.Name, sharedlun.ErrExists, v.UUID, c.UUID)
	case v.HeldBy != "":
		return nil, fmt.Errorf("volume %s: %w: %s", c.Name, sharedlun.ErrHeld, v.HeldBy)
	}
	return RemoveVolume{Volume: *v}, nil
}

func hold(g sharedlun.Group, c sharedlun.Hold) (Step, error) {
	v, err := find(g, c.Name)
	switch {
	case err != nil:
		return nil, err
	case v.HeldBy == c.Node && v.Leaving:
		// It is being taken from the node: that has to end first.
		return nil, fmt.Errorf("volume %s is leaving node %s: %w", c.Name, c.Node, sharedlun.ErrHeld)
	case v.HeldBy == c.Node:
		return nil, nil
	case v.HeldBy != "":
		return nil, fmt.Errorf("volume %s: %w, and is %w: %s, not %s", c.Name, sharedlun.ErrExists, sharedlun.ErrHeld, v.HeldBy, c.Node)
	}
	return Retag{Volume: v, Add: []string{sharedlun.TagHeldBy + c.Node}}, nil
}

func leave(g sharedlun.Group, c sharedlun.Hold) (Step, error) {
	v := g.Volume(c.Name)
	if v == nil || v.HeldBy != c.Node || v.Leaving {
		return nil, nil
	}
	return Retag{Volume: *v, Add: []string{sharedlun.TagLeaving}}, nil
}

// release takes a volume from a node that nobody maps it on any more: without the mark a late order could have mapped it since it was unmapped.
func release(g sharedlun.Group, c sharedlun.Hold) (Step, error) {
	v := g.Volume(c.Name)
	switch {
	case v == nil || v.HeldBy != c.Node:
		return nil, nil
	case !v.Leaving:
		return nil, fmt.Errorf("volume %s is not leaving node %s: %w", c.Name, c.Node, sharedlun.ErrHeld)
	}
	return Retag{Volume: *v, Remove: []string{sharedlun.TagHeldBy + c.Node, sharedlun.TagLeaving}}, nil
}

func ready(g sharedlun.Group, c sharedlun.Ready) (Step, error) {
	v, err := find(g, c.Name)
	switch {
	case err != nil:
		return nil, err
	case c.Bytes > v.SizeBytes:
		return nil, fmt.Errorf("%w: %d bytes of volume %s ready, it has %d", sharedlun.ErrInvalid, c.Bytes, c.Name, v.SizeBytes)
	case c.Bytes <= v.ReadyBytes:
		return nil, nil
	}
	step := Retag{Volume: v, Add: []string{sharedlun.TagReady + strconv.FormatInt(c.Bytes, 10)}}
	if v.ReadyBytes > 0 {
		step.Remove = []string{sharedlun.TagReady + strconv.FormatInt(v.ReadyBytes, 10)}
	}
	return step, nil
}
