package lvm

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"golang.org/x/sync/errgroup"

	"quarry.storage/quarry/controller/internal/csi/frame"
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/lvm/place"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/volumeid"
)

// atOnce is how many agents are asked at the same time.
const atOnce = 16

// item is one volume or snapshot in a list.
type item struct {
	id volumeid.ID
	// seen is what it is like; empty while its node does not answer.
	seen      decide.Volume
	condition volume.Condition
}

func (i item) volume() frame.Volume {
	return frame.Volume{Handle: i.id.String(), Bytes: i.seen.SizeBytes, Nodes: []string{i.id.Node}, Condition: i.condition}
}

func compare(a, b volumeid.ID) int {
	return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Name, b.Name))
}

// Volumes yields the volumes of all nodes.
func (b *Backend) Volumes(ctx context.Context, from string) iter.Seq2[frame.Volume, error] {
	return func(yield func(frame.Volume, error) bool) {
		nodes, err := b.nodes(ctx)
		if err != nil {
			yield(frame.Volume{}, err)
			return
		}
		for i, err := range b.list(ctx, nodes, "", from) {
			if (err != nil || !i.id.IsSnapshot()) && !yield(i.volume(), err) {
				return
			}
		}
	}
}

// list walks over the nodes in their order, from a handle on; over one group of them unless that is empty. It asks only as many nodes as the
// caller takes entries of.
func (b *Backend) list(ctx context.Context, nodes []string, group, from string) iter.Seq2[item, error] {
	return func(yield func(item, error) bool) {
		var start volumeid.ID
		if from != "" {
			var err error
			if start, err = parse(from); err != nil {
				yield(item{}, err)
				return
			}
		}
		nodes := slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return n < start.Node })
		for chunk := range slices.Chunk(nodes, atOnce) {
			found, err := b.ask(ctx, chunk, group)
			if err != nil {
				yield(item{}, err)
				return
			}
			for _, i := range found {
				if compare(i.id, start) >= 0 && !yield(i, nil) {
					return
				}
			}
		}
	}
}

// ask asks some nodes at once and returns what they have in order.
func (b *Backend) ask(ctx context.Context, nodes []string, group string) ([]item, error) {
	each := make([][]item, len(nodes))
	g, ctx := errgroup.WithContext(ctx)
	for i, name := range nodes {
		g.Go(func() (err error) {
			if group != "" {
				each[i], err = b.inGroup(ctx, b.Agents.Node(name), group)
				return err
			}
			each[i], err = b.onNode(ctx, name)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return slices.Concat(each...), nil
}

// onNode lists one node in order. Of a node that does not answer, and of a group that LVM cannot report there, it lists what was there when
// it was last seen.
func (b *Backend) onNode(ctx context.Context, name string) ([]item, error) {
	n := b.Agents.Node(name)
	if !n.Up() {
		return lastSeen(n, n.Groups), nil
	}
	if len(n.Unknown) == 0 {
		return b.orLastSeen(ctx, n, "", n.Groups)
	}
	var out []item
	for name, same := range byName(n.Groups) {
		if slices.ContainsFunc(same, func(g decide.Group) bool { return g.Unknown }) {
			out = append(out, lastSeen(n, same)...)
			continue
		}
		found, err := b.orLastSeen(ctx, n, name, same)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	slices.SortFunc(out, func(a, b item) int { return compare(a.id, b.id) })
	return out, nil
}

// byName returns the groups by name. An agent lists all groups of a name at once.
func byName(groups []decide.Group) map[string][]decide.Group {
	out := map[string][]decide.Group{}
	for _, g := range groups {
		out[g.Name] = append(out[g.Name], g)
	}
	return out
}

// orLastSeen lists a group of a node, or all when it has no name. When that cannot be told it lists what was in some groups when they were
// last seen.
func (b *Backend) orLastSeen(ctx context.Context, n decide.Node, group string, last []decide.Group) ([]item, error) {
	found, err := b.inGroup(ctx, n, group)
	if isFault(err, decide.FaultUnavailable) && ctx.Err() == nil {
		n.Problem = err.Error()
		return lastSeen(n, last), nil
	}
	return found, err
}

// inGroup lists a group of a node, or all when it has no name, in order.
func (b *Backend) inGroup(ctx context.Context, n decide.Node, group string) ([]item, error) {
	volumes, _, err := b.Agents.ListVolumes(ctx, n.Name, group)
	if err != nil {
		return nil, err
	}
	var out []item
	for _, v := range volumes {
		id, err := volumeid.Parse(v.ID)
		if err != nil || id.Name != v.Name || id.Group != v.Group || id.Node != n.Name {
			continue
		}
		out = append(out, item{id: id, seen: v, condition: place.ConditionOf(n, v)})
	}
	slices.SortFunc(out, func(a, b item) int { return compare(a.id, b.id) })
	return out, nil
}

func lastSeen(n decide.Node, groups []decide.Group) []item {
	var out []item
	for _, g := range groups {
		for _, name := range g.Volumes {
			if id, err := volumeid.New(n.Name, g.Name, name); err == nil {
				out = append(out, item{id: id, condition: place.Away(n)})
			}
		}
	}
	slices.SortFunc(out, func(a, b item) int { return compare(a.id, b.id) })
	return out
}
