package server

import (
	"bytes"
	"context"
	"fmt"

	"google.golang.org/grpc"

	"quarry.storage/quarry/agent/internal/plan"
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
	GetDevices() []*agentv1.DeviceIdentity
}

// ListVolumeGroups observes the groups that carry our tag.
func (s *volumeGroupService) ListVolumeGroups(
	ctx context.Context, _ *agentv1.ListVolumeGroupsRequest,
) (*agentv1.ListVolumeGroupsResponse, error) {
	snapshot, err := s.hub.observe(ctx)
	if err != nil {
		return nil, err
	}
	return &agentv1.ListVolumeGroupsResponse{Groups: toGroups(snapshot)}, nil
}

// WatchVolumeGroups sends all groups at once and after every change.
func (s *volumeGroupService) WatchVolumeGroups(
	_ *agentv1.WatchVolumeGroupsRequest, stream grpc.ServerStreamingServer[agentv1.WatchVolumeGroupsResponse],
) error {
	var sent []byte
	first := true
	return s.hub.follow(stream.Context(), func(v *view) error {
		if !first && bytes.Equal(sent, v.groupBytes) {
			return nil
		}
		first, sent = false, v.groupBytes
		return stream.Send(v.groups)
	})
}

// EnsureVolumeGroup makes the group hold at least the listed devices.
func (s *volumeGroupService) EnsureVolumeGroup(
	ctx context.Context, req *agentv1.EnsureVolumeGroupRequest,
) (*agentv1.EnsureVolumeGroupResponse, error) {
	want, err := s.validSpec(req, true)
	if err != nil {
		return nil, err
	}
	keys, err := s.keys(want, true)
	if err != nil {
		return nil, err
	}
	after, _, err := s.change(ctx, keys, func(before plan.Snapshot) (plan.Plan, error) {
		return plan.EnsureGroup(before, want, s.cfg.Policy)
	})
	if err != nil {
		return nil, err
	}
	group := findGroup(after, want.Name, want.OwnerUID)
	if group == nil {
		return nil, fmt.Errorf("group %s is not seen after it was made", want.Name)
	}
	return &agentv1.EnsureVolumeGroupResponse{Group: group}, nil
}

// ReduceVolumeGroup takes devices out of the group.
func (s *volumeGroupService) ReduceVolumeGroup(
	ctx context.Context, req *agentv1.ReduceVolumeGroupRequest,
) (*agentv1.ReduceVolumeGroupResponse, error) {
	want, err := s.validSpec(req, true)
	if err != nil {
		return nil, err
	}
	keys, err := s.keys(want, false)
	if err != nil {
		return nil, err
	}
	after, done, err := s.change(ctx, keys, func(before plan.Snapshot) (plan.Plan, error) {
		return plan.ReduceGroup(before, want, s.cfg.Policy)
	})
	if err != nil {
		return nil, err
	}
	return &agentv1.ReduceVolumeGroupResponse{Group: findGroup(after, want.Name, want.OwnerUID), Notes: done.Notes}, nil
}

// RemoveVolumeGroup removes the group and leaves its devices clean.
func (s *volumeGroupService) RemoveVolumeGroup(
	ctx context.Context, req *agentv1.RemoveVolumeGroupRequest,
) (*agentv1.RemoveVolumeGroupResponse, error) {
	want, err := s.validSpec(req, false)
	if err != nil {
		return nil, err
	}
	keys, err := s.keys(want, false)
	if err != nil {
		return nil, err
	}
	_, done, err := s.change(ctx, keys, func(before plan.Snapshot) (plan.Plan, error) {
		return plan.RemoveGroup(before, want, s.cfg.Policy)
	})
	if err != nil {
		return nil, err
	}
	return &agentv1.RemoveVolumeGroupResponse{Notes: done.Notes}, nil
}

// validSpec checks a request on a group. Only Ensure needs the digests of its devices, and only of those that are new: the plan
// asks for them.
func (s *volumeGroupService) validSpec(req groupRequest, devicesRequired bool) (plan.GroupSpec, error) {
	if err := validGroup(req.GetName(), req.GetOwnerUid()); err != nil {
		return plan.GroupSpec{}, err
	}
	if devicesRequired && len(req.GetDevices()) == 0 {
		return plan.GroupSpec{}, fmt.Errorf("at least one device is required: %w", errInvalid)
	}
	ids, err := validIdentities(req.GetDevices(), false)
	if err != nil {
		return plan.GroupSpec{}, err
	}
	return plan.GroupSpec{Name: req.GetName(), OwnerUID: req.GetOwnerUid(), Devices: ids}, nil
}

// keys of the locks on a group and its devices.
func (s *volumeGroupService) keys(want plan.GroupSpec, present bool) ([]string, error) {
	keys, err := deviceKeys(s.cfg.Resolve, want.Devices, present)
	if err != nil {
		return nil, err
	}
	return append(keys, "group "+want.Name), nil
}
