package iscsi

import (
	"context"

	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/sharedlun"
)

// firstUse says on the LUN what becomes of a volume that no pod has seen yet: one that is wanted as a raw device may be seen at once, and holds its user's data from
// then on. Otherwise the node that holds it may make its first filesystem. What an earlier node began to make holds no data, for no pod saw it: the new node
// writes it over. A volume that the node had before the call may get its filesystem there right now, and is shown to nobody as a raw device meanwhile: whoever
// detaches it ends that.
func (t turn) firstUse(ctx context.Context, v sharedlun.Volume, block, hadIt bool) error {
	now, err := t.same(v)
	switch {
	case err != nil || now.Used:
		return err
	case block && hadIt && now.MakingOn == now.HeldBy:
		return volume.Refuse(volume.Precondition, "volume %s is attached to node %s with a filesystem, which is being made: detach it before it is attached as a raw device",
			now.Name, now.HeldBy)
	case block:
		return t.used(ctx, now)
	case now.MakingOn == now.HeldBy:
		return nil
	}
	return t.Change(ctx, sharedlun.Change{Making: &sharedlun.Hold{Name: now.Name, UUID: now.UUID, Node: now.HeldBy}})
}

// used lets pods of the node that holds a volume see it.
func (t turn) used(ctx context.Context, v sharedlun.Volume) error {
	return t.Change(ctx, sharedlun.Change{Used: &sharedlun.Hold{Name: v.Name, UUID: v.UUID, Node: v.HeldBy}})
}

// format has the first filesystem of a volume made on the node that holds it, and then lets pods see the volume. Whether it is made is asked in the turn: what
// a node says counts for as long as nobody else changes the group.
func (b *Backend) format(ctx context.Context, s storage, v sharedlun.Volume, fsType string) error {
	for !v.Used {
		if err := b.waitFormat(ctx, s, v, fsType); err != nil {
			return err
		}
		err := b.turn(ctx, s, func(ctx context.Context, t turn) error {
			now, err := t.same(v)
			switch {
			case err != nil:
				return err
			case now.HeldBy != v.HeldBy || now.Leaving:
				return taken(v)
			}
			done := now.Used
			if !done {
				done, err = b.firstUse(ctx, t, s, now, fsType)
			}
			if v = now; err == nil {
				v.Used = done
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// firstUse lets pods see a volume whose filesystem is there, and reports whether it is.
func (b *Backend) firstUse(ctx context.Context, t turn, s storage, v sharedlun.Volume, fsType string) (bool, error) {
	cred, err := t.credential(s, v)
	if err != nil {
		return false, err
	}
	done, err := b.Nodes.Format(ctx, v.HeldBy, s.ref, cred, v, fsType)
	if err == nil && done {
		err = t.used(ctx, v)
	}
	return done, err
}

// waitFormat waits until a volume has its first filesystem, as long as the call has time for it.
func (b *Backend) waitFormat(ctx context.Context, s storage, v sharedlun.Volume, fsType string) error {
	cred, err := b.credential(ctx, s, v)
	if err != nil {
		return err
	}
	late := volume.Refuse(volume.Unfinished, "the filesystem of volume %s is being made on node %s", v.Name, v.HeldBy)
	return b.until(ctx, func() error { return late }, func() (bool, error) {
		return b.Nodes.Format(ctx, v.HeldBy, s.ref, cred, v, fsType)
	})
}

// taken is the error of a call whose volume another one took from the node meanwhile.
func taken(v sharedlun.Volume) error {
	return volume.Refuse(volume.Unavailable, "volume %s was taken from node %s meanwhile", v.Name, v.HeldBy)
}
