// Package lvm is the source of local volumes: logical volumes of this node. It activates them through the agent's engine and finds
// their devices. It knows nothing of the kubelet.
package lvm

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"

	"quarry.storage/quarry/agent/internal/csi"
	"quarry.storage/quarry/agent/internal/host/dm"
	"quarry.storage/quarry/agent/internal/host/fs"
	"quarry.storage/quarry/agent/internal/host/mount"
	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/volume"
	"quarry.storage/quarry/pkg/csirpc"
	"quarry.storage/quarry/pkg/filesystem"
	"quarry.storage/quarry/pkg/quarry"
	"quarry.storage/quarry/pkg/volumeid"
)

// Volumes is LVM, as far as a node needs it. plan.ErrNotFound says that a volume does not exist, plan.ErrUnsure that it cannot be told,
// plan.ErrUntold that two groups have it, plan.ErrOtherGroup that it is not in the group that is recorded.
type Volumes interface {
	// LookupVolume returns what is recorded of a volume. What is remembered of one that is in use already is enough; all else is read afresh.
	LookupVolume(ctx context.Context, want volume.Spec) (plan.Volume, error)
	// ActivateVolume makes the device of a volume of ours, if it is not there.
	ActivateVolume(ctx context.Context, want volume.Spec) (plan.Volume, error)
	// SettleVolume records that a new volume is used from now on. It is on disk when the call returns.
	SettleVolume(ctx context.Context, want volume.Spec) (plan.Volume, error)
}

// Devices finds the device of an active volume; dm.ErrNotFound says that it is not active.
type Devices interface {
	Find(group, name string) (dm.Device, error)
}

var _ Devices = (*dm.Reader)(nil)

// Filesystems makes a new volume ready.
type Filesystems interface {
	// Describe tells what is on a device.
	Describe(ctx context.Context, device string) (fs.Content, error)
	// Clear makes a device that nobody used yet hold nothing.
	Clear(ctx context.Context, device string) error
	// Format makes a filesystem on a device that holds nothing.
	Format(ctx context.Context, device string, m fs.Make) error
}

// Config is what a Source is made of.
type Config struct {
	// NodeName as the API server knows it.
	NodeName    string
	Volumes     Volumes
	Devices     Devices
	Filesystems Filesystems
}

// Source is the local volumes of this node.
type Source struct{ cfg Config }

var _ csi.Devices = (*Source)(nil)

// New makes a Source.
func New(cfg Config) *Source { return &Source{cfg: cfg} }

// maxVolumes is how many volumes are used on a node at the same time: several times as many as a kubelet runs pods. Each report of LVM reads the
// metadata of all volumes, and each volume is a device that the kernel and udev keep.
const maxVolumes = 1000

// Profile describes the driver.
func (s *Source) Profile() csi.Profile {
	return csi.Profile{Name: quarry.DriverLVM, Local: true, MaxVolumes: maxVolumes, Codes: csirpc.Table{
		{Err: plan.ErrBusy, Code: codes.Aborted},
		{Err: plan.ErrUnzeroed, Code: codes.Aborted},
		{Err: plan.ErrRemoving, Code: codes.FailedPrecondition},
		{Err: plan.ErrFilesystemOnly, Code: codes.FailedPrecondition},
		{Err: plan.ErrUnsure, Code: codes.Unavailable},
		{Err: plan.ErrUntold, Code: codes.Unavailable},
		{Err: plan.ErrStale, Code: codes.Unavailable},
		{Err: plan.ErrOtherNode, Code: codes.FailedPrecondition},
		{Err: plan.ErrOtherGroup, Code: codes.FailedPrecondition},
		{Err: volumeid.ErrNotOurs, Code: codes.NotFound},
		{Err: plan.ErrNotFound, Code: codes.NotFound},
		{Err: plan.ErrNotOurs, Code: codes.NotFound},
		{Err: plan.ErrDamaged, Code: codes.FailedPrecondition},
		{Err: plan.ErrPartial, Code: codes.FailedPrecondition},
		{Err: dm.ErrNotLVM, Code: codes.FailedPrecondition},
		{Err: filesystem.ErrOption, Code: codes.InvalidArgument},
	}}
}

// Check refuses a volume of another node, or of nobody.
func (s *Source) Check(handle string) error {
	_, err := s.volume(handle)
	return err
}

func (s *Source) volume(handle string) (volumeid.ID, error) {
	id, err := volumeid.Parse(handle)
	if err != nil {
		return volumeid.ID{}, err
	}
	if id.Node != s.cfg.NodeName {
		return volumeid.ID{}, fmt.Errorf("volume %s, this is node %s: %w", id, s.cfg.NodeName, csi.ErrNotThere)
	}
	return id, nil
}

// Accept takes what one node can do with a device.
func (s *Source) Accept(want csirpc.Access) (csi.Access, error) {
	if !want.SingleNode() {
		return csi.Access{}, csirpc.Invalid("access mode %s: a local volume is on one node only", want.Mode)
	}
	return csi.AcceptDevice(want)
}

// Find finds the device of an active volume.
func (s *Source) Find(_ context.Context, v csi.Volume) (csi.From, error) {
	id, err := s.volume(v.Handle)
	if err != nil {
		return csi.From{}, err
	}
	return s.find(where(v, id))
}

// where is a volume by its handle, and by what the controller recorded of its group. Volumes of before the record, and calls that end the use of
// a volume, have no record.
func where(v csi.Volume, id volumeid.ID) volume.Spec {
	return volume.Spec{
		Group: id.Group, Name: id.Name, ID: id.String(),
		GroupUUID: v.Context[quarry.AttributeGroupUUID], OwnerUID: v.Context[quarry.AttributeCluster],
	}
}

// find finds the device of an active volume, and refuses the one of a volume in another group than is recorded.
func (s *Source) find(id volume.Spec) (csi.From, error) {
	d, err := s.cfg.Devices.Find(id.Group, id.Name)
	if errors.Is(err, dm.ErrNotFound) {
		return csi.From{}, fmt.Errorf("%w: %w", csi.ErrNotThere, err)
	}
	if err == nil && !d.In(id.GroupUUID) {
		return csi.From{}, fmt.Errorf("device %s, %s, of volume %s: %w, which has UUID %s", d.Path, d.UUID, id.ID, plan.ErrOtherGroup, id.GroupUUID)
	}
	return csi.From{Path: d.Path, Number: mount.Device{Major: d.Major, Minor: d.Minor}, SizeBytes: d.SizeBytes}, err
}

// recorded reads what is recorded of a volume, and refuses one that must not be shown yet, not any more, or not in this way.
func (s *Source) recorded(ctx context.Context, id volume.Spec, raw bool) (plan.Volume, error) {
	v, err := s.cfg.Volumes.LookupVolume(ctx, id)
	if err != nil {
		return plan.Volume{}, err
	}
	if v.ID != id.ID {
		return plan.Volume{}, fmt.Errorf("volume %s carries the id %q: %w", id.ID, v.ID, csi.ErrNotThere)
	}
	return v, volume.Showable(v, raw)
}

// Showable refuses to show a raw device with what others wrote, one whose removal began, and one that leads to a disk that dropped off.
func (s *Source) Showable(ctx context.Context, v csi.Volume) error {
	id, err := s.volume(v.Handle)
	if err != nil {
		return err
	}
	recorded, err := s.recorded(ctx, where(v, id), true)
	if err != nil {
		return err
	}
	return fresh(id, recorded)
}

// fresh refuses a volume whose device leads to a disk that dropped off.
func fresh(id volumeid.ID, v plan.Volume) error {
	if v.Stale {
		return fmt.Errorf("volume %s: %w", id, plan.ErrStale)
	}
	return nil
}

// Ready makes the device of a volume appear, as it has to be after every start of the node.
func (s *Source) Ready(ctx context.Context, v csi.Volume, want csi.Access) (csi.From, error) {
	id, err := s.volume(v.Handle)
	if err != nil {
		return csi.From{}, err
	}
	if id.IsSnapshot() {
		return csi.From{}, csirpc.Invalid("%s is a snapshot: restore it to a volume", id)
	}
	at := where(v, id)
	recorded, err := s.recorded(ctx, at, want.Block)
	if err != nil {
		return csi.From{}, err
	}
	_, err = s.find(at)
	if errors.Is(err, csi.ErrNotThere) || recorded.Suspended || recorded.Stale {
		now, err := s.cfg.Volumes.ActivateVolume(ctx, at)
		if err == nil {
			err = fresh(id, now)
		}
		if err != nil {
			return csi.From{}, err
		}
	}
	from, err := s.find(at)
	return recordedIn(from, recorded), err
}

// recordedIn adds what LVM has on record of a volume.
func recordedIn(from csi.From, v plan.Volume) csi.From {
	from.New, from.UUID, from.MadeUnix = v.New, filesystemUUID(v.UUID), v.CreatedUnix
	from.Thin, from.Zeroed = v.Pool != "", v.Pool != ""
	from.RawZeroed = !v.FilesystemOnly && !v.Unzeroed
	return from
}

// Release leaves a volume active: that costs nothing, and the kernel lets nobody remove it while it is in use.
func (s *Source) Release(context.Context, csi.Volume) error { return nil }
