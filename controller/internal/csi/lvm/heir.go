package lvm

import (
	"context"
	"fmt"
	"slices"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/lvm"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/volumeid"
)

// A volume or snapshot keeps the handle that it was made with when its group is imported on another node, until a person renames it. What a handle
// names may so be on another node than the one in the handle. The tag of the logical volume, which repeats the handle, tells.

// heir is a group of another node that has what a handle names.
type heir struct {
	node  string
	group decide.Group
	// meant is the UUID of that group, so that nothing is removed from another one of its name. It is empty where several groups of the name may have what the
	// handle names: then the agent takes the one that does.
	meant string
}

// holds reports whether the node in the handle has what that names.
func (p spot) holds() bool {
	g, seen := p.group()
	return seen && p.node.Up() && !g.Unknown && slices.Contains(g.Volumes, p.id.Name)
}

// inherited finds what a handle names on another node; nil if it is on none. It is an error if nobody can say: unknown is never absent.
func (b *Backend) inherited(ctx context.Context, p spot) (*heir, error) {
	which, err := b.candidates(ctx, p)
	if err != nil {
		return nil, err
	}
	members, err := b.members(ctx)
	if err != nil {
		return nil, err
	}
	var nodes []string
	for _, of := range members {
		for _, m := range of {
			if string(m.Spec.Node) == p.id.Node {
				continue
			}
			if err := p.mayRecord(m, b.Agents.Node(string(m.Spec.Node)), which.may); err != nil {
				return nil, err
			}
			nodes = append(nodes, string(m.Spec.Node))
		}
	}
	slices.Sort(nodes)
	for _, name := range slices.Compact(nodes) {
		if h, err := b.inheritedBy(ctx, p, b.Agents.Node(name), which); h != nil || err != nil {
			return h, err
		}
	}
	return nil, nil //nolint:nilnil // absent is no error
}

// lookedInto returns the UUIDs of the groups that do not have what a handle names, for inherited, or the agent of the node in the handle, looks
// into them. There are none if that node has what the handle names: nobody looked any further.
func (b *Backend) lookedInto(ctx context.Context, p spot) ([]string, error) {
	if p.holds() {
		return nil, nil
	}
	nodes, err := b.nodes(ctx)
	var out []string
	for _, name := range nodes {
		n := b.Agents.Node(name)
		for _, g := range n.Groups {
			// A person may have renamed a group: the agent of the node in the handle looks for the name only.
			if n.Up() && !g.Unknown && (name != p.id.Node || g.Name == p.id.Group) {
				out = append(out, g.UUID)
			}
		}
	}
	return out, err
}

// candidates says which groups may hold what a handle names: those that its PersistentVolumes have on record, or else any that no person declared
// lost. It is not in the group that was looked into on the node in the handle.
type candidates struct {
	recorded, lost []string
	lookedInto     string
}

func (b *Backend) candidates(ctx context.Context, p spot) (c candidates, err error) {
	if _, c.recorded, err = b.naming(ctx, p); err != nil {
		return c, err
	}
	own, _ := p.group()
	c.lookedInto = own.UUID
	c.lost, err = b.lostGroups(ctx)
	return c, err
}

func (c candidates) may(uuid string) bool {
	return !slices.Contains(c.lost, uuid) && (c.lookedInto == "" || uuid != c.lookedInto) && (len(c.recorded) == 0 || slices.Contains(c.recorded, uuid))
}

// incomplete reports whether a group lacks a disk that may know of what a handle names in a group of that name. A person may have renamed one that is on
// record.
func (c candidates) incomplete(g decide.Group, name string) bool {
	return g.Partial && c.may(g.UUID) && (g.Name == name || len(c.recorded) > 0)
}

// mayRecord refuses while nobody knows what is in the group that the Member of another node has on record, if that may be the one.
func (p spot) mayRecord(m *v1alpha1.Member, n decide.Node, may func(uuid string) bool) error {
	r := m.Spec.Group
	named := r != nil && (r.Name == p.id.Group || r.Name == "")
	if !named || r.UUID == "" || !may(r.UUID) || backend.Lost(m) || lvm.Gone(n, r) && n.Up() ||
		slices.ContainsFunc(n.Groups, func(g decide.Group) bool { return g.UUID == r.UUID }) {
		return nil
	}
	return volume.Refuse(volume.Unavailable, "%s is not on node %s, and may be on node %s, if its group was imported there: nobody can say what is in "+
		"volume group %s there%s", p.id.Name, p.id.Node, n.Name, r.Name, p.wayOut())
}

// inheritedBy looks for what a handle names on one node.
func (b *Backend) inheritedBy(ctx context.Context, p spot, n decide.Node, c candidates) (*heir, error) {
	has := func(g decide.Group) bool { return c.may(g.UUID) && slices.Contains(g.Volumes, p.id.Name) }
	for _, g := range slices.Concat(n.Groups, n.OtherNodes) {
		if !has(g) {
			if c.incomplete(g, p.id.Group) {
				// The disks that are there may all be of before: see faded.
				return nil, volume.Refuse(volume.Unavailable, "%s may be in volume group %s, which is on node %s now and does not show it, as a disk of the group is missing there. "+
					"It is asked again until the disk is back or the group has forgotten it", p.id.Name, g.Name, n.Name)
			}
			continue
		}
		if named, err := b.renamed(ctx, p.id, n.Name, g.Name); named || err != nil {
			return nil, err
		}
		if !n.Up() || g.Unknown || slices.ContainsFunc(n.OtherNodes, func(o decide.Group) bool { return o.UUID == g.UUID }) {
			return nil, volume.Refuse(volume.Unavailable, "%s may be in volume group %s, whose disks are on node %s, and nobody can look into it now",
				p.id.Name, g.Name, n.Name)
		}
		all, _, err := b.Agents.ListVolumes(ctx, n.Name, g.Name)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(all, func(v decide.Volume) bool { return v.Name == p.id.Name && v.ID == p.id.String() }) {
			return newHeir(n, g, has), nil
		}
	}
	return nil, nil //nolint:nilnil // absent is no error
}

// newHeir means the group by its UUID, unless another group of its name may be the one as well: then the agent takes the one that has the volume, or refuses.
func newHeir(n decide.Node, g decide.Group, may func(decide.Group) bool) *heir {
	h := &heir{n.Name, g, g.UUID}
	if slices.ContainsFunc(n.Groups, func(o decide.Group) bool { return may(o) && o.Name == g.Name && o.UUID != g.UUID }) {
		h.meant = ""
	}
	return h
}

// renamed reports whether an object stands for a volume or snapshot of that name under another node: it is that object's then. It asks the API
// server itself: a person made the object a moment ago perhaps, and what it stands for would be removed.
func (b *Backend) renamed(ctx context.Context, id volumeid.ID, node, group string) (bool, error) {
	now, err := volumeid.New(node, group, id.Name)
	if err != nil {
		return false, fmt.Errorf("name %s on node %s: %w", id.Name, node, err)
	}
	if id.IsSnapshot() {
		named, err := b.contents().With(ctx, now.String())
		return len(named) > 0, err
	}
	named, err := b.recordedAs(ctx, id.Name)
	return slices.ContainsFunc(named, func(h home) bool { return h.id == now }), err
}

// removeFrom removes what a handle names from the group that another node has by now.
func (b *Backend) removeFrom(ctx context.Context, p spot, h heir) error {
	if p.id.IsSnapshot() {
		for _, node := range []string{p.id.Node, h.node} {
			volumes, err := b.volumes(ctx, node)
			if err != nil {
				return err
			}
			if gap := lvm.Gap(node, h.group, volumes); gap != "" {
				return volume.Refuse(volume.Unavailable, "snapshot %s stays, for it may be the last copy of what is lost: on node %s %s", p.id.Name, h.node, gap)
			}
		}
	}
	err := b.Agents.DeleteVolume(ctx, h.node, decide.VolumeSpec{
		Group: h.group.Name, Owner: h.group.OwnerUID, GroupUUID: h.meant, Name: p.id.Name, ID: p.id.String(), Discard: p.discard,
	})
	if isFault(err, decide.FaultNotFound) {
		return volume.Refuse(volume.Unavailable, "volume group %s was on node %s a moment ago, and is not: its disks may be away, and %s with them",
			h.group.Name, h.node, p.id.Name)
	}
	return err
}
