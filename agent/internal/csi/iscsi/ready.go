package iscsi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"quarry.storage/quarry/agent/internal/csi"
	"quarry.storage/quarry/agent/internal/sharedgroup/decide"
	"quarry.storage/quarry/pkg/sharedlun"
)

// Ready holds a volume against what is on the LUN now, and records which one of its name it is.
func (s *Source) Ready(ctx context.Context, v csi.Volume, _ csi.Access) (csi.From, error) {
	id, err := sharedlun.Parse(v.Handle)
	if err != nil {
		return csi.From{}, err
	}
	a, err := attached(id, v)
	if err != nil {
		return csi.From{}, err
	}
	from, on, err := s.mine(ctx, id, a)
	if err != nil {
		return csi.From{}, err
	}
	r, err := s.cfg.Records.Load(id)
	if err != nil {
		return csi.From{}, err
	}
	if r.UUID != a.UUID {
		if err := s.cfg.Records.Save(id, Record{UUID: a.UUID}); err != nil {
			return csi.From{}, err
		}
	}
	from.UUID, from.MadeUnix = decide.FilesystemUUID(a.UUID), on.CreatedUnix
	return from, nil
}

// Showable refuses a raw device of which the LUN does not say, now, that it is this node's.
func (s *Source) Showable(ctx context.Context, v csi.Volume) error {
	id, err := sharedlun.Parse(v.Handle)
	if err != nil {
		return err
	}
	a, err := attached(id, v)
	if err == nil {
		_, _, err = s.mine(ctx, id, a)
	}
	return err
}

// mine refuses a volume that the LUN does not give to this node, and a device that does not lie where the LUN says, or shows what is not ready.
func (s *Source) mine(ctx context.Context, id sharedlun.ID, a sharedlun.Attached) (csi.From, sharedlun.Volume, error) {
	now, err := s.cfg.Groups.Get(ctx, a.Ref)
	if err != nil {
		return csi.From{}, sharedlun.Volume{}, fmt.Errorf("volume %s: %w", id, err)
	}
	if now.Group == nil || now.Group.UUID != id.Group {
		return csi.From{}, sharedlun.Volume{}, fmt.Errorf("volume %s: %w: the LUN does not have its group now: %s", id, csi.ErrUnavailable, now.Content)
	}
	s.forget(ctx, *now.Group)
	on := now.Group.Volume(id.Name)
	if err := held(id, a, on, s.cfg.Node); err != nil {
		return csi.From{}, sharedlun.Volume{}, err
	}
	if err := s.seen(ctx, id, a, *on); err != nil {
		return csi.From{}, *on, err
	}
	from, m, err := s.device(ctx, id, a.UUID)
	if errors.Is(err, csi.ErrNotThere) {
		err = fmt.Errorf("volume %s is attached to this node and not mapped: %w. The controller has it mapped once the node has its key on the LUN", id, csi.ErrUnavailable)
	}
	if err != nil {
		return csi.From{}, *on, err
	}
	path, err := s.cfg.Luns.Device(ctx, a.Ref.Lun)
	if err != nil {
		return csi.From{}, *on, fmt.Errorf("volume %s: %w", id, err)
	}
	lun, _, err := s.cfg.Devices.Number(ctx, path)
	if err != nil {
		return csi.From{}, *on, fmt.Errorf("LUN of volume %s: %w: %w", id, csi.ErrUnavailable, err)
	}
	return from, *on, shows(id, m, *on, lun)
}

// keep is how long a volume is remembered at least: what was read of the LUN may be older than a volume that was staged since.
const keep = time.Hour

// forget removes what is remembered of volumes that the LUN does not have any more, and that have no device here: a node that booted was never told that they
// are not used.
func (s *Source) forget(ctx context.Context, g sharedlun.Group) {
	stale := s.cfg.Records.Stale(g.UUID, time.Now().Add(-keep))
	if len(stale) == 0 {
		return
	}
	mapped, err := s.cfg.Devices.List(ctx, g.UUID)
	if err != nil {
		return
	}
	for _, id := range stale {
		r, err := s.cfg.Records.Load(id)
		if err != nil || g.Volume(id.Name) != nil || slices.ContainsFunc(mapped, func(m decide.Mapped) bool { return m.VolumeUUID == r.UUID }) {
			continue
		}
		// One that stays is tried again the next time.
		_ = s.cfg.Records.Remove(id)
	}
}

// held refuses a volume that is not this node's.
func held(id sharedlun.ID, a sharedlun.Attached, on *sharedlun.Volume, node string) error {
	switch {
	case on == nil || on.UUID != a.UUID:
		return fmt.Errorf("the LUN has no volume %s with the UUID %s: %w", id, a.UUID, csi.ErrNotThere)
	case on.HeldBy != node:
		return fmt.Errorf("volume %s: %w: it is for node %q, and this is %s", id, sharedlun.ErrHeld, on.HeldBy, node)
	case on.Leaving:
		return fmt.Errorf("volume %s: %w: it is being taken from this node", id, sharedlun.ErrHeld)
	}
	return nil
}

// shows refuses a device that is not the beginning of the volume, or more than what is ready of it.
func shows(id sharedlun.ID, m decide.Mapped, on sharedlun.Volume, lun string) error {
	switch {
	case !m.Linear || m.Cut || m.Suspended || m.Pending:
		return fmt.Errorf("volume %s: %w: its device is not in order (%+v). The controller maps it again", id, csi.ErrUnavailable, m)
	case m.Lun != lun:
		return fmt.Errorf("volume %s: %w: its device stands on %s, and the LUN is %s by now", id, sharedlun.ErrMisfit, m.Lun, lun)
	}
	left := on.ReadyBytes
	for i, r := range sharedlun.Merge(m.Ranges) {
		left -= r.Size
		want := sharedlun.Merge(on.Ranges)
		if i >= len(want) || r.Start != want[i].Start || r.Size > want[i].Size || r.Size < want[i].Size && i < len(sharedlun.Merge(m.Ranges))-1 {
			return fmt.Errorf("volume %s: %w: its device lies at %v, and the volume at %v", id, sharedlun.ErrMisfit, m.Ranges, on.Ranges)
		}
	}
	if left < 0 {
		return fmt.Errorf("volume %s: %w: its device shows %d bytes more than are zeroed", id, sharedlun.ErrMisfit, -left)
	}
	return nil
}
