package server

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	"quarry.storage/quarry/agent/internal/node"
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
	seen, err := s.node.Observe(ctx)
	if err != nil {
		return nil, err
	}
	return &agentv1.ListDevicesResponse{Devices: toDevices(seen, s.node.Policy()), UptimeMillis: s.uptime()}, nil
}

// WatchDevices sends all devices at once and after every change.
func (s *deviceService) WatchDevices(
	_ *agentv1.WatchDevicesRequest, stream grpc.ServerStreamingServer[agentv1.WatchDevicesResponse],
) error {
	out := onlyChanges[*agentv1.WatchDevicesResponse]{send: func(m *agentv1.WatchDevicesResponse) error {
		// It is another one all the time, and so no part of what is compared.
		m.UptimeMillis = s.uptime()
		return stream.Send(m)
	}}
	return s.node.Follow(stream.Context(), func(v node.View) error {
		return out.pass(&agentv1.WatchDevicesResponse{Devices: toDevices(v.Snapshot, s.node.Policy())})
	})
}

// uptime is how long ago the node booted, in milliseconds; 0 when that is not known.
func (s *Server) uptime() int64 {
	if s.cfg.Uptime == nil {
		return 0
	}
	up, err := s.cfg.Uptime()
	if err != nil {
		s.cfg.Log.Error(err, "Uptime is not known")
		return 0
	}
	return up.Milliseconds()
}

// InspectDevice looks at one device at this moment.
func (s *deviceService) InspectDevice(ctx context.Context, req *agentv1.InspectDeviceRequest) (*agentv1.InspectDeviceResponse, error) {
	if req.GetDevice() == nil {
		return nil, fmt.Errorf("device is required: %w", plan.ErrInvalid)
	}
	ids, err := validIdentities([]*agentv1.DeviceIdentity{req.GetDevice()}, false)
	if err != nil {
		return nil, err
	}
	d, err := s.node.InspectDevice(ctx, ids[0])
	if err != nil {
		return nil, err
	}
	alone := plan.Snapshot{Devices: []plan.Device{d}}
	return &agentv1.InspectDeviceResponse{Device: toDevice(alone, d, s.node.Policy()), UptimeMillis: s.uptime()}, nil
}

// WipeDevice makes one device clean.
func (s *deviceService) WipeDevice(ctx context.Context, req *agentv1.WipeDeviceRequest) (*agentv1.WipeDeviceResponse, error) {
	if req.GetDevice() == nil {
		return nil, fmt.Errorf("device is required: %w", plan.ErrInvalid)
	}
	ids, err := validIdentities([]*agentv1.DeviceIdentity{req.GetDevice()}, true)
	if err != nil {
		return nil, err
	}
	d, err := s.node.WipeDevice(ctx, ids[0])
	if err != nil {
		return nil, err
	}
	alone := plan.Snapshot{Devices: []plan.Device{d}}
	return &agentv1.WipeDeviceResponse{Device: toDevice(alone, d, s.node.Policy())}, nil
}
