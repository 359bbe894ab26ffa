package frame

import (
	"context"
	"fmt"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/types/known/timestamppb"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/csirpc"
)

// noSnapshots says what a driver without a Snapshotter does not offer.
const noSnapshots = "snapshots"

// contentList is the list of VolumeSnapshotContents. The snapshot API is an add-on of Kubernetes and may be missing.
var contentList = schema.GroupVersionKind{Group: "snapshot.storage.k8s.io", Version: "v1", Kind: "VolumeSnapshotContentList"}

// SnapshotContents finds the VolumeSnapshotContents of a driver.
type SnapshotContents struct {
	// Reader asks the API server itself. Snapshots are deleted now and then; a cache of all of them would cost more than it saves.
	Reader client.Reader
	// Driver whose VolumeSnapshotContents are meant.
	Driver string
}

// With returns the names of the VolumeSnapshotContents of a handle, ordered. A snapshot that was made beforehand has its handle in the
// spec, and has it in the status a moment later.
func (c SnapshotContents) With(ctx context.Context, handle string) ([]string, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(contentList)
	err := c.Reader.List(ctx, list)
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		// Without the API there are none. Any other error says nothing about them.
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list VolumeSnapshotContents: %w", err)
	}
	var names []string
	for i := range list.Items {
		o := &list.Items[i]
		at := func(field ...string) string {
			value, _, _ := unstructured.NestedString(o.Object, field...)
			return value
		}
		if at("spec", "driver") == c.Driver && (at("status", "snapshotHandle") == handle || at("spec", "source", "snapshotHandle") == handle) {
			names = append(names, o.GetName())
		}
	}
	slices.Sort(names)
	return names, nil
}

// removable refuses the removal of a snapshot that several VolumeSnapshotContents stand for, as those that backup tools make.
func (c SnapshotContents) removable(ctx context.Context, handle string) error {
	names, err := c.With(ctx, handle)
	if err != nil || len(names) < 2 {
		return err
	}
	return volume.Refuse(volume.Precondition, "VolumeSnapshotContents %s all stand for snapshot %s: it is removed once a single one is left. "+
		"To delete the others alone, set their deletionPolicy to Retain", backend.Shorten(names, 10), handle)
}

// CreateSnapshot makes a snapshot of a volume. It can be restored at once, or once it is not being made any more.
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

// DeleteSnapshot removes a snapshot; volumes that were restored from it stay. One that several VolumeSnapshotContents name is refused: which
// of them goes is not known here.
func (d *controller) DeleteSnapshot(ctx context.Context, req *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	if d.snapshots == nil {
		return nil, unimplemented(noSnapshots)
	}
	name, err := d.snapshotName(req.GetSnapshotId())
	if err == nil {
		err = d.locked(name, func() error {
			if err := d.contents.removable(ctx, req.GetSnapshotId()); err != nil {
				return err
			}
			return d.snapshots.DeleteSnapshot(ctx, req.GetSnapshotId())
		})
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
	out := &csi.Snapshot{SnapshotId: s.Handle, SourceVolumeId: s.Of, SizeBytes: s.Bytes, ReadyToUse: !s.Making}
	if !s.Created.IsZero() {
		out.CreationTime = timestamppb.New(s.Created)
	}
	return out
}
