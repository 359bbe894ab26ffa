package lvm

import (
	"k8s.io/apimachinery/pkg/api/meta"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/disk"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// claimant is a Cluster with what it wants of hosts.
type claimant struct {
	spec   Spec
	listed map[string]bool
	// departing are the hosts whose Member of the Cluster is being deleted or leaves.
	departing map[string]bool
	// recorded are the hosts whose Member records a group of the Cluster.
	recorded map[string]bool
}

func claimantOf(c *v1alpha1.Cluster, members []*v1alpha1.Member) claimant {
	out := claimant{spec: Of(c), listed: map[string]bool{}, departing: map[string]bool{}, recorded: map[string]bool{}}
	for _, h := range out.spec.Common.Hosts {
		out.listed[string(h)] = true
	}
	for _, m := range members {
		if out.spec.Owner.Owns(m) && departs(m) {
			out.departing[string(m.Spec.Node)] = true
		}
		if r := m.Spec.Group; r != nil && r.UUID != "" && out.spec.Owner.Owns(m) {
			out.recorded[string(m.Spec.Node)] = true
		}
	}
	return out
}

// departs reports whether a Member is being deleted, or leaves.
func departs(m *v1alpha1.Member) bool {
	return !m.DeletionTimestamp.IsZero() || meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.ConditionLeaving)
}

// wants reports whether the Cluster is to use a host.
func (c claimant) wants(n backend.Node) bool {
	switch {
	case c.spec.Deleting || c.spec.Type != v1alpha1.StorageTypeLVM:
		return false
	case c.spec.Common.Selector == nil:
		return c.listed[n.Name]
	}
	return backend.Wants(c.spec.Common, n)
}

// on returns what the Cluster wants of the devices of a host, of which the agent reports seen.
func (c claimant) on(n backend.Node, seen decide.Node) disk.Claim {
	return disk.Claim{
		Name: c.spec.Owner.Name, UID: c.spec.UID(), Created: c.spec.Created, Selector: c.spec.Devices, Host: n.Name,
		Idle: !c.wants(n) || c.departing[n.Name], Joined: c.recorded[n.Name] || len(ownGroups(c.spec, seen)) > 0,
	}
}

// retired returns the devices that Members give up, by host. Whose Member says so does not matter.
func retired(lists ...[]*v1alpha1.Member) map[string][]disk.Retired {
	out := map[string][]disk.Retired{}
	for _, list := range lists {
		for _, m := range list {
			for _, d := range m.Spec.Retire {
				out[string(m.Spec.Node)] = append(out[string(m.Spec.Node)], disk.Retired{Member: m.Name, Device: d})
			}
		}
	}
	return out
}
