package csi

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"quarry.storage/quarry/controller/internal/decide"
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

func (i item) volume() *csi.Volume {
	return &csi.Volume{VolumeId: i.id.String(), CapacityBytes: i.seen.SizeBytes, AccessibleTopology: onNode(i.id.Node)}
}

func compare(a, b volumeid.ID) int {
	return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Name, b.Name))
}

// ListVolumes lists the volumes of all nodes.
func (d *controller) ListVolumes(ctx context.Context, req *csi.ListVolumesRequest) (*csi.ListVolumesResponse, error) {
	pg, err := readPage(req.GetMaxEntries(), req.GetStartingToken())
	if err != nil {
		return nil, err
	}
	nodes, err := d.nodes(ctx)
	if err != nil {
		return nil, err
	}
	items, next, err := d.list(ctx, nodes, pg, func(i item) bool { return !i.id.IsSnapshot() })
	if err != nil {
		return nil, err
	}
	resp := &csi.ListVolumesResponse{NextToken: next}
	for _, i := range items {
		resp.Entries = append(resp.Entries, &csi.ListVolumesResponse_Entry{
			Volume: i.volume(), Status: &csi.ListVolumesResponse_VolumeStatus{VolumeCondition: condition(i.condition)},
		})
	}
	return resp, nil
}

// page is a part of a list: it begins at an id, and has at most so many entries; all when 0.
type page struct {
	start *volumeid.ID
	limit int
}

// readPage reads what part is wanted. A token is the handle of the first entry.
func readPage(limit int32, token string) (page, error) {
	if limit < 0 {
		return page{}, refuse(volume.Invalid, fmt.Sprintf("max_entries is %d", limit))
	}
	p := page{limit: int(limit)}
	if token == "" {
		return p, nil
	}
	id, err := volumeid.Parse(token)
	if err != nil {
		return page{}, status.Error(codes.Aborted, "the starting token is none that was given out")
	}
	p.start = &id
	return p, nil
}

// list walks over the nodes in their order until the page is full. The token of the next page is empty when there is none.
func (d *Driver) list(ctx context.Context, nodes []string, pg page, keep func(item) bool) (items []item, next string, err error) {
	if pg.start != nil {
		nodes = slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return n < pg.start.Node })
	}
	for chunk := range slices.Chunk(nodes, atOnce) {
		found, err := d.ask(ctx, chunk)
		if err != nil {
			return nil, "", err
		}
		for _, i := range found {
			if !keep(i) || pg.start != nil && compare(i.id, *pg.start) < 0 {
				continue
			}
			if pg.limit > 0 && len(items) == pg.limit {
				return items, i.id.String(), nil
			}
			items = append(items, i)
		}
	}
	return items, "", nil
}

// ask asks some nodes at once and returns what they have in order.
func (d *Driver) ask(ctx context.Context, nodes []string) ([]item, error) {
	each := make([][]item, len(nodes))
	g, ctx := errgroup.WithContext(ctx)
	for i, name := range nodes {
		g.Go(func() (err error) {
			each[i], err = d.onNode(ctx, name)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return slices.Concat(each...), nil
}

// onNode lists one node in order. Of one that does not answer it lists what was last seen there.
func (d *Driver) onNode(ctx context.Context, name string) ([]item, error) {
	n := d.cfg.Agents.Node(name)
	if !n.Up() {
		return lastSeen(n), nil
	}
	volumes, _, err := d.cfg.Agents.ListVolumes(ctx, name, "")
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
		out = append(out, item{id: id, seen: v, condition: volume.ConditionOf(n, v)})
	}
	slices.SortFunc(out, func(a, b item) int { return compare(a.id, b.id) })
	return out, nil
}

func lastSeen(n decide.Node) []item {
	var out []item
	for _, g := range n.Groups {
		for _, name := range g.Volumes {
			if id, err := volumeid.New(n.Name, g.Name, name); err == nil {
				out = append(out, item{id: id, condition: volume.Away(n)})
			}
		}
	}
	slices.SortFunc(out, func(a, b item) int { return compare(a.id, b.id) })
	return out
}
