package csi

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/types/known/timestamppb"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/volumeid"
)

// CreateSnapshot makes a snapshot of a thin volume, also while that is used. It can be restored at once.
func (d *controller) CreateSnapshot(ctx context.Context, req *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	if err := checkName(req.GetName()); err != nil {
		return nil, err
	}
	if err := volume.ParseSnapshot(req.GetParameters()); err != nil {
		return nil, err
	}
	of, err := volumeID(req.GetSourceVolumeId())
	if err != nil {
		return nil, err
	}
	id, err := volumeid.New(of.Node, of.Group, volumeid.Snapshot(req.GetName()))
	if err != nil {
		return nil, err
	}
	v, err := d.snapshot(ctx, id, of)
	if err != nil {
		return nil, err
	}
	return &csi.CreateSnapshotResponse{Snapshot: snapshot(id, of.String(), v)}, nil
}

func (d *Driver) snapshot(ctx context.Context, id, of volumeid.ID) (decide.Volume, error) {
	unlock, err := d.locks.tryLock(id.Name)
	if err != nil {
		return decide.Volume{}, err
	}
	defer unlock()
	p, err := d.reach(ctx, id)
	if err != nil {
		return decide.Volume{}, err
	}
	if err := d.taken(ctx, id); err != nil {
		return decide.Volume{}, err
	}
	spec := p.spec()
	spec.Source, spec.Snapshot = of.Name, true
	return d.cfg.Agents.CreateVolume(ctx, id.Node, spec)
}

// taken refuses a name that a snapshot somewhere else has: it is one of another volume.
func (d *Driver) taken(ctx context.Context, id volumeid.ID) error {
	nodes, err := d.nodes(ctx)
	if err != nil {
		return err
	}
	for _, name := range nodes {
		for _, g := range d.cfg.Agents.Node(name).Groups {
			if (name != id.Node || g.Name != id.Group) && slices.Contains(g.Volumes, id.Name) {
				return refuse(volume.Conflict, fmt.Sprintf("snapshot %s exists on node %s, of another volume", id.Name, name))
			}
		}
	}
	return nil
}

// DeleteSnapshot removes a snapshot; volumes that were restored from it stay. One that is absent is gone already.
func (d *controller) DeleteSnapshot(ctx context.Context, req *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	id, err := snapshotID(req.GetSnapshotId())
	if err == nil {
		err = d.remove(ctx, id)
	}
	if err != nil && !errors.Is(err, volumeid.ErrNotOurs) {
		return nil, err
	}
	return &csi.DeleteSnapshotResponse{}, nil
}

// ListSnapshots lists the snapshots of all nodes, of one volume, or one of them.
func (d *controller) ListSnapshots(ctx context.Context, req *csi.ListSnapshotsRequest) (*csi.ListSnapshotsResponse, error) {
	pg, err := readPage(req.GetMaxEntries(), req.GetStartingToken())
	if err != nil {
		return nil, err
	}
	nodes, keep, err := d.which(ctx, req)
	if errors.Is(err, volumeid.ErrNotOurs) {
		return &csi.ListSnapshotsResponse{}, nil
	}
	if err != nil {
		return nil, err
	}
	items, next, err := d.list(ctx, nodes, pg, keep)
	if err != nil {
		return nil, err
	}
	resp := &csi.ListSnapshotsResponse{NextToken: next}
	for _, i := range items {
		resp.Entries = append(resp.Entries, &csi.ListSnapshotsResponse_Entry{Snapshot: snapshot(i.id, sourceOf(i.id, i.seen), i.seen)})
	}
	return resp, nil
}

// GetSnapshot tells what a snapshot is like.
func (d *controller) GetSnapshot(ctx context.Context, req *csi.GetSnapshotRequest) (*csi.GetSnapshotResponse, error) {
	id, err := snapshotID(req.GetSnapshotId())
	if err != nil {
		return nil, err
	}
	p, err := d.reach(ctx, id)
	if err != nil {
		return nil, err
	}
	v, err := d.look(ctx, p)
	if err != nil {
		return nil, err
	}
	return &csi.GetSnapshotResponse{Snapshot: snapshot(id, sourceOf(id, v), v)}, nil
}

// which returns where to look for snapshots, and which ones are meant. Of a node that does not answer it is not known which it has:
// asked for those, the answer is not that there are none.
func (d *Driver) which(ctx context.Context, req *csi.ListSnapshotsRequest) (nodes []string, keep func(item) bool, err error) {
	var one, of volumeid.ID
	if h := req.GetSnapshotId(); h != "" {
		if one, err = snapshotID(h); err != nil {
			return nil, nil, err
		}
	}
	if h := req.GetSourceVolumeId(); h != "" {
		if of, err = volumeID(h); err != nil {
			return nil, nil, err
		}
	}
	keep = func(i item) bool {
		return i.id.IsSnapshot() && i.seen.ID != "" && (one.Node == "" || i.id == one) &&
			(of.Node == "" || i.id.Node == of.Node && i.id.Group == of.Group && i.seen.Source == of.Name)
	}
	for _, id := range []volumeid.ID{one, of} {
		if id.Node == "" {
			continue
		}
		p, err := d.reach(ctx, id)
		return []string{p.id.Node}, keep, err
	}
	nodes, err = d.nodes(ctx)
	return nodes, keep, err
}

// sourceOf is the handle of the volume that a snapshot was made of; empty once that is gone.
func sourceOf(id volumeid.ID, v decide.Volume) string {
	of, err := volumeid.New(id.Node, id.Group, v.Source)
	if err != nil {
		return ""
	}
	return of.String()
}

func snapshot(id volumeid.ID, of string, v decide.Volume) *csi.Snapshot {
	out := &csi.Snapshot{SnapshotId: id.String(), SourceVolumeId: of, SizeBytes: v.SizeBytes, ReadyToUse: true}
	if !v.Created.IsZero() {
		out.CreationTime = timestamppb.New(v.Created)
	}
	return out
}
