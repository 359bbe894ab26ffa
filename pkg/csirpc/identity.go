package csirpc

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Plugin describes a driver as a whole. The controller and the node service of one driver describe it alike.
type Plugin struct {
	Name, Version string
	// Topology is true when not every node reaches every volume.
	Topology bool
	// Expansion is true when volumes grow, also while they are used.
	Expansion bool
	// Ready reports whether the service can answer; nil is always.
	Ready func() bool
}

// identity is the CSI identity service.
type identity struct {
	csi.UnimplementedIdentityServer
	Plugin
}

// NewIdentity makes the CSI identity service of a driver.
func NewIdentity(p Plugin) csi.IdentityServer { return &identity{Plugin: p} }

// GetPluginInfo returns the name of the driver and the version.
func (i *identity) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: i.Name, VendorVersion: i.Version}, nil
}

// GetPluginCapabilities returns what the driver as a whole can do. There always is a controller service.
func (i *identity) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	services := []csi.PluginCapability_Service_Type{csi.PluginCapability_Service_CONTROLLER_SERVICE}
	if i.Topology {
		services = append(services, csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS)
	}
	resp := &csi.GetPluginCapabilitiesResponse{}
	for _, s := range services {
		resp.Capabilities = append(resp.Capabilities, &csi.PluginCapability{
			Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{Type: s}},
		})
	}
	if i.Expansion {
		resp.Capabilities = append(resp.Capabilities, &csi.PluginCapability{
			Type: &csi.PluginCapability_VolumeExpansion_{
				VolumeExpansion: &csi.PluginCapability_VolumeExpansion{Type: csi.PluginCapability_VolumeExpansion_ONLINE},
			},
		})
	}
	return resp, nil
}

// Probe reports whether the service can answer.
func (i *identity) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(i.Ready == nil || i.Ready())}, nil
}
