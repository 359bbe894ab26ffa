package lvm

import (
	"context"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/lvm/place"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Capacity adds up the room on the hosts that are asked for, as the agents reported it last. Without a Cluster it is about all of them.
func (b *Backend) Capacity(ctx context.Context, parameters map[string]string, node string) (volume.Capacity, error) {
	p, err := place.Parse(parameters)
	if err != nil {
		return volume.Capacity{}, err
	}
	clusters, err := b.clusters(ctx)
	if err == nil && p.Cluster != "" {
		var one *v1alpha1.Cluster
		one, err = b.cluster(ctx, p.Cluster)
		clusters = []*v1alpha1.Cluster{one}
	}
	if err != nil {
		return volume.Capacity{}, err
	}
	var sum volume.Capacity
	for _, c := range clusters {
		room, err := b.room(ctx, c, p, node)
		if err != nil {
			return volume.Capacity{}, err
		}
		sum = sum.Plus(room)
	}
	return sum, nil
}

// room is the room in one Cluster.
func (b *Backend) room(ctx context.Context, c *v1alpha1.Cluster, p place.Parameters, node string) (volume.Capacity, error) {
	var sum volume.Capacity
	hosts, err := b.hosts(ctx, c, node)
	if err != nil {
		return sum, err
	}
	class := place.ClassOf(c)
	if p.Cluster != "" {
		class.Thin = p.Thin
	}
	for _, h := range hosts {
		// Zero would be published, and the scheduler would pass the node over until the next time.
		if node != "" && h.Node.Agent == decide.AgentConnecting {
			return sum, volume.Refuse(volume.Unavailable, "the agent of node %s is not connected yet", node)
		}
		sum = sum.Plus(place.Room(class, h))
	}
	return sum, nil
}
