package frame

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/types/known/timestamppb"

	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/csirpc"
)

// noSnapshots says what a driver without a Snapshotter does not offer.
const noSnapshots = "snapshots"

// CreateSnapshot makes a snapshot of a volume. It can be restored at once.
func (d *controller) CreateSnapshot(ctx context.Context, req *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	if d.snapshots == nil {
		return nil, unimplemented(noSnapshots)
	}
	if err := checkName(req.GetName()); err != nil {
		return nil, err
	}
	if err := volume.CheckSnapshotParameters(req.GetParameters()); err != nil {
		return nil, err
	}
	if _, err := d.volumeName(req.GetSourceVolumeId()); err != nil {
		return nil, err
	}
	var made Snapshot
	name := d.Snapshots.Name(req.GetName())
	err := d.locked(name, func() (err error) {
		made, err = d.snapshots.CreateSnapshot(ctx, name, req.GetSourceVolumeId())
		return err
	})
	if err != nil {
		return nil, err
	}
	return &csi.CreateSnapshotResponse{Snapshot: snapshotMessage(made)}, nil
}

// DeleteSnapshot removes a snapshot; volumes that were restored from it stay.
func (d *controller) DeleteSnapshot(ctx context.Context, req *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	if d.snapshots == nil {
		return nil, unimplemented(noSnapshots)
	}
	name, err := d.snapshotName(req.GetSnapshotId())
	if err == nil {
		err = d.locked(name, func() error { return d.snapshots.DeleteSnapshot(ctx, req.GetSnapshotId()) })
	}
	if err != nil && !isNotOurs(err) {
		return nil, err
	}
	return &csi.DeleteSnapshotResponse{}, nil
}

// ListSnapshots lists all snapshots, those of one volume, or one of them. A handle that is not ours fits none.
func (d *controller) ListSnapshots(ctx context.Context, req *csi.ListSnapshotsRequest) (*csi.ListSnapshotsResponse, error) {
	if d.snapshots == nil {
		return nil, unimplemented(noSnapshots)
	}
	p, err := page(req.GetMaxEntries(), req.GetStartingToken(), d.Snapshots)
	if err != nil {
		return nil, err
	}
	f, err := d.filter(req)
	var found []Snapshot
	var next string
	if err == nil {
		found, next, err = csirpc.Cut(p, d.snapshots.Snapshots(ctx, f, p.Start), func(s Snapshot) string { return s.Handle })
	}
	if isNotOurs(err) {
		return &csi.ListSnapshotsResponse{}, nil
	}
	if err != nil {
		return nil, err
	}
	resp := &csi.ListSnapshotsResponse{NextToken: next}
	for _, s := range found {
		resp.Entries = append(resp.Entries, &csi.ListSnapshotsResponse_Entry{Snapshot: snapshotMessage(s)})
	}
	return resp, nil
}

func (d *driver) filter(req *csi.ListSnapshotsRequest) (Filter, error) {
	f := Filter{Handle: req.GetSnapshotId(), Of: req.GetSourceVolumeId()}
	if f.Handle != "" {
		if _, err := d.snapshotName(f.Handle); err != nil {
			return f, err
		}
	}
	if f.Of != "" {
		if _, err := d.volumeName(f.Of); err != nil {
			return f, err
		}
	}
	return f, nil
}

// GetSnapshot returns what a snapshot is like.
func (d *controller) GetSnapshot(ctx context.Context, req *csi.GetSnapshotRequest) (*csi.GetSnapshotResponse, error) {
	if d.snapshots == nil {
		return nil, unimplemented(noSnapshots)
	}
	if _, err := d.snapshotName(req.GetSnapshotId()); err != nil {
		return nil, err
	}
	s, err := d.snapshots.Snapshot(ctx, req.GetSnapshotId())
	if err != nil {
		return nil, err
	}
	return &csi.GetSnapshotResponse{Snapshot: snapshotMessage(s)}, nil
}

func snapshotMessage(s Snapshot) *csi.Snapshot {
	out := &csi.Snapshot{SnapshotId: s.Handle, SourceVolumeId: s.Of, SizeBytes: s.Bytes, ReadyToUse: true}
	if !s.Created.IsZero() {
		out.CreationTime = timestamppb.New(s.Created)
	}
	return out
}
