// Package place decides where a volume of local storage is made, and with which size: it reads the parameters of a StorageClass,
// chooses hosts, counts room, and says what is wrong with a volume.
package place

import (
	"slices"
	"strings"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/member"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

// Class is what matters of a Cluster to the volumes of its class.
type Class struct {
	// Cluster is the name of the Cluster, Owner its UID, Group the name of its groups.
	Cluster, Owner, Group string
	// Deleting is true once the Cluster is being deleted.
	Deleting bool
	// Thin is the thin pool that volumes are made in.
	Thin Thin
}

// Host is a host of a class.
type Host struct {
	Node  decide.Node
	State nodestate.State
	// Group of the class on the host; nil when none was ever seen.
	Group *decide.Group
}

// ClassOf returns what matters of a Cluster.
func ClassOf(c *v1alpha1.Cluster) Class {
	out := Class{
		Cluster: c.Name, Owner: string(c.UID), Group: v1alpha1.DefaultVolumeGroupPrefix + c.Name,
		Deleting: !c.DeletionTimestamp.IsZero(), Thin: thinOf(c),
	}
	if c.Spec.LVM != nil && c.Spec.LVM.VolumeGroup != "" {
		out.Group = c.Spec.LVM.VolumeGroup
	}
	return out
}

// HostNames returns the names of the hosts that a Cluster has, or had and did not give up. They are ordered.
func HostNames(c *v1alpha1.Cluster) []string {
	var names []string
	for _, h := range c.Spec.Hosts {
		names = append(names, string(h))
	}
	for _, m := range c.Status.Members {
		names = append(names, m.Node)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// HostOf returns a host of a Cluster with its state at this moment. maintenance is true when its StorageNode asks for it.
func HostOf(c *v1alpha1.Cluster, n decide.Node, maintenance bool) Host {
	wanted := c.DeletionTimestamp.IsZero() && slices.Contains(c.Spec.Hosts, v1alpha1.HostName(n.Name))
	in := member.Input{
		Host: n.Name, Node: n, Groups: n.GroupsOf(string(c.UID)), Wanted: wanted,
		Maintenance: maintenance || slices.Contains(c.Spec.Maintenance, v1alpha1.HostName(n.Name)),
	}
	if i := slices.IndexFunc(c.Status.Members, func(m v1alpha1.ClusterMember) bool { return m.Node == n.Name }); i >= 0 {
		in.Previous = &c.Status.Members[i]
	}
	out := Host{Node: n, State: nodestate.State(member.Decide(in).State)}
	name := ClassOf(c).Group
	for i := range in.Groups {
		if in.Groups[i].Name == name {
			out.Group = &in.Groups[i]
		}
	}
	return out
}

// has reports whether the group was last seen with a volume of that name.
func (h Host) has(name string) bool { return h.Group != nil && slices.Contains(h.Group.Volumes, name) }

// problem says why no new volume is made on the host; empty when one is.
func (h Host) problem() string {
	switch {
	case h.Node.Agent == decide.AgentConnecting:
		return "its agent is not connected yet"
	case h.State != nodestate.Online:
		text := "it is " + string(h.State)
		if p := strings.TrimSuffix(h.Node.Problem, "."); p != "" {
			text += " (" + p + ")"
		}
		return text
	case h.Group == nil:
		return "it has no volume group of the Cluster"
	case h.Group.Partial:
		return "a disk of its volume group is missing"
	}
	return ""
}
