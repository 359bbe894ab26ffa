// Package iscsi is the source of volumes on shared LUNs. The controller has such a volume mapped on this node; the source finds its device by the
// handle alone, and holds it against what is on the LUN before anybody uses it. It maps nothing, changes nothing on the LUN but inside a volume, and
// knows nothing of the kubelet.
package iscsi

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"

	"quarry.storage/quarry/agent/internal/csi"
	"quarry.storage/quarry/agent/internal/host/mount"
	"quarry.storage/quarry/agent/internal/sharedgroup/decide"
	"quarry.storage/quarry/pkg/csirpc"
	"quarry.storage/quarry/pkg/quarry"
	"quarry.storage/quarry/pkg/sharedlun"
)

// Groups reads what is on LUNs, in a way that cannot change it.
type Groups interface {
	Get(ctx context.Context, ref sharedlun.Ref) (sharedlun.Contents, error)
	// Making reports whether a program works on the first filesystem of a volume on this node.
	Making(ctx context.Context, ref sharedlun.Ref, volumeUUID string) (bool, error)
}

// Luns finds the devices of LUNs.
type Luns interface {
	// Device is the path of the LUN's device, after the target was asked whether it is that LUN.
	Device(ctx context.Context, lun sharedlun.Identity) (path string, err error)
}

// Devices tells the devices of volumes on this node.
type Devices interface {
	// Number is the number of a device, "8:16", and its size.
	Number(ctx context.Context, device string) (number string, bytes int64, err error)
	// List tells the devices of a group, by its UUID in LVM.
	List(ctx context.Context, group string) ([]decide.Mapped, error)
}

// Config is what a Source is made of.
type Config struct {
	// Node is the name by which this node holds volumes.
	Node    string
	Groups  Groups
	Luns    Luns
	Devices Devices
	Records Records
}

// Source is the volumes on shared LUNs that are attached to this node.
type Source struct{ cfg Config }

var _ csi.Devices = (*Source)(nil)

// New makes a Source.
func New(cfg Config) *Source { return &Source{cfg: cfg} }

// Profile describes the driver.
func (s *Source) Profile() csi.Profile {
	return csi.Profile{Name: quarry.DriverISCSI, Codes: csirpc.Table{
		{Err: sharedlun.ErrNotOurs, Code: codes.NotFound},
		{Err: sharedlun.ErrInvalid, Code: codes.InvalidArgument},
		{Err: sharedlun.ErrHeld, Code: codes.FailedPrecondition},
		{Err: sharedlun.ErrOtherLun, Code: codes.FailedPrecondition},
		{Err: sharedlun.ErrMisfit, Code: codes.FailedPrecondition},
		{Err: sharedlun.ErrBusy, Code: codes.Aborted},
		{Err: sharedlun.ErrMoved, Code: codes.Aborted},
		{Err: sharedlun.ErrNotFound, Code: codes.Unavailable},
		{Err: sharedlun.ErrUnread, Code: codes.Unavailable},
		{Err: sharedlun.ErrUnknown, Code: codes.Unavailable},
	}}
}

// Check refuses what is no handle of this driver.
func (s *Source) Check(handle string) error {
	_, err := sharedlun.Parse(handle)
	return err
}

// Accept takes what one node can do with a device.
func (s *Source) Accept(want csirpc.Access) (csi.Access, error) {
	if !want.SingleNode() {
		return csi.Access{}, csirpc.Invalid("access mode %s: a volume on a shared LUN is used on one node at a time", want.Mode)
	}
	return csi.AcceptDevice(want)
}

// Release forgets which volume it was that was staged, and leaves it mapped: the controller has it unmapped when it is detached.
func (s *Source) Release(_ context.Context, v csi.Volume) error {
	id, err := sharedlun.Parse(v.Handle)
	if err != nil {
		return err
	}
	return s.cfg.Records.Remove(id)
}

// Find finds the device of a volume that is mapped here. Which volume of its name it is, was recorded when it was staged.
func (s *Source) Find(ctx context.Context, v csi.Volume) (csi.From, error) {
	id, err := sharedlun.Parse(v.Handle)
	if err != nil {
		return csi.From{}, err
	}
	r, err := s.cfg.Records.Load(id)
	if err != nil {
		return csi.From{}, err
	}
	if r.UUID == "" {
		return csi.From{}, fmt.Errorf("volume %s was not staged on this node: %w", id, csi.ErrNotThere)
	}
	if len(v.Publish) > 0 {
		a, err := attached(id, v)
		if err != nil {
			return csi.From{}, err
		}
		if a.UUID != r.UUID {
			return csi.From{}, fmt.Errorf("volume %s is attached as %s, and was staged as %s: %w", id, a.UUID, r.UUID, csi.ErrPrecondition)
		}
	}
	from, _, err := s.device(ctx, id, r.UUID)
	return from, err
}

// attached reads what the controller told of a volume when it was attached.
func attached(id sharedlun.ID, v csi.Volume) (sharedlun.Attached, error) {
	a, err := sharedlun.ParseAttached(v.Publish)
	if err != nil {
		return a, fmt.Errorf("what the controller says of the attachment of volume %s: %w", id, err)
	}
	if a.Ref.UUID != id.Group {
		return a, fmt.Errorf("%w: volume %s was attached as one of group %s", sharedlun.ErrInvalid, id, a.Ref.UUID)
	}
	return a, nil
}

// device finds the device of a volume.
func (s *Source) device(ctx context.Context, id sharedlun.ID, uuid string) (csi.From, decide.Mapped, error) {
	all, err := s.cfg.Devices.List(ctx, id.Group)
	if err != nil {
		return csi.From{}, decide.Mapped{}, fmt.Errorf("devices of group %s: %w: %w", id.Group, csi.ErrUnavailable, err)
	}
	for _, m := range all {
		if m.VolumeUUID != uuid || m.Part != sharedlun.PartShown || !m.Live || m.Path == "" {
			continue
		}
		text, bytes, err := s.cfg.Devices.Number(ctx, m.Path)
		if errors.Is(err, sharedlun.ErrNotFound) {
			break
		}
		if err != nil {
			return csi.From{}, m, fmt.Errorf("device of volume %s: %w: %w", id, csi.ErrUnavailable, err)
		}
		from := csi.From{Path: m.Path, SizeBytes: bytes}
		if _, err := fmt.Sscanf(text, "%d:%d", &from.Number.Major, &from.Number.Minor); err != nil || from.Number == (mount.Device{}) {
			return csi.From{}, m, fmt.Errorf("device of volume %s: number %q: %w", id, text, csi.ErrUnavailable)
		}
		return from, m, nil
	}
	return csi.From{}, decide.Mapped{}, fmt.Errorf("volume %s is not mapped on this node: %w", id, csi.ErrNotThere)
}
