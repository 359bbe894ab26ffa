// Package lvm is the backend of Clusters with storageType lvm: it observes their volume groups through the agents, and performs their
// steps there. It decides nothing.
package lvm

import (
	"context"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/lvm"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Agents knows what the agents of the nodes report.
type Agents interface {
	// Node returns what is known about a node.
	Node(name string) decide.Node
	// Holders returns the nodes that report, or did when they were last seen, a group of an owner, be it one that names another node.
	Holders(ownerUID string) []string
}

// Changer changes the disks of hosts.
type Changer interface {
	WipeDevice(ctx context.Context, node string, d decide.Device) (decide.Device, error)
	EnsureVolumeGroup(ctx context.Context, node string, group decide.GroupRef, devices []decide.Device) error
	EnsureThinPool(ctx context.Context, node string, pool decide.ThinPoolSpec) (decide.ThinPool, error)
	ReduceVolumeGroup(ctx context.Context, node string, group decide.GroupRef, devices []decide.Device) error
	RemoveVolumeGroup(ctx context.Context, node string, group decide.GroupRef, devices []decide.Device) error
	ForgetMissingDevice(ctx context.Context, node string, group decide.GroupRef, missing, volumes []string) error
	MoveExtents(ctx context.Context, node string, group decide.GroupRef, device decide.Device, avoid []string) error
	StampVolumeGroup(ctx context.Context, node, group, owner, uuid string) error
	ImportVolumeGroup(ctx context.Context, node, group, owner, uuid, from string) error
	TakeOverVolumeGroup(ctx context.Context, node string, group decide.GroupRef, systemID, fromOwner string) error
	RepairThinPool(ctx context.Context, node string, group decide.GroupRef, pool, digest string) error
}

// Records changes what is on record of the groups of members.
type Records interface {
	// Adopt records a group for a member in place of others. It changes nothing that is so already, and returns a decide.Fault when the
	// member is another one by now, or records a group that is not among the others.
	Adopt(ctx context.Context, a lvm.Adoption, group, uuid string) error
	// Adoptable returns the decide.Fault that Adopt would, and one when another member, of whatever storage, has the group on record. It changes nothing.
	Adoptable(ctx context.Context, a lvm.Adoption, uuid string) error
	// Ownerless returns a decide.Fault while a storage of that UID exists, of whatever kind, and an error when nobody can say. node is named in it.
	Ownerless(ctx context.Context, node, uid string) error
}

// Backend observes and changes the volume groups of Clusters.
type Backend struct {
	Agents  Agents
	Changer Changer
	Records Records
	// Client reads the snapshots of hosts that were declared lost. It must not read them from a cache that may lag.
	Client client.Reader
	// Now returns the time; time.Now when it is nil.
	Now func() time.Time
}

// Profile returns what the engine has to know of this backend.
func (b *Backend) Profile() backend.Profile { return lvm.Profile() }

// Snapshots reports whether a Cluster gets a VolumeSnapshotClass.
func (b *Backend) Snapshots(s v1alpha1.Storage) bool { return lvm.Snapshots(s) }

// Observe returns what the agents report about every host that the Cluster uses, or may use.
func (b *Backend) Observe(ctx context.Context, o v1alpha1.Storage, w backend.World, _ backend.View) (backend.View, error) {
	c, ok := o.(*v1alpha1.Cluster)
	if !ok {
		return nil, fmt.Errorf("observe %s %s: not a Cluster", o.StorageKind(), o.GetName())
	}
	seen := lvm.Observation{Cluster: c, World: w, Nodes: map[string]decide.Node{}, Holders: b.Agents.Holders(string(c.UID))}
	seen.Now = time.Now()
	if b.Now != nil {
		seen.Now = b.Now()
	}
	for _, name := range hosts(c, w, seen.Holders) {
		seen.Nodes[name] = b.Agents.Node(name)
	}
	var err error
	if seen.Snapshots, err = b.snapshots(ctx, c, w); err != nil {
		return nil, err
	}
	return lvm.NewView(seen), nil
}

// hosts returns every host that a Cluster wants, uses or may have used.
func hosts(c *v1alpha1.Cluster, w backend.World, holders []string) []string {
	names := slices.Clone(holders)
	for _, h := range c.Spec.Hosts {
		names = append(names, string(h))
	}
	for name := range w.Nodes {
		names = append(names, name)
	}
	for _, m := range w.Members {
		names = append(names, string(m.Spec.Node))
	}
	for name := range w.Volumes {
		if name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
