// Package host decides which hosts of a Cluster may be used by it.
package host

import (
	"fmt"
	"slices"
	"time"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Cluster is what matters of a Cluster when hosts are shared out.
type Cluster struct {
	Name, UID string
	// Type is its backend: Clusters of different types never share a host.
	Type v1alpha1.StorageType
	// Created is when it was created.
	Created time.Time
	// Deleting is true once it was deleted by the user.
	Deleting bool
	// Hosts of the spec.
	Hosts []string
	// Recorded are the hosts where it owns disks.
	Recorded []string
}

// Of returns what matters of a Cluster.
func Of(c *v1alpha1.Cluster) Cluster {
	v := Cluster{
		Name: c.Name, UID: string(c.UID), Type: c.Spec.StorageType,
		Created: c.CreationTimestamp.Time, Deleting: !c.DeletionTimestamp.IsZero(),
	}
	for _, h := range c.Spec.Hosts {
		v.Hosts = append(v.Hosts, string(h))
	}
	for _, h := range c.Status.Config {
		if len(h.BlockDevices) > 0 {
			v.Recorded = append(v.Recorded, h.NodeName)
		}
	}
	return v
}

// Invalid is why a host may not be used.
type Invalid struct {
	// Reason is HostNotFound or HostConflict.
	Reason string
	// Message is one sentence.
	Message string
}

// Judge says why a Cluster may not use a host; nil when it may. exists says whether Kubernetes knows the node.
func Judge(c Cluster, name string, exists bool, others []Cluster) *Invalid {
	if !exists {
		return &Invalid{v1alpha1.ReasonHostNotFound, "Kubernetes knows no node of this name"}
	}
	for _, o := range others {
		if o.UID == c.UID || o.Type == c.Type || !o.claims(name) {
			continue
		}
		if o.before(c, name) {
			return &Invalid{v1alpha1.ReasonHostConflict, fmt.Sprintf(
				"is used by Cluster %s of type %s already; Clusters of different types never share a host", o.Name, o.Type)}
		}
	}
	return nil
}

// claims says whether the Cluster uses a host, or wants to.
func (c Cluster) claims(host string) bool {
	if slices.Contains(c.Recorded, host) {
		return true
	}
	return !c.Deleting && slices.Contains(c.Hosts, host)
}

// before says whether the Cluster's claim on a host wins: who owns disks there comes first, then the older, then the name.
func (c Cluster) before(o Cluster, host string) bool {
	mine, theirs := slices.Contains(c.Recorded, host), slices.Contains(o.Recorded, host)
	switch {
	case mine != theirs:
		return mine
	case !c.Created.Equal(o.Created):
		return c.Created.Before(o.Created)
	default:
		return c.Name < o.Name
	}
}

// Labelled says whether the node keeps the label of a storage type: some Cluster of that type uses it.
func Labelled(name string, t v1alpha1.StorageType, clusters []Cluster) bool {
	for _, c := range clusters {
		if c.Type == t && c.claims(name) {
			return true
		}
	}
	return false
}
