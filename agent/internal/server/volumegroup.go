package server

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	"quarry.storage/quarry/agent/internal/node"
	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/claim"
	"quarry.storage/quarry/agent/internal/plan/move"
	"quarry.storage/quarry/agent/internal/plan/volume"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// volumeGroupService makes, grows, shrinks and removes groups that carry our tag.
type volumeGroupService struct {
	agentv1.UnimplementedVolumeGroupServiceServer
	*Server
}

// groupRequest is what the requests on one group have in common.
type groupRequest interface {
	GetName() string
	GetOwnerUid() string
	GetGroupUuid() string
	GetDevices() []*agentv1.DeviceIdentity
}

// ListVolumeGroups observes the groups that carry our tag. A list that may lack one is an error.
func (s *volumeGroupService) ListVolumeGroups(
	ctx context.Context, _ *agentv1.ListVolumeGroupsRequest,
) (*agentv1.ListVolumeGroupsResponse, error) {
	seen, err := s.node.Observe(ctx)
	if err != nil {
		return nil, err
	}
	if err := reported(seen); err != nil {
		return nil, err
	}
	return &agentv1.ListVolumeGroupsResponse{Groups: s.toGroups(seen)}, nil
}

// reported is the error of a call that lists all while LVM cannot report a group that may be ours.
func reported(s plan.Snapshot) error {
	if unknown := s.Unknown(); unknown != "" {
		return fmt.Errorf("%w: LVM cannot report %s", plan.ErrUnsure, unknown)
	}
	return nil
}

// WatchVolumeGroups sends all groups at once and after every change. That LVM cannot report one is part of the response, not an error.
func (s *volumeGroupService) WatchVolumeGroups(
	_ *agentv1.WatchVolumeGroupsRequest, stream grpc.ServerStreamingServer[agentv1.WatchVolumeGroupsResponse],
) error {
	out := onlyChanges[*agentv1.WatchVolumeGroupsResponse]{send: stream.Send}
	return s.node.Follow(stream.Context(), func(v node.View) error {
		return out.pass(&agentv1.WatchVolumeGroupsResponse{
			Groups: s.toGroups(v.Snapshot), Error: v.Snapshot.Unknown(), Unknown: toUnknown(v.Snapshot),
			HidingDevices: plan.Hiding(v.Snapshot, s.node.Policy()),
		})
	})
}

// EnsureVolumeGroup makes the group hold at least the listed devices.
func (s *volumeGroupService) EnsureVolumeGroup(
	ctx context.Context, req *agentv1.EnsureVolumeGroupRequest,
) (*agentv1.EnsureVolumeGroupResponse, error) {
	want, err := validSpec(req, true)
	if err != nil {
		return nil, err
	}
	group, err := s.node.EnsureGroup(ctx, want)
	if err != nil {
		return nil, err
	}
	return &agentv1.EnsureVolumeGroupResponse{Group: s.toGroup(group)}, nil
}

// ReduceVolumeGroup takes devices out of the group.
func (s *volumeGroupService) ReduceVolumeGroup(
	ctx context.Context, req *agentv1.ReduceVolumeGroupRequest,
) (*agentv1.ReduceVolumeGroupResponse, error) {
	want, err := validSpec(req, true)
	if err != nil {
		return nil, err
	}
	group, notes, err := s.node.ReduceGroup(ctx, want)
	if err != nil {
		return nil, err
	}
	resp := &agentv1.ReduceVolumeGroupResponse{Notes: notes}
	if group != nil {
		resp.Group = s.toGroup(*group)
	}
	return resp, nil
}

// ForgetMissingDevice makes the group forget what is missing.
func (s *volumeGroupService) ForgetMissingDevice(
	ctx context.Context, req *agentv1.ForgetMissingDeviceRequest,
) (*agentv1.ForgetMissingDeviceResponse, error) {
	if err := validGroup(req.GetName(), req.GetOwnerUid()); err != nil {
		return nil, err
	}
	if len(req.GetPhysicalVolumes()) == 0 {
		return nil, fmt.Errorf("at least one physical volume is required: %w", plan.ErrInvalid)
	}
	group, err := s.node.ForgetDevices(ctx, volume.ForgetSpec{
		Group: req.GetName(), OwnerUID: req.GetOwnerUid(), GroupUUID: req.GetGroupUuid(), PVs: req.GetPhysicalVolumes(), Volumes: req.GetLogicalVolumes(),
	})
	if err != nil {
		return nil, err
	}
	return &agentv1.ForgetMissingDeviceResponse{Group: s.toGroup(group)}, nil
}

// MoveExtents moves extents off a device to the other devices of the group.
func (s *volumeGroupService) MoveExtents(ctx context.Context, req *agentv1.MoveExtentsRequest) (*agentv1.MoveExtentsResponse, error) {
	if err := validGroup(req.GetName(), req.GetOwnerUid()); err != nil {
		return nil, err
	}
	ids, err := validIdentities([]*agentv1.DeviceIdentity{req.GetDevice()}, false)
	if err != nil {
		return nil, err
	}
	group, err := s.node.MoveExtents(ctx, move.Spec{
		Group: req.GetName(), OwnerUID: req.GetOwnerUid(), GroupUUID: req.GetGroupUuid(), Device: ids[0], Avoid: req.GetAvoid(),
	})
	if err != nil {
		return nil, err
	}
	return &agentv1.MoveExtentsResponse{Group: s.toGroup(group)}, nil
}

// RemoveVolumeGroup removes the group and leaves its devices clean.
func (s *volumeGroupService) RemoveVolumeGroup(
	ctx context.Context, req *agentv1.RemoveVolumeGroupRequest,
) (*agentv1.RemoveVolumeGroupResponse, error) {
	want, err := validSpec(req, false)
	if err != nil {
		return nil, err
	}
	notes, err := s.node.RemoveGroup(ctx, want)
	if err != nil {
		return nil, err
	}
	return &agentv1.RemoveVolumeGroupResponse{Notes: notes}, nil
}

// StampVolumeGroup writes the system ID of this node into a group that carries none.
func (s *volumeGroupService) StampVolumeGroup(
	ctx context.Context, req *agentv1.StampVolumeGroupRequest,
) (*agentv1.StampVolumeGroupResponse, error) {
	want, err := validClaim(req)
	if err != nil {
		return nil, err
	}
	group, err := s.node.ClaimGroup(ctx, want)
	if err != nil {
		return nil, err
	}
	return &agentv1.StampVolumeGroupResponse{Group: s.toGroup(group)}, nil
}

// ImportVolumeGroup makes a group of another node this node's.
func (s *volumeGroupService) ImportVolumeGroup(
	ctx context.Context, req *agentv1.ImportVolumeGroupRequest,
) (*agentv1.ImportVolumeGroupResponse, error) {
	want, err := validClaim(req)
	if err != nil {
		return nil, err
	}
	if want.From = req.GetFromSystemId(); want.From == "" {
		return nil, fmt.Errorf("from_system_id is required: %w", plan.ErrInvalid)
	}
	if want.FromOwner = req.GetFromOwnerUid(); want.FromOwner != "" {
		if err := validGroup(want.Name, want.FromOwner); err != nil {
			return nil, fmt.Errorf("from_owner_uid: %w", err)
		}
		if want.FromOwner == want.OwnerUID {
			return nil, fmt.Errorf("from_owner_uid is owner_uid: %w", plan.ErrInvalid)
		}
	}
	group, err := s.node.ClaimGroup(ctx, want)
	if err != nil {
		return nil, err
	}
	return &agentv1.ImportVolumeGroupResponse{Group: s.toGroup(group)}, nil
}

// claimRequest is what the requests for the system ID of a group have in common.
type claimRequest interface {
	GetName() string
	GetOwnerUid() string
	GetUuid() string
}

func validClaim(req claimRequest) (claim.Spec, error) {
	if err := validGroup(req.GetName(), req.GetOwnerUid()); err != nil {
		return claim.Spec{}, err
	}
	if req.GetUuid() == "" {
		return claim.Spec{}, fmt.Errorf("uuid is required: %w", plan.ErrInvalid)
	}
	return claim.Spec{Name: req.GetName(), OwnerUID: req.GetOwnerUid(), UUID: req.GetUuid()}, nil
}

// validSpec checks a request on a group. Only EnsureVolumeGroup needs digests, and only of devices that are new: the plan asks for them.
func validSpec(req groupRequest, devicesRequired bool) (plan.GroupSpec, error) {
	if err := validGroup(req.GetName(), req.GetOwnerUid()); err != nil {
		return plan.GroupSpec{}, err
	}
	if devicesRequired && len(req.GetDevices()) == 0 {
		return plan.GroupSpec{}, fmt.Errorf("at least one device is required: %w", plan.ErrInvalid)
	}
	ids, err := validIdentities(req.GetDevices(), false)
	if err != nil {
		return plan.GroupSpec{}, err
	}
	return plan.GroupSpec{Name: req.GetName(), OwnerUID: req.GetOwnerUid(), UUID: req.GetGroupUuid(), Devices: ids}, nil
}
