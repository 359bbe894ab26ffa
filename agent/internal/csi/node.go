package csi

import (
	"context"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"quarry.storage/quarry/pkg/csirpc"
	"quarry.storage/quarry/pkg/quarry"
)

// node is the CSI node service.
type node struct {
	*Driver
	csi.UnimplementedNodeServer
}

// maxTopology is the longest value of a label, and so of a topology segment.
const maxTopology = 63

// NodeGetInfo returns the node's name, by which local volumes are placed. A name that no topology segment can have is refused, so that the
// driver is not registered: volumes would be made that no pod could be scheduled to.
func (d *node) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	if n := len(d.cfg.NodeName); d.profile.Local && n > maxTopology {
		return nil, fmt.Errorf("the name of node %s has %d characters, and local volumes need one of at most %d, for it is the value of a label: %w",
			d.cfg.NodeName, n, maxTopology, ErrPrecondition)
	}
	info := &csi.NodeGetInfoResponse{NodeId: d.cfg.NodeName, MaxVolumesPerNode: d.profile.MaxVolumes}
	if d.profile.Local {
		info.AccessibleTopology = &csi.Topology{Segments: map[string]string{quarry.TopologyHost: d.cfg.NodeName}}
	}
	return info, nil
}

// NodeGetCapabilities returns what the node service can do. The orchestrator sets the group of files (fsGroupPolicy: File).
func (d *node) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	offered := []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME,
		csi.NodeServiceCapability_RPC_GET_VOLUME_STATS,
		csi.NodeServiceCapability_RPC_VOLUME_CONDITION,
		csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	}
	if d.devices != nil {
		offered = append(offered, csi.NodeServiceCapability_RPC_EXPAND_VOLUME)
	}
	resp := &csi.NodeGetCapabilitiesResponse{}
	for _, c := range offered {
		resp.Capabilities = append(resp.Capabilities, &csi.NodeServiceCapability{
			Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: c}},
		})
	}
	return resp, nil
}

// newIdentity is the CSI identity service. The controller's process describes the driver alike.
func (d *Driver) newIdentity() csi.IdentityServer {
	return csirpc.NewIdentity(csirpc.Plugin{Name: d.profile.Name, Version: d.cfg.Version, Topology: d.profile.Local, Expansion: true})
}
