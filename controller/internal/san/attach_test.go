package san

import (
	"context"

	"quarry.storage/quarry/pkg/sharedlun"
)

// Attach gives a volume to a node and has it mapped there, as drivers do.
func (s *San) Attach(ctx context.Context, ref sharedlun.Ref, name, node string) (sharedlun.Mapping, error) {
	var v sharedlun.Volume
	var m Member
	var sequence uint64
	err := s.Turn(ctx, ref, func(ctx context.Context, t *Turn) (err error) {
		if v, err = t.Hold(ctx, name, node); err != nil {
			return err
		}
		sequence = t.Group.Sequence
		m, err = t.member(ctx, node)
		return err
	})
	if err != nil {
		return sharedlun.Mapping{}, err
	}
	// Nobody has to hold the turn for it: the node maps the volume only if the LUN says that it is its own.
	return s.cfg.Nodes.Map(ctx, node, ref, m.Credential, v, sequence)
}

// Detach takes a volume from a node, or from whichever has it when that is empty, as drivers do.
func (s *San) Detach(ctx context.Context, ref sharedlun.Ref, name, node string) error {
	return s.Turn(ctx, ref, func(ctx context.Context, t *Turn) error {
		if v := t.Group.Volume(name); v == nil || node != "" && v.HeldBy != node {
			return nil
		}
		return t.TakeAway(ctx, name)
	})
}

// Remove removes a volume in a turn of its own.
func (s *San) Remove(ctx context.Context, ref sharedlun.Ref, name, uuid string) error {
	return s.Turn(ctx, ref, func(ctx context.Context, t *Turn) error { return t.Remove(ctx, name, uuid) })
}
