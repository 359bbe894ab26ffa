package lvm

import (
	"context"
	"iter"
	"slices"

	"quarry.storage/quarry/controller/internal/csi/frame"
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/volumeid"
)

// CreateSnapshot makes a snapshot of a thin volume, also while that is used. It can be restored at once.
func (b *Backend) CreateSnapshot(ctx context.Context, name, source string) (frame.Snapshot, error) {
	of, err := parse(source)
	if err != nil {
		return frame.Snapshot{}, err
	}
	id, err := volumeid.New(of.Node, of.Group, name)
	if err != nil {
		return frame.Snapshot{}, err
	}
	p, err := b.reach(ctx, id)
	if err != nil {
		return frame.Snapshot{}, err
	}
	if err := b.taken(ctx, id); err != nil {
		return frame.Snapshot{}, err
	}
	if err := b.takesSpace(ctx, p); err != nil {
		return frame.Snapshot{}, err
	}
	spec := p.spec()
	spec.Source, spec.Snapshot = of.Name, true
	v, err := b.Agents.CreateVolume(ctx, id.Node, spec)
	return snapshot(id, source, v), b.unless(ctx, of, err)
}

// taken refuses a name that a snapshot somewhere else has: it is one of another volume.
func (b *Backend) taken(ctx context.Context, id volumeid.ID) error {
	nodes, err := b.nodes(ctx)
	if err != nil {
		return err
	}
	for _, name := range nodes {
		for _, g := range b.Agents.Node(name).Groups {
			if (name != id.Node || g.Name != id.Group) && slices.Contains(g.Volumes, id.Name) {
				return volume.Refuse(volume.Conflict, "snapshot %s exists on node %s, of another volume", id.Name, name)
			}
		}
	}
	return nil
}

// DeleteSnapshot removes a snapshot; volumes that were restored from it stay. One that is absent is gone already, and one
// in a group that lacks a volume stays.
func (b *Backend) DeleteSnapshot(ctx context.Context, handle string) error {
	return b.DeleteVolume(ctx, handle)
}

// Snapshot observes one snapshot.
func (b *Backend) Snapshot(ctx context.Context, handle string) (frame.Snapshot, error) {
	id, err := parse(handle)
	if err != nil {
		return frame.Snapshot{}, err
	}
	p, err := b.reach(ctx, id)
	if err != nil {
		return frame.Snapshot{}, err
	}
	v, err := b.look(ctx, p)
	return snapshot(id, sourceOf(id, v), v), err
}

// Snapshots yields the snapshots of all nodes, of one volume, or one of them.
func (b *Backend) Snapshots(ctx context.Context, f frame.Filter, from string) iter.Seq2[frame.Snapshot, error] {
	return func(yield func(frame.Snapshot, error) bool) {
		nodes, group, err := b.which(ctx, f)
		if err != nil {
			yield(frame.Snapshot{}, err)
			return
		}
		for i, err := range b.list(ctx, nodes, group, from) {
			s := snapshot(i.id, sourceOf(i.id, i.seen), i.seen)
			fits := i.known() && (f.Handle == "" || s.Handle == f.Handle) && (f.Of == "" || s.Of == f.Of)
			if (fits || err != nil) && !yield(s, err) {
				return
			}
		}
	}
}

// known reports whether an entry is a snapshot of which more is known than its name.
func (i item) known() bool { return i.id.IsSnapshot() && i.seen.ID != "" }

// which returns the nodes that may have the snapshots, and the one group that may have those that are asked for. It is not known which
// snapshots a node has that does not answer, or a group that is not seen, lacks a disk, or is not the recorded one: asked for those, it returns an error and no list that may lack one.
func (b *Backend) which(ctx context.Context, f frame.Filter) (nodes []string, group string, err error) {
	for _, handle := range []string{f.Handle, f.Of} {
		if handle == "" {
			continue
		}
		id, err := parse(handle)
		if err != nil {
			return nil, "", err
		}
		p, err := b.reach(ctx, id)
		switch {
		case err != nil:
		case !p.seen:
			err = p.away()
		case !id.IsSnapshot() || !p.holds():
			// A list of all that a volume has would lack what is not shown.
			err = b.missed(ctx, p)
		}
		return []string{id.Node}, id.Group, err
	}
	nodes, err = b.nodes(ctx)
	return nodes, "", err
}

// sourceOf is the handle of the volume that a snapshot was made of, even if that is gone. Snapshots of earlier versions forget it then.
func sourceOf(id volumeid.ID, v decide.Volume) string {
	of, err := volumeid.New(id.Node, id.Group, v.Source)
	if err != nil {
		return ""
	}
	return of.String()
}

func snapshot(id volumeid.ID, of string, v decide.Volume) frame.Snapshot {
	return frame.Snapshot{Handle: id.String(), Of: of, Bytes: v.SizeBytes, Created: v.Created}
}
