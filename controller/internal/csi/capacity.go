package csi

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// GetCapacity tells the room for volumes of a class, on one node or on all, from what the agents reported last.
func (d *controller) GetCapacity(ctx context.Context, req *csi.GetCapacityRequest) (*csi.GetCapacityResponse, error) {
	p, err := volume.Parse(req.GetParameters())
	if err != nil {
		return nil, err
	}
	node := ""
	if t := req.GetAccessibleTopology(); t != nil {
		where, err := topology(&csi.TopologyRequirement{Requisite: []*csi.Topology{t}})
		if err != nil {
			return nil, err
		}
		node = where.Requisite[0]
	}
	if caps := capabilities(req.GetVolumeCapabilities()); len(caps) > 0 && volume.CheckCapabilities(caps) != nil {
		return &csi.GetCapacityResponse{}, nil
	}
	room, err := d.room(ctx, p, node)
	if err != nil {
		return nil, err
	}
	return &csi.GetCapacityResponse{
		AvailableCapacity: room.Available, MaximumVolumeSize: wrapperspb.Int64(room.Largest), MinimumVolumeSize: wrapperspb.Int64(room.Smallest),
	}, nil
}

// room adds up the hosts that are asked for. Without a Cluster it is about all of them.
func (d *Driver) room(ctx context.Context, p volume.Parameters, node string) (volume.Capacity, error) {
	var sum volume.Capacity
	clusters, err := d.clusters(ctx)
	if err == nil && p.Cluster != "" {
		var one *v1alpha1.Cluster
		one, err = d.cluster(ctx, p.Cluster)
		clusters = []*v1alpha1.Cluster{one}
	}
	if err != nil {
		return sum, err
	}
	for _, c := range clusters {
		hosts, err := d.hosts(ctx, c)
		if err != nil {
			return sum, err
		}
		class := volume.ClassOf(c)
		if p.Cluster != "" {
			class.Thin = p.Thin
		}
		for _, h := range hosts {
			if node != "" && h.Node.Name != node {
				continue
			}
			// Zero would be published, and the node be passed over until the next time.
			if node != "" && h.Node.Agent == decide.AgentConnecting {
				return sum, refuse(volume.Unavailable, "the agent of node "+node+" is not connected yet")
			}
			sum = sum.Plus(volume.Room(class, h))
		}
	}
	return sum, nil
}
