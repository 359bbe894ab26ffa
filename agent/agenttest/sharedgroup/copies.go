package sharedgroup

import (
	"context"
	"fmt"

	"quarry.storage/quarry/agent/internal/sharedgroup/decide"
	"quarry.storage/quarry/pkg/sharedlun"
)

// Copy copies ranges of a LUN, one extent after the other, through devices that nobody else sees, and zeroes what is behind them.
func (d devices) Copy(ctx context.Context, c decide.Duplicate, sure func(context.Context) error, done func(int64)) error {
	if err := sure(ctx); err != nil {
		return err
	}
	d.n.san.mu.Lock()
	defer d.n.san.mu.Unlock()
	if d.n.zeroing[c.Volume] != nil {
		return fmt.Errorf("copy to volume %s: %w", c.Volume, sharedlun.ErrInUse)
	}
	to := &mapped{Mapped: decide.Mapped{Lun: c.Lun, Ranges: c.To, Live: true, Linear: true}, group: c.Group, volume: c.Volume, from: c.From}
	d.n.zeroing[c.Volume] = to
	defer delete(d.n.zeroing, c.Volume)
	from := extents(c.From)
	for i := range extents(c.To) {
		if err := d.copyExtent(ctx, c, from, to, i); err != nil {
			return err
		}
		done(int64(i+1) * extent)
	}
	return nil
}

// copyExtent copies one extent, or zeroes it. The lock is held by the caller.
func (d devices) copyExtent(ctx context.Context, c decide.Duplicate, from []int64, to *mapped, i int) error {
	d.n.san.mu.Unlock()
	err := c.Pace(ctx, extent)
	select {
	case <-d.n.gated(&d.n.zeroGate):
	case <-ctx.Done():
	}
	d.n.san.mu.Lock()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return err
	}
	if err := d.n.strikes(copyStep); err != nil {
		return err
	}
	l, err := d.n.san.find(wwidOf(c.Lun))
	if err != nil {
		return err
	}
	if err := d.n.touch(to, int64(i)*extent, false); err != nil {
		return err
	}
	if i >= len(from) {
		return nil
	}
	at := extents(to.Ranges)[i]
	if was, ok := l.written[from[i]]; ok {
		l.written[at] = was
	}
	if was, ok := l.files[from[i]]; ok {
		l.files[at] = was
	}
	return nil
}

// KillCopy has the next copying end with an error after some extents.
func (n *Node) KillCopy(extents int) { n.once(copyStep, extents) }

// Copies reports whether a volume is being copied to, or zeroed, on the node.
func (n *Node) Copies(volume string) bool {
	n.san.mu.Lock()
	defer n.san.mu.Unlock()
	return n.zeroing[volume] != nil
}

// Content is what lies in the extents of a volume, by its name: 0 for zeroes, and for each other write another number.
func (l *LUN) Content(name string) []int {
	l.san.mu.Lock()
	defer l.san.mu.Unlock()
	var out []int
	if l.group == nil || l.group.Volume(name) == nil {
		return nil
	}
	for _, at := range extents(l.group.Volume(name).Ranges) {
		out = append(out, l.written[at])
	}
	return out
}
