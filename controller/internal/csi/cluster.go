package csi

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/volumeid"
)

// readOnly lists without copying what is in the cache.
var readOnly = &client.ListOptions{UnsafeDisableDeepCopy: new(true)}

// clusters returns the Clusters of this driver. They are not to be changed.
func (d *Driver) clusters(ctx context.Context) ([]*v1alpha1.Cluster, error) {
	var list v1alpha1.ClusterList
	if err := d.cfg.Reader.List(ctx, &list, readOnly); err != nil {
		return nil, fmt.Errorf("list clusters: %w", err)
	}
	var out []*v1alpha1.Cluster
	for i := range list.Items {
		if list.Items[i].Spec.StorageType == v1alpha1.StorageTypeLVM {
			out = append(out, &list.Items[i])
		}
	}
	return out, nil
}

// cluster returns the Cluster that a StorageClass names.
func (d *Driver) cluster(ctx context.Context, uid string) (*v1alpha1.Cluster, error) {
	if uid == "" {
		return nil, refuse(volume.Invalid, fmt.Sprintf("parameter %q is missing: it names the Cluster by its UID", v1alpha1.ParameterCluster))
	}
	all, err := d.clusters(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range all {
		if string(c.UID) == uid {
			return c, nil
		}
	}
	return nil, refuse(volume.Invalid, fmt.Sprintf("parameter %q: no Cluster of type lvm has the UID %.64q", v1alpha1.ParameterCluster, uid))
}

// hosts returns the hosts of a Cluster as they are at this moment.
func (d *Driver) hosts(ctx context.Context, c *v1alpha1.Cluster) ([]volume.Host, error) {
	var list v1alpha1.StorageNodeList
	if err := d.cfg.Reader.List(ctx, &list, readOnly); err != nil {
		return nil, fmt.Errorf("list storagenodes: %w", err)
	}
	maintenance := map[string]bool{}
	for _, n := range list.Items {
		maintenance[n.Name] = n.Spec.Maintenance
	}
	var out []volume.Host
	for _, name := range volume.HostNames(c) {
		out = append(out, volume.HostOf(c, d.cfg.Agents.Node(name), maintenance[name]))
	}
	return out, nil
}

// nodes returns the names of all nodes that may hold volumes; ordered.
func (d *Driver) nodes(ctx context.Context) ([]string, error) {
	all, err := d.clusters(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, c := range all {
		names = append(names, volume.HostNames(c)...)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// place is where an existing volume or snapshot is.
type place struct {
	id   volumeid.ID
	node decide.Node
	// owner is the UID of the Cluster; empty when no Cluster has or had such a group on the node.
	owner string
	// seen is true when the node was last seen with the group.
	seen bool
	// percent bounds what is given out of the thin pool.
	percent int32
}

// locate finds the group of a volume: in what its node reports or, without that, among the Clusters.
func (d *Driver) locate(ctx context.Context, id volumeid.ID) (place, error) {
	p := place{id: id, node: d.cfg.Agents.Node(id.Node)}
	for _, g := range p.node.Groups {
		if g.Name == id.Group {
			p.owner, p.seen = g.OwnerUID, true
		}
	}
	all, err := d.clusters(ctx)
	if err != nil {
		return place{}, err
	}
	for _, c := range all {
		class := volume.ClassOf(c)
		switch {
		case p.seen && class.Owner == p.owner:
			p.percent = class.Thin.Percent
		case !p.seen && class.Group == id.Group && slices.Contains(volume.HostNames(c), id.Node):
			p.owner, p.percent = class.Owner, class.Thin.Percent
		}
	}
	return p, nil
}

// reach is locate for what has to exist on a node that answers.
func (d *Driver) reach(ctx context.Context, id volumeid.ID) (place, error) {
	p, err := d.locate(ctx, id)
	switch {
	case err != nil:
		return place{}, err
	case p.owner == "":
		return place{}, fmt.Errorf("%w: no Cluster has volume group %s on node %s", volumeid.ErrNotOurs, id.Group, id.Node)
	case !p.node.Up():
		return place{}, refuse(volume.Unavailable, volume.Away(p.node).Message)
	}
	return p, nil
}

func (p place) spec() decide.VolumeSpec {
	return decide.VolumeSpec{
		Group: p.id.Group, Owner: p.owner, Name: p.id.Name, ID: p.id.String(), OverprovisionPercent: p.percent,
	}
}

// look observes one volume or snapshot.
func (d *Driver) look(ctx context.Context, p place) (decide.Volume, error) {
	all, _, err := d.cfg.Agents.ListVolumes(ctx, p.id.Node, p.id.Group)
	if err != nil {
		return decide.Volume{}, err
	}
	for _, v := range all {
		if v.Name == p.id.Name && v.ID == p.id.String() {
			return v, nil
		}
	}
	return decide.Volume{}, refuse(volume.NotFound, fmt.Sprintf("%s does not exist", p.id))
}
