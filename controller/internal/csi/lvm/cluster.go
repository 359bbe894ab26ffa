package lvm

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/lvm"
	"quarry.storage/quarry/controller/internal/decide/lvm/place"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/volumeid"
)

// readOnly lists without copying what is in the cache.
var readOnly = &client.ListOptions{UnsafeDisableDeepCopy: new(true)}

// clusters returns the Clusters of this driver. They must not be changed.
func (b *Backend) clusters(ctx context.Context) ([]*v1alpha1.Cluster, error) {
	var list v1alpha1.ClusterList
	if err := b.Reader.List(ctx, &list, readOnly); err != nil {
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
func (b *Backend) cluster(ctx context.Context, uid string) (*v1alpha1.Cluster, error) {
	if uid == "" {
		return nil, volume.Refuse(volume.Invalid, "parameter %q is missing: it names the Cluster by its UID", v1alpha1.ParameterCluster)
	}
	all, err := b.clusters(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range all {
		if string(c.UID) == uid {
			return c, nil
		}
	}
	return nil, volume.Refuse(volume.Invalid, "parameter %q: no Cluster of type lvm has the UID %.64q", v1alpha1.ParameterCluster, uid)
}

// members returns the Members of Clusters by the UID of their Cluster, ordered by node. They must not be changed.
func (b *Backend) members(ctx context.Context) (map[string][]*v1alpha1.Member, error) {
	var list v1alpha1.MemberList
	if err := b.Reader.List(ctx, &list, readOnly); err != nil {
		return nil, fmt.Errorf("list members: %w", err)
	}
	chosen := map[v1alpha1.MemberOwner]map[string]*v1alpha1.Member{}
	for i := range list.Items {
		m := &list.Items[i]
		of := m.Spec.Of
		if of.Kind != v1alpha1.KindCluster {
			continue
		}
		if chosen[of] == nil {
			chosen[of] = map[string]*v1alpha1.Member{}
		}
		owner, node := backend.Owner{Kind: of.Kind, Name: of.Name, UID: of.UID}, string(m.Spec.Node)
		chosen[of][node] = owner.Prefer(chosen[of][node], m)
	}
	out := map[string][]*v1alpha1.Member{}
	for of, members := range chosen {
		for _, node := range slices.Sorted(maps.Keys(members)) {
			out[string(of.UID)] = append(out[string(of.UID)], members[node])
		}
	}
	return out, nil
}

// hosts returns the hosts of a Cluster as they are at this moment; only the one of a name unless that is empty.
func (b *Backend) hosts(ctx context.Context, c *v1alpha1.Cluster, only string) ([]place.Host, error) {
	members, err := b.members(ctx)
	if err != nil {
		return nil, err
	}
	var list v1alpha1.StorageNodeList
	if err := b.Reader.List(ctx, &list, readOnly); err != nil {
		return nil, fmt.Errorf("list storagenodes: %w", err)
	}
	maintenance := map[string]bool{}
	for _, n := range list.Items {
		maintenance[n.Name] = n.Spec.Maintenance
	}
	var out []place.Host
	for _, m := range members[string(c.UID)] {
		name := string(m.Spec.Node)
		if only != "" && name != only {
			continue
		}
		// The report comes first: a volume that is removed between the two would look lost the other way round.
		seen := b.Agents.Node(name)
		volumes, err := b.volumes(ctx, name)
		if err != nil {
			return nil, err
		}
		out = append(out, place.HostOf(c, m, seen, maintenance[name], volumes))
	}
	return out, nil
}

// nodes returns the names of all nodes that may hold volumes; ordered.
func (b *Backend) nodes(ctx context.Context) ([]string, error) {
	all, err := b.clusters(ctx)
	if err != nil {
		return nil, err
	}
	members, err := b.members(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, c := range all {
		for _, m := range members[string(c.UID)] {
			names = append(names, string(m.Spec.Node))
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// spot is where an existing volume or snapshot is.
type spot struct {
	id   volumeid.ID
	node decide.Node
	// owner is the UID of the Cluster; empty when no Cluster has or had such a group on the node.
	owner string
	// seen is true when the node had the group when it was last seen.
	seen bool
	// percent bounds what is given out of the thin pool.
	percent int32
	// zero is the policy of the Cluster.
	zero v1alpha1.ZeroPolicy
	// discard is true when the Cluster wants linear volumes discarded before they are removed.
	discard bool
	// lost is true when a person said that the node and what is on its disks are gone, and the node is silent or lacks the group.
	lost bool
	// member is true when a Cluster has a Member on the node for it: a person can say there that it is lost.
	member bool
	// other is true when the group of the name that the node shows is not the one on record: what it lacks may be in that one.
	other bool
}

// locate finds the group of a volume: in what its node reports or, without that, among the Clusters.
func (b *Backend) locate(ctx context.Context, id volumeid.ID) (spot, error) {
	p := spot{id: id, node: b.Agents.Node(id.Node)}
	p.find()
	all, err := b.clusters(ctx)
	if err != nil {
		return spot{}, err
	}
	members, err := b.members(ctx)
	if err != nil {
		return spot{}, err
	}
	for _, c := range all {
		class := place.ClassOf(c)
		m := memberOn(members[class.Owner], id.Node)
		switch {
		case p.seen && class.Owner == p.owner:
			p.percent, p.zero, p.discard, p.member = class.Thin.Percent, class.Zero, class.Discard, m != nil
			p.lost, p.other = !p.node.Up() && p.gone(m), p.unrecorded(m)
		case !p.seen && class.Group == id.Group && (m != nil || place.Names(c, id.Node)):
			p.owner, p.percent, p.zero, p.discard, p.member = class.Owner, class.Thin.Percent, class.Zero, class.Discard, m != nil
			p.lost = p.gone(m)
		}
	}
	return p, nil
}

// find looks for the group in what the node reports. Of one that is unknown and was never reported it finds the owner.
func (p *spot) find() {
	for _, u := range p.node.Unknown {
		if u.Name == p.id.Group {
			p.owner = u.OwnerUID
		}
	}
	for _, g := range p.node.Groups {
		if g.Name == p.id.Group {
			p.owner, p.seen = g.OwnerUID, true
		}
	}
}

// gone reports whether a person's word that a member is lost counts here. The engine took it: it deletes the Member then. And this process
// knows by itself that the node is silent, or lacks the group: it may have just started, and the node may be back.
func (p spot) gone(m *v1alpha1.Member) bool {
	return backend.Lost(m) && !m.DeletionTimestamp.IsZero() && lvm.Gone(p.node, m.Spec.Group)
}

// unrecorded reports whether the group that is seen is another one than the Member records: disks were exchanged.
func (p spot) unrecorded(m *v1alpha1.Member) bool {
	if m == nil || m.Spec.Group == nil || m.Spec.Group.UUID == "" {
		return false
	}
	return !slices.ContainsFunc(p.node.Groups, func(g decide.Group) bool {
		// One that LVM cannot report is remembered, and not seen.
		return !g.Unknown && g.Name == p.id.Group && g.OwnerUID == p.owner && g.UUID == m.Spec.Group.UUID
	})
}

// memberOn returns the Member of a node; nil when there is none.
func memberOn(members []*v1alpha1.Member, node string) *v1alpha1.Member {
	i := slices.IndexFunc(members, func(m *v1alpha1.Member) bool { return string(m.Spec.Node) == node })
	if i < 0 {
		return nil
	}
	return members[i]
}

// reach is locate for what has to exist on a node that answers.
func (b *Backend) reach(ctx context.Context, id volumeid.ID) (spot, error) {
	p, err := b.locate(ctx, id)
	switch {
	case err != nil:
		return spot{}, err
	case p.owner == "":
		return spot{}, b.unowned(ctx, p)
	case !p.node.Up():
		return spot{}, volume.Refuse(volume.Unavailable, "%s%s", place.Away(p.node).Message, p.wayOut())
	}
	return p, nil
}

// meant is the UUID of the group that was judged, so that no other of its name is changed. Of several with one name the agent takes the one that
// holds the volume, and it is empty.
func (p spot) meant() string {
	uuid := ""
	for _, g := range p.node.Groups {
		if g.Name != p.id.Group || g.OwnerUID != p.owner {
			continue
		}
		if uuid != "" {
			return ""
		}
		uuid = g.UUID
	}
	return uuid
}

func (p spot) spec() decide.VolumeSpec {
	return decide.VolumeSpec{
		Group: p.id.Group, Owner: p.owner, GroupUUID: p.meant(), Name: p.id.Name, ID: p.id.String(), OverprovisionPercent: p.percent,
	}
}

// look observes one volume or snapshot. It is absent only where the group that it is recorded in is seen whole.
func (b *Backend) look(ctx context.Context, p spot) (decide.Volume, error) {
	all, _, err := b.Agents.ListVolumes(ctx, p.id.Node, p.id.Group)
	if err != nil {
		return decide.Volume{}, err
	}
	for _, v := range all {
		if v.Name == p.id.Name && v.ID == p.id.String() {
			return v, nil
		}
	}
	if !p.seen {
		return decide.Volume{}, p.away()
	}
	if err := b.missed(ctx, p); err != nil {
		return decide.Volume{}, err
	}
	return decide.Volume{}, volume.Refuse(volume.NotFound, "%s does not exist", p.id)
}
