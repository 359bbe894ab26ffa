package agenttest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/move"
	volumeplan "quarry.storage/quarry/agent/internal/plan/volume"
)

// extents on one physical volume, from a byte of it on.
type extents struct {
	pv        string
	at, bytes int64
}

// place is one extent of a host.
type place struct {
	pv string
	at int64
}

// contents are what users of volumes wrote, by the extent.
type contents struct{ written map[place]string }

// taken are the extents of a physical volume that are allocated, in order.
func (g *group) taken(pv string) []extents {
	var out []extents
	add := func(on []extents) {
		for _, e := range on {
			if e.pv == pv {
				out = append(out, e)
			}
		}
	}
	for _, v := range g.volumes {
		add(v.on)
	}
	for _, p := range g.pools {
		add(p.on)
	}
	if g.moving != nil {
		add(g.moving.to)
	}
	slices.SortFunc(out, func(a, b extents) int { return cmp.Compare(a.at, b.at) })
	return out
}

// free are the extents of a physical volume that are not, in order.
func (g *group) free(pv string, size int64) []extents {
	var out []extents
	at := int64(0)
	for _, e := range append(g.taken(pv), extents{at: size}) {
		if e.at > at {
			out = append(out, extents{pv: pv, at: at, bytes: e.at - at})
		}
		at = e.at + e.bytes
	}
	return out
}

// allocate takes extents from the disks in their order, or from one of them.
func (h *Host) allocate(g *group, bytes int64, only ...string) ([]extents, error) {
	var from []extents
	for _, pv := range g.pvs {
		d := h.carrier(pv)
		if d != nil && (strings.Join(only, "") == "" || slices.Contains(only, d.Name)) {
			from = append(from, g.free(pv, d.pvSize())...)
		}
	}
	return take(from, bytes)
}

// allocateOver takes nothing but some extents, if there are any.
func (h *Host) allocateOver(g *group, bytes int64, over []plan.Extents) ([]extents, error) {
	if len(over) == 0 {
		return h.allocate(g, bytes)
	}
	var from []extents
	for _, o := range over {
		d := h.find(o.Path)
		if d == nil || !slices.Contains(g.pvs, d.pv) {
			return nil, errAbsent
		}
		low, high := o.First*extentBytes, (o.First+o.Count)*extentBytes
		for _, f := range g.free(d.pv, d.pvSize()) {
			if begin, end := max(f.at, low), min(f.at+f.bytes, high); begin < end {
				from = append(from, extents{pv: d.pv, at: begin, bytes: end - begin})
			}
		}
	}
	return take(from, bytes)
}

func take(from []extents, bytes int64) ([]extents, error) {
	left := roundUp(bytes)
	var out []extents
	for _, f := range from {
		if n := min(left, f.bytes); n > 0 {
			out = append(out, extents{pv: f.pv, at: f.at, bytes: n})
			left -= n
		}
	}
	if left > 0 {
		return nil, errNoSpace
	}
	return out, nil
}

// located tells where a tail lies.
func (h *Host) located(v volume) []plan.Extents {
	if v.TailOf == "" {
		return nil
	}
	var out []plan.Extents
	for _, e := range v.on {
		if d := h.carrier(e.pv); d != nil {
			out = append(out, plan.Extents{Path: d.path(), First: e.at / extentBytes, Count: e.bytes / extentBytes})
		}
	}
	return out
}

// places are the extents of a linear volume between two of its bytes, in order.
func (v *volume) places(from, to int64) []place {
	var out []place
	at := int64(0)
	for _, e := range v.on {
		for n := int64(0); n < e.bytes; n, at = n+extentBytes, at+extentBytes {
			if at+extentBytes > from && at < to {
				out = append(out, place{pv: e.pv, at: e.at + n})
			}
		}
	}
	return out
}

func (g *group) volumeUUID(v volume) string {
	return fakeUUID("lv", g.uuid, v.Name, strconv.FormatInt(v.created, 10))
}

// zeroLV refuses a volume that is not active or is another one than described. The kernel lets a device be opened exclusively beside those who
// have it open otherwise.
func (s session) zeroLV(ctx context.Context, step volumeplan.ZeroLV) error {
	return s.change(ctx, func() error {
		g := s.groups[step.Group]
		var v *volume
		if g != nil && g.uuid == step.GroupUUID {
			v = g.volume(step.Name)
		}
		switch {
		case v == nil || g.volumeUUID(*v) != step.UUID || !v.Active:
			return fmt.Errorf("zero %s/%s: no such device: %w", step.Group, step.Name, plan.ErrRefused)
		case step.From < 0 || step.From >= step.To || step.To > v.SizeBytes || v.Pool != "":
			return fmt.Errorf("zero %s/%s: %w", step.Group, step.Name, errors.New("outside of the volume"))
		}
		for _, p := range v.places(step.From, step.To) {
			delete(s.written, p)
		}
		if step.From == 0 {
			v.content = ""
		}
		return nil
	})
}

// markZeroed passes over a volume that is not ours.
func (s session) markZeroed(ctx context.Context, step volumeplan.MarkZeroed) error {
	return s.command(ctx, "lvchange", step.Group, func(g *group) error {
		v := g.tagged(step.Name, step.Tag)
		if v == nil {
			return errAbsent
		}
		v.ZeroedBytes, v.Unzeroed = unzeroed([]string{step.Now})
		return nil
	})
}

// unzeroed reads the tag that says how far a volume is zeroed.
func unzeroed(tags []string) (bytes int64, found bool) {
	bytes, err := strconv.ParseInt(valueOf(tags, plan.TagUnzeroed), 10, 64)
	return bytes, err == nil
}

// valueOf reads what follows a tag.
func valueOf(tags []string, prefix string) string {
	for _, t := range tags {
		if value, ok := strings.CutPrefix(t, prefix); ok {
			return value
		}
	}
	return ""
}

// moveExtents writes down first what is moved where, and takes it over when it is copied: an agent can die between the two. A move that was begun
// is finished in place of another one.
func (s session) moveExtents(ctx context.Context, step move.Extents) error {
	err := s.change(ctx, func() error {
		g, err := s.whole(step.Group, step.GroupDevices)
		d := s.find(step.Device)
		switch {
		case err != nil:
			return fmt.Errorf("pvmove %s: %w", step.Group, err)
		case d == nil || !slices.Contains(g.pvs, d.pv) || len(g.pools) > 0:
			return fmt.Errorf("pvmove %s: no data to move", step.Group)
		case g.goesOn(d.pv, step.GoOn):
			return nil
		case g.moving != nil || g.used(d.pv) == 0:
			return fmt.Errorf("pvmove %s: no data to move: %w", step.Group, plan.ErrRefused)
		}
		return s.beginMove(g, d, step)
	})
	if err != nil {
		return err
	}
	err = s.change(ctx, func() error {
		g, err := s.whole(step.Group, step.GroupDevices)
		if err == nil && g.moving != nil {
			s.takeOver(g)
			g.emptied = "pvmove0"
		}
		return err
	})
	if err != nil {
		return err
	}
	return s.dropEmptied(ctx, move.Drop{Group: step.Group, Name: "pvmove0", GroupDevices: step.GroupDevices})
}

// dropEmptied removes the volume that a move leaves: an agent can die before that.
func (s session) dropEmptied(ctx context.Context, step move.Drop) error {
	return s.change(ctx, func() error {
		g, err := s.whole(step.Group, step.GroupDevices)
		if err != nil {
			return fmt.Errorf("lvremove %s/%s: %w", step.Group, step.Name, err)
		}
		g.emptied = ""
		return nil
	})
}

// beginMove writes down what is moved off a disk, and where to.
func (s session) beginMove(g *group, d *disk, step move.Extents) error {
	var free []extents
	for _, path := range step.To {
		if to := s.find(path); to != nil && to.pv != d.pv && slices.Contains(g.pvs, to.pv) {
			free = append(free, g.free(to.pv, to.pvSize())...)
		}
	}
	m := &moving{from: d.pv, bytes: min(g.taken(d.pv)[0].bytes, step.Most*extentBytes)}
	var err error
	if m.to, err = take(free, m.bytes); err != nil {
		return err
	}
	g.moving = m
	return nil
}

// takeOver ends a pvmove: the extents are where they were copied to, with what was written there.
func (s session) takeOver(g *group) {
	m := g.moving
	g.moving = nil
	first := g.taken(m.from)[0]
	var was, is volume
	was.on, is.on = []extents{{pv: m.from, at: first.at, bytes: m.bytes}}, m.to
	from, to := was.places(0, m.bytes), is.places(0, m.bytes)
	for i := range from {
		if text, ok := s.written[from[i]]; ok {
			s.written[to[i]] = text
			delete(s.written, from[i])
		} else {
			delete(s.written, to[i])
		}
	}
	for i := range g.volumes {
		v := &g.volumes[i]
		for n, e := range v.on {
			if e.pv == m.from && e.at == first.at {
				rest := extents{pv: e.pv, at: e.at + m.bytes, bytes: e.bytes - m.bytes}
				on := slices.Concat(v.on[:n], m.to)
				if rest.bytes > 0 {
					on = append(on, rest)
				}
				v.on = append(on, v.on[n+1:]...)
				return
			}
		}
	}
}
