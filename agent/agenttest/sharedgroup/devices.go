package sharedgroup

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"quarry.storage/quarry/agent/internal/sharedgroup"
	"quarry.storage/quarry/agent/internal/sharedgroup/decide"
	"quarry.storage/quarry/pkg/sharedlun"
)

// mapped is a device of a node.
type mapped struct {
	decide.Mapped
	group, volume string
	loaded        []sharedlun.Range
	loadedCut     bool
	open          int
	// from is what a copying reads; empty for a zeroing.
	from []sharedlun.Range
}

// devices are those of the node.
type devices struct{ n *Node }

var _ sharedgroup.Devices = devices{}

// Number is the number of a LUN's device.
func (d devices) Number(_ context.Context, device string) (string, int64, error) {
	d.n.san.mu.Lock()
	defer d.n.san.mu.Unlock()
	l, err := d.n.san.find(strings.TrimPrefix(device, path("")))
	if err != nil {
		return "", 0, err
	}
	number := d.n.number(l.identity.WWID)
	if d.n.renumberIn--; d.n.renumberIn == 0 {
		d.n.renumbered++
	}
	return number, l.identity.SizeBytes, nil
}

// number is the number that the kernel of the node has given the device of a LUN. The lock is held by the caller.
func (n *Node) number(wwid string) string { return fmt.Sprintf("%s#%d", wwid, n.renumbered) }

// Renumber gives the devices of LUNs other numbers, as a session that was made anew does. It happens after a number was looked up so many times.
func (n *Node) Renumber(lookups int) {
	n.san.mu.Lock()
	defer n.san.mu.Unlock()
	n.renumberIn = lookups
}

// List tells the devices of a group, those of zeroing and copying too.
func (d devices) List(_ context.Context, group string) ([]decide.Mapped, error) {
	d.n.san.mu.Lock()
	defer d.n.san.mu.Unlock()
	var out []decide.Mapped
	for _, m := range d.n.mapped {
		if m.group == group {
			seen := m.Mapped
			seen.Ranges, seen.InUse = slices.Clone(m.Ranges), m.open > 0
			out = append(out, seen)
		}
	}
	for _, z := range d.n.zeroing {
		if z.group == group {
			out = append(out, z.apart()...)
		}
	}
	slices.SortFunc(out, func(a, b decide.Mapped) int {
		return cmp.Or(strings.Compare(a.VolumeUUID, b.VolumeUUID), cmp.Compare(a.Part, b.Part))
	})
	return out, nil
}

// apart are the devices of a zeroing or a copying that goes on.
func (m *mapped) apart() []decide.Mapped {
	to := m.Mapped
	to.VolumeUUID, to.Part, to.Path, to.InUse, to.Ranges = m.volume, sharedlun.PartNew, mapper+m.volume+"-new", true, slices.Clone(m.Ranges)
	if m.Cut {
		to.Linear, to.Ranges = false, nil
	}
	if len(m.from) == 0 {
		return []decide.Mapped{to}
	}
	from := to
	from.Part, from.Path = sharedlun.PartSource, mapper+m.volume+"-source"
	if !m.Cut {
		from.Ranges = slices.Clone(m.from)
	}
	return []decide.Mapped{to, from}
}

// Load makes a device have a table, in the steps of device-mapper.
func (d devices) Load(ctx context.Context, group, volume, lun string, ranges []sharedlun.Range, sure func(context.Context) error) error {
	d.n.san.mu.Lock()
	defer d.n.san.mu.Unlock()
	m := d.n.mapped[volume]
	if m != nil && m.Live && m.Linear && m.Lun != lun {
		return fmt.Errorf("load: %w: %s", sharedlun.ErrMisfit, volume)
	}
	return d.steps(ctx, m, group, volume, func(m *mapped) { m.loaded, m.loadedCut = slices.Clone(ranges), false }, lun, sure)
}

func (d devices) steps(
	ctx context.Context, m *mapped, group, volume string, load func(*mapped), lun string, sure func(context.Context) error,
) error {
	made := m == nil
	for i, step := range []func(){
		func() {
			if m == nil {
				m = &mapped{Mapped: decide.Mapped{VolumeUUID: volume}, group: group, volume: volume}
				d.n.mapped[volume] = m
			}
		},
		func() { m.Pending = false },
		func() { load(m); m.Pending = true },
		func() { m.Suspended = m.Live },
		func() {
			m.Ranges, m.Cut, m.Linear, m.Live = m.loaded, m.loadedCut, !m.loadedCut, true
			m.Pending, m.Suspended, m.Lun = false, false, lun
		},
		func() { m.Path = mapper + volume },
	} {
		if err := d.n.strikes(deviceStep); err != nil {
			return err
		}
		step()
		if i != loadedStep || sure == nil {
			continue
		}
		d.n.san.mu.Unlock()
		err := sure(ctx)
		d.n.san.mu.Lock()
		if err != nil {
			if m.Pending = false; made {
				delete(d.n.mapped, volume)
			}
			return err
		}
	}
	return nil
}

// loadedStep is the step that loads a table, which is not live then.
const loadedStep = 2

// Cut makes a device return errors.
func (d devices) Cut(ctx context.Context, group, volume string) error {
	d.n.san.mu.Lock()
	defer d.n.san.mu.Unlock()
	if z := d.n.zeroing[volume]; z != nil {
		z.Cut = true
	}
	m := d.n.mapped[volume]
	if m == nil || !m.Live || m.Cut && !m.Suspended {
		return nil
	}
	return d.steps(ctx, m, group, volume, func(m *mapped) { m.loaded, m.loadedCut = nil, true }, m.Lun, nil)
}

// Remove removes a device.
func (d devices) Remove(_ context.Context, _, volume string) error {
	d.n.san.mu.Lock()
	defer d.n.san.mu.Unlock()
	if d.n.zeroing[volume] != nil {
		return fmt.Errorf("device of volume %s: %w: it is being zeroed or copied", volume, sharedlun.ErrInUse)
	}
	m := d.n.mapped[volume]
	if m == nil {
		return nil
	}
	if m.open > 0 {
		return fmt.Errorf("device of volume %s: %w: it is open %d times", volume, sharedlun.ErrInUse, m.open)
	}
	if err := d.n.strikes(deviceStep); err != nil {
		return err
	}
	delete(d.n.mapped, volume)
	return nil
}

// Zero zeroes ranges of a LUN, one extent after the other, through a device that nobody else sees.
func (d devices) Zero(
	ctx context.Context, group, volume, lun string, ranges []sharedlun.Range, _ bool, sure func(context.Context) error, done func(int64),
) error {
	if err := sure(ctx); err != nil {
		return err
	}
	d.n.san.mu.Lock()
	defer d.n.san.mu.Unlock()
	if d.n.zeroing[volume] != nil {
		return fmt.Errorf("zero volume %s: %w", volume, sharedlun.ErrInUse)
	}
	apart := &mapped{Mapped: decide.Mapped{Lun: lun, Ranges: ranges, Live: true, Linear: true}, group: group, volume: volume}
	d.n.zeroing[volume] = apart
	defer delete(d.n.zeroing, volume)
	size := int64(0)
	for _, r := range ranges {
		size += r.Size
	}
	for at := int64(0); at < size; at += extent {
		d.n.san.mu.Unlock()
		select {
		case <-d.n.gated(&d.n.zeroGate):
		case <-ctx.Done():
		}
		d.n.san.mu.Lock()
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := d.n.touch(apart, at, false); err != nil {
			return err
		}
		done(min(at+extent, size))
	}
	return nil
}

// wwidOf is the LUN that a device is that a table was loaded for: the table keeps it, whatever the number is later.
func wwidOf(number string) string {
	wwid, _, _ := strings.Cut(number, "#")
	return wwid
}

// touch writes into the extent of a device in which a byte is: zeroes, or something else.
func (n *Node) touch(m *mapped, at int64, something bool) error {
	l, err := n.san.find(wwidOf(m.Lun))
	switch {
	case err != nil:
		return err
	case m.Cut || n.blind || !l.mayWrite(n.key):
		return fmt.Errorf("write to volume %s: I/O error", m.volume)
	}
	all := extents(m.Ranges)
	if at/extent >= int64(len(all)) {
		return fmt.Errorf("write to volume %s at byte %d: no space", m.volume, at)
	}
	if something {
		l.writes++
		l.written[all[at/extent]] = l.writes
	} else {
		delete(l.written, all[at/extent])
		delete(l.files, all[at/extent])
	}
	return nil
}

// Write writes something through the device of a volume.
func (n *Node) Write(volume string, at int64) error {
	n.san.mu.Lock()
	defer n.san.mu.Unlock()
	m := n.mapped[volume]
	if m == nil || !m.Live || m.Suspended {
		return fmt.Errorf("device of volume %s: %w", volume, sharedlun.ErrNotFound)
	}
	return n.touch(m, at, true)
}

// Blank reports whether a reader of the volume finds zeroes between two offsets.
func (n *Node) Blank(volume string, from, to int64) bool {
	n.san.mu.Lock()
	defer n.san.mu.Unlock()
	m := n.mapped[volume]
	if m == nil || !m.Linear {
		return false
	}
	l, err := n.san.find(wwidOf(m.Lun))
	for i, at := range extents(m.Ranges) {
		if offset := int64(i) * extent; err == nil && l.written[at] != 0 && offset < to && offset+extent > from {
			return false
		}
	}
	return err == nil
}

// Open opens the device of a volume, as a mount does.
func (n *Node) Open(volume string) (closing func(), err error) {
	n.san.mu.Lock()
	defer n.san.mu.Unlock()
	m := n.mapped[volume]
	if m == nil || m.Path == "" {
		return nil, fmt.Errorf("open the device of volume %s: %w", volume, sharedlun.ErrInUse)
	}
	m.open++
	return func() {
		n.san.mu.Lock()
		defer n.san.mu.Unlock()
		m.open--
	}, nil
}
