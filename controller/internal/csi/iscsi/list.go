package iscsi

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"

	"quarry.storage/quarry/controller/internal/csi/frame"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/controller/internal/san"
	"quarry.storage/quarry/pkg/sharedlun"
)

// group reads the group of a storage, without a turn: through the writer, whose answer is the newest one, or else through another initiator.
func (b *Backend) group(ctx context.Context, s storage) (sharedlun.Group, error) {
	if s.problem != nil {
		return sharedlun.Group{}, s.problem
	}
	members, err := b.Fleet.Members(ctx, s.ref)
	if err != nil {
		return sharedlun.Group{}, err
	}
	record, _, err := b.Leases.Load(ctx, s.ref.OwnerUID)
	if err != nil {
		return sharedlun.Group{}, err
	}
	members = slices.DeleteFunc(members, func(m san.Member) bool { return !m.Up })
	slices.SortFunc(members, func(x, y san.Member) int {
		first := func(m san.Member) int {
			if m.Node == record.Writer {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(first(x), first(y)), cmp.Compare(x.Node, y.Node))
	})
	var failed error = volume.Refuse(volume.Unavailable, "no initiator of Iscsi %s can be asked: no agent answers that has its key", s.name())
	for _, m := range members {
		seen, err := b.Nodes.Contents(ctx, m.Node, s.ref)
		switch {
		case err == nil && seen.Group != nil && seen.Group.UUID == s.ref.UUID && record.Noted.Older(m.Node, *seen.Group) != "":
			return sharedlun.Group{}, volume.Refuse(volume.Unavailable, "Iscsi %s: %s", s.name(), record.Noted.Older(m.Node, *seen.Group))
		case err == nil && seen.Group != nil && seen.Group.UUID == s.ref.UUID:
			return *seen.Group, nil
		case err == nil:
			return sharedlun.Group{}, volume.Refuse(volume.Unavailable,
				"node %s does not find volume group %s of Iscsi %s on the LUN", m.Node, s.ref.UUID, s.name())
		case ctx.Err() != nil:
			return sharedlun.Group{}, err
		}
		failed = err
	}
	return sharedlun.Group{}, failed
}

// Volume returns a volume.
func (b *Backend) Volume(ctx context.Context, handle string) (frame.Volume, error) {
	s, name, err := b.find(ctx, handle)
	if err != nil {
		return frame.Volume{}, err
	}
	g, err := b.group(ctx, s)
	if err != nil {
		return frame.Volume{}, err
	}
	v := g.Volume(name)
	if v == nil {
		return frame.Volume{}, absent(handle)
	}
	return s.volume(*v), nil
}

// contents is a storage with its group as it was read.
type contents struct {
	storage
	sharedlun.Group
}

// groups reads the groups of all storages, or one of them, ordered by UUID: those that have handles from the given one on. One that cannot be read ends the list with
// an error.
func (b *Backend) groups(ctx context.Context, from, only string) iter.Seq2[contents, error] {
	return func(yield func(contents, error) bool) {
		all, err := b.storages(ctx)
		if err != nil {
			yield(contents{}, err)
			return
		}
		grouped := slices.SortedFunc(maps.Values(all), func(x, y storage) int { return cmp.Compare(x.ref.UUID, y.ref.UUID) })
		for _, s := range grouped {
			// Every handle of the group is below this text: '0' follows the slash.
			if len(s.groups) == 0 || s.problem == nil && s.ref.UUID+"0" <= from || only != "" && !slices.Contains(s.groups, only) {
				continue
			}
			g, err := b.group(ctx, s)
			if !yield(contents{s, g}, err) || err != nil {
				return
			}
		}
	}
}

// Volumes yields the volumes of all storages, ordered by handle. A group that cannot be read ends the list with an error: where its volumes are attached
// is not known.
func (b *Backend) Volumes(ctx context.Context, from string) iter.Seq2[frame.Volume, error] {
	return func(yield func(frame.Volume, error) bool) {
		for g, err := range b.groups(ctx, from, "") {
			if err != nil {
				yield(frame.Volume{}, err)
				return
			}
			for _, v := range g.Volumes {
				if one := g.volume(v); tagged(v) && !v.Snapshot && one.Handle >= from && !yield(one, nil) {
					return
				}
			}
		}
	}
}

// Capacity is what is free in the group of one Iscsi, or in all groups. at is the name of an Iscsi, which the topology names.
func (b *Backend) Capacity(ctx context.Context, parameters map[string]string, at string) (volume.Capacity, error) {
	all := map[string]storage{}
	var err error
	if len(parameters) > 0 {
		var one storage
		one, err = b.wanted(ctx, parameters)
		all[one.ref.OwnerUID] = one
	} else {
		all, err = b.storages(ctx)
	}
	if err != nil {
		return volume.Capacity{}, err
	}
	var sum volume.Capacity
	for _, s := range all {
		if s.owner == nil || len(s.groups) == 0 || at != "" && s.owner.Name != at {
			continue
		}
		g, err := b.group(ctx, s)
		if err != nil {
			return volume.Capacity{}, err
		}
		sum = sum.Plus(volume.Capacity{Available: g.FreeBytes, Largest: g.FreeBytes, Smallest: g.ExtentBytes})
	}
	return sum, nil
}
