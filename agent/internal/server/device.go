package server

import (
	"bytes"
	"context"
	"fmt"

	"google.golang.org/grpc"

	"quarry.storage/quarry/agent/internal/plan"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// deviceService shows devices and wipes one on request.
type deviceService struct {
	agentv1.UnimplementedDeviceServiceServer
	*Server
}

// ListDevices observes all devices.
func (s *deviceService) ListDevices(ctx context.Context, _ *agentv1.ListDevicesRequest) (*agentv1.ListDevicesResponse, error) {
	snapshot, err := s.hub.observe(ctx)
	if err != nil {
		return nil, err
	}
	return &agentv1.ListDevicesResponse{Devices: toDevices(snapshot, s.cfg.Policy)}, nil
}

// WatchDevices sends all devices at once and after every change.
func (s *deviceService) WatchDevices(
	_ *agentv1.WatchDevicesRequest, stream grpc.ServerStreamingServer[agentv1.WatchDevicesResponse],
) error {
	var sent []byte
	first := true
	return s.hub.follow(stream.Context(), func(v *view) error {
		if !first && bytes.Equal(sent, v.deviceBytes) {
			return nil
		}
		first, sent = false, v.deviceBytes
		return stream.Send(v.devices)
	})
}

// WipeDevice makes one device clean.
func (s *deviceService) WipeDevice(ctx context.Context, req *agentv1.WipeDeviceRequest) (*agentv1.WipeDeviceResponse, error) {
	if req.GetDevice() == nil {
		return nil, fmt.Errorf("device is required: %w", errInvalid)
	}
	ids, err := validIdentities([]*agentv1.DeviceIdentity{req.GetDevice()}, true)
	if err != nil {
		return nil, err
	}
	keys, err := deviceKeys(s.cfg.Resolve, ids, true)
	if err != nil {
		return nil, err
	}
	after, _, err := s.change(ctx, keys, func(before plan.Snapshot) (plan.Plan, error) {
		return plan.Wipe(before, ids[0], s.cfg.Policy)
	})
	if err != nil {
		return nil, err
	}
	d, ok := after.Find(ids[0].Path)
	if !ok {
		return nil, fmt.Errorf("device %s went away: %w", ids[0].Path, plan.ErrNotFound)
	}
	return &agentv1.WipeDeviceResponse{Device: toDevice(d, s.cfg.Policy)}, nil
}
