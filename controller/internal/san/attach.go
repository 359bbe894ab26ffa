package san

import (
	"context"
	"slices"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/sharedlun"
)

// Release ends what somebody began: it takes a volume from its node. One that is not that volume any more, that another node has, or that its node got again since,
// without the mark of leaving, needs no work. A volume without the mark from the beginning is taken from a node that is fenced.
func (s *San) Release(ctx context.Context, ref sharedlun.Ref, v sharedlun.Volume) error {
	return s.Turn(ctx, ref, func(ctx context.Context, t *Turn) error {
		now := t.Group.Volume(v.Name)
		if now == nil || now.UUID != v.UUID || now.HeldBy != v.HeldBy || v.Leaving && !now.Leaving {
			return nil
		}
		if m, err := t.member(ctx, v.HeldBy); err != nil || !now.Leaving && !m.Fenced {
			return err
		}
		return t.TakeAway(ctx, v.Name)
	})
}

// Forget takes boots of a node off the readers of a volume, of which a person vouched that they have ended. A volume that is not that one any more needs no work. A node that
// answers, in the boot reported, has to say itself that it has no device of the volume, and in another boot: whoever vouched may not know that it runs.
func (s *San) Forget(ctx context.Context, ref sharedlun.Ref, v sharedlun.Volume, boots []sharedlun.Boot, reported string) error {
	return s.Turn(ctx, ref, func(ctx context.Context, t *Turn) error {
		now := t.Group.Volume(v.Name)
		if now == nil || now.UUID != v.UUID || !slices.ContainsFunc(now.Readers, func(b sharedlun.Boot) bool { return slices.Contains(boots, b) }) {
			return nil
		}
		for _, b := range boots {
			if b.ID == reported {
				return &decide.Fault{
					Kind: decide.FaultPrecondition, Node: b.Node, Call: "forget a reader of a volume",
					Message: "the node answers, and is in the boot in which volume " + v.Name + " was taken from it by a fence, so that it may still read it: boot it",
				}
			}
			if reported != "" {
				if err := t.bare(ctx, b.Node, *now); err != nil {
					return err
				}
			}
		}
		return t.Change(ctx, sharedlun.Change{Forget: &sharedlun.Forget{Name: v.Name, UUID: v.UUID, Boots: boots}})
	})
}

// Remove removes a volume that no node holds; uuid says which one of that name. One that a node may still read is a refusal that names the node.
func (t *Turn) Remove(ctx context.Context, name, uuid string) error {
	v := t.Group.Volume(name)
	if v == nil {
		return nil
	}
	remove := &sharedlun.Remove{Name: name, UUID: uuid}
	if v.UUID == uuid {
		var err error
		if remove.Boots, err = t.booted(ctx, *v); err != nil {
			return err
		}
	}
	return t.Change(ctx, sharedlun.Change{Remove: remove})
}
