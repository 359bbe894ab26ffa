package server

import (
	"context"

	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// nodeService tells who the agent is.
type nodeService struct {
	agentv1.UnimplementedNodeServiceServer
	*Server
}

// GetNode describes the node and the agent. An LVM that cannot be run is part of the response, not an error.
func (s *nodeService) GetNode(ctx context.Context, _ *agentv1.GetNodeRequest) (*agentv1.GetNodeResponse, error) {
	resp := &agentv1.GetNodeResponse{
		NodeName: s.cfg.NodeName, AgentVersion: s.cfg.Version, KernelRelease: s.cfg.KernelRelease, BootId: s.cfg.BootID, ClockMicros: s.cfg.Now().UnixMicro(),
	}
	version, err := s.cfg.LVM.Version(ctx)
	if err != nil {
		resp.LvmError = err.Error()
		return resp, nil
	}
	resp.LvmVersion = version
	return resp, nil
}
