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
		for i, err := range b.list(ctx, nodes, from) {
			if (err != nil || !i.id.IsSnapshot()) && !yield(i.volume(), err) {
				return
			}
		}
	}
}

// list walks over the nodes in their order, from a handle on. It asks only as many nodes as the caller takes entries of.
func (b *Backend) list(ctx context.Context, nodes []string, from string) iter.Seq2[item, error] {
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
			found, err := b.ask(ctx, chunk)
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
func (b *Backend) ask(ctx context.Context, nodes []string) ([]item, error) {
	each := make([][]item, len(nodes))
	g, ctx := errgroup.WithContext(ctx)
	for i, name := range nodes {
		g.Go(func() (err error) {
			each[i], err = b.onNode(ctx, name)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return slices.Concat(each...), nil
}

// onNode lists one node in order. Of a node that does not answer it lists what was there when it was last seen.
func (b *Backend) onNode(ctx context.Context, name string) ([]item, error) {
	n := b.Agents.Node(name)
	if !n.Up() {
		return lastSeen(n), nil
	}
	volumes, _, err := b.Agents.ListVolumes(ctx, name, "")
	if isFault(err, decide.FaultUnavailable) && ctx.Err() == nil {
		n.Problem = err.Error()
		return lastSeen(n), nil
	}
	if err != nil {
		return nil, err
	}
	var out []item
	for _, v := range volumes {
		id, err := volumeid.Parse(v.ID)
		if err != nil || id.Name != v.Name || id.Group != v.Group || id.Node != name {
			continue
		}
		out = append(out, item{id: id, seen: v, condition: place.ConditionOf(n, v)})
	}
	slices.SortFunc(out, func(a, b item) int { return compare(a.id, b.id) })
	return out, nil
}

func lastSeen(n decide.Node) []item {
	var out []item
	for _, g := range n.Groups {
		for _, name := range g.Volumes {
			if id, err := volumeid.New(n.Name, g.Name, name); err == nil {
				out = append(out, item{id: id, condition: place.Away(n)})
			}
		}
	}
	slices.SortFunc(out, func(a, b item) int { return compare(a.id, b.id) })
	return out
}
