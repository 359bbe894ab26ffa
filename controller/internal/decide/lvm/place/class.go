// Package place decides where a volume of local storage is made, and with which size: it reads the parameters of a StorageClass,
// chooses hosts, counts room, and says what is wrong with a volume.
package place

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
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
	// Unrecorded is true when the group is not the one that the Member records: nothing is made in it.
	Unrecorded bool
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

// HostOf returns the host that a Member stands for, with its state at this moment. maintenance is true when its StorageNode asks for it.
// What the status of the Member says may be old; flags and record are read from where they are kept.
func HostOf(c *v1alpha1.Cluster, m *v1alpha1.Member, n decide.Node, maintenance bool) Host {
	quiesce := maintenance || m.Spec.Maintenance || slices.Contains(c.Spec.Maintenance, v1alpha1.HostName(n.Name)) ||
		meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.ConditionLeaving) || left(c, n.Name)
	flags := nodestate.Of(n.Up(), true, quiesce, !m.DeletionTimestamp.IsZero() || !c.DeletionTimestamp.IsZero() || backend.Lost(m))
	out := Host{Node: n, State: nodestate.Compute(flags)}
	name := ClassOf(c).Group
	groups := n.GroupsOf(string(c.UID))
	for i := range groups {
		if groups[i].Name == name {
			out.Group = &groups[i]
		}
	}
	if out.Group != nil && (m.Spec.Group == nil || m.Spec.Group.UUID != out.Group.UUID) {
		out.Unrecorded = true
	}
	return out
}

// left reports whether a host was taken off the list of hosts. Its Member says so a moment later.
func left(c *v1alpha1.Cluster, node string) bool {
	return c.Spec.HostSelector == nil && !slices.Contains(c.Spec.Hosts, v1alpha1.HostName(node))
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
	case h.Unrecorded:
		return "its volume group is not the one on record"
	case h.Group.Partial:
		return "a disk of its volume group is missing"
	}
	return ""
}
