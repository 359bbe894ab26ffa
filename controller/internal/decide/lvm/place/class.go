// Package place decides where a volume of local storage is made, and with which size: it reads the parameters of a StorageClass,
// chooses hosts, counts room, and says what is wrong with a volume.
package place

import (
	"slices"
	"strings"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/lvm"
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
	// Zero says which linear volumes are zeroed before they are shown.
	Zero v1alpha1.ZeroPolicy
	// Discard says that linear volumes are discarded before they are removed.
	Discard bool
}

// Zero returns what of a volume is zeroed under a policy. raw is true if the volume may be shown as a raw block device, or if that is not known.
func Zero(p v1alpha1.ZeroPolicy, raw bool) decide.Zero {
	switch {
	case p == v1alpha1.ZeroNever:
		return decide.ZeroNothing
	case raw || p == v1alpha1.ZeroAlways:
		return decide.ZeroAll
	}
	return decide.ZeroRaw
}

// Host is a host of a class.
type Host struct {
	Node  decide.Node
	State nodestate.State
	// Group of the class on the host; nil when none was ever seen.
	Group *decide.Group
	// Refusal says why no volume is made on the host; empty when its Member does not speak against it.
	Refusal string
	// Unknown is true when its agent cannot tell what is in the group.
	Unknown bool
	// Soon is true when its Member speaks against it for a moment only.
	Soon bool
	// Hidden is true when nobody can look into its recorded group: a call whose answer was lost may have made the volume there.
	Hidden bool
	// Stray is true when the volume that is wanted is there, and nobody was told of it: it is not the one that the claim gets.
	Stray bool
}

// ClassOf returns what matters of a Cluster.
func ClassOf(c *v1alpha1.Cluster) Class {
	s := lvm.Of(c)
	out := Class{Cluster: s.Owner.Name, Owner: s.UID(), Group: s.Group, Deleting: s.Deleting}
	if c.Spec.LVM != nil {
		out.Zero, out.Discard = c.Spec.LVM.Zero, c.Spec.LVM.DiscardOnDelete
	}
	if s.ThinPool != nil {
		out.Thin = Thin{Pool: s.ThinPool.Name, Percent: s.OverprovisionPercent}
	}
	return out
}

// HostOf returns the host that a Member stands for, with its state at this moment. maintenance is true when its StorageNode asks for it,
// and volumes are those of the node. What the status of the Member says may be old; flags and record are read from where they are kept.
func HostOf(c *v1alpha1.Cluster, m *v1alpha1.Member, n decide.Node, maintenance bool, volumes []backend.Volume) Host {
	s := lvm.Of(c)
	now := lvm.State(s, n, m, maintenance, volumes)
	out := Host{Node: n, State: now.State, Group: now.Group, Refusal: now.Problem, Unknown: now.Unknown, Soon: now.Soon}
	recorded := m.Spec.Group != nil && m.Spec.Group.UUID != ""
	out.Hidden = recorded && !backend.Lost(m) && (!n.Up() || now.Unknown || now.Group == nil)
	if out.Group != nil {
		return out
	}
	// Nothing is made in a group that is not on record. What is in it is found all the same.
	groups := n.GroupsOf(s.UID())
	for i := range groups {
		if groups[i].Name == s.Group {
			out.Group = &groups[i]
		}
	}
	return out
}

// Has reports whether the group was last seen with a volume of that name.
func (h Host) Has(name string) bool { return h.Group != nil && slices.Contains(h.Group.Volumes, name) }

// problem says why no new volume is made on the host; empty when one is.
func (h Host) problem() string {
	switch {
	case h.Refusal != "":
		return h.Refusal
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

// Names reports whether the spec of a Cluster may mean a node. What a selector means is not known here, so it may mean any.
func Names(c *v1alpha1.Cluster, node string) bool {
	return c.Spec.HostSelector != nil || slices.Contains(c.Spec.Hosts, v1alpha1.HostName(node))
}
