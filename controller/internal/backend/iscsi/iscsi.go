// Package iscsi makes Iscsis real: it asks agents what they see of a target and of the LUN, and has them log in, register keys, and make, change and
// remove the volume group. It decides nothing; package decide/iscsi does.
package iscsi

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/iscsi"
	"quarry.storage/quarry/controller/internal/decide/writer"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedlun"
)

// Agents is what the backend knows of agents. Errors are decide.Faults.
type Agents interface {
	// Node returns what is known about a node: of it the state of its agent.
	Node(name string) decide.Node
	// Initiator describes the initiator of a node, and its boot.
	Initiator(ctx context.Context, node string) (sharedlun.Initiator, string, error)
	// Target tells what a node sees of a target; with users, who uses its LUNs there.
	Target(ctx context.Context, node string, t sharedlun.Target, users bool) (sharedlun.Seen, error)
	// Login makes a session with every portal. renew makes those anew that are there; nil leaves them.
	Login(ctx context.Context, node string, t sharedlun.Target, chap *sharedlun.Chap, renew *sharedlun.Renewal) (sharedlun.Seen, error)
	// Logout ends the sessions with a target that nobody uses.
	Logout(ctx context.Context, node string, t sharedlun.Target) error
	// Reservation reads the keys of a LUN. A target that is expected to have reservations, and has none, may be an error.
	Reservation(ctx context.Context, node string, lun sharedlun.Identity, expected bool) (sharedlun.Reservation, error)
	// Register registers the key that a node was granted.
	Register(ctx context.Context, node string, lun sharedlun.Identity, g sharedlun.Grant) (sharedlun.Reservation, error)
	// Unregister takes a node's own key off. The last key of all may go only if last says so.
	Unregister(ctx context.Context, node string, lun sharedlun.Identity, key uint64, last bool) (sharedlun.Reservation, error)
	// Preempt takes another node's key off through a node that has its own, and returns the keys as read afterwards.
	Preempt(ctx context.Context, node string, lun sharedlun.Identity, key, victim uint64) (sharedlun.Reservation, error)
	// Contents reads the group, or what is on the LUN instead.
	Contents(ctx context.Context, node string, ref sharedlun.Ref) (sharedlun.Contents, error)
	// Mappings lists the devices of the group's volumes on a node, and says which paths there lead to another LUN than the recorded one. Map makes a device.
	Mappings(ctx context.Context, node string, ref sharedlun.Ref) (all []sharedlun.Mapping, other string, err error)
	Map(ctx context.Context, node string, ref sharedlun.Ref, c sharedlun.Credential, v sharedlun.Volume, sequence uint64) (sharedlun.Mapping, error)
	// Unmap removes the device of a volume; cut has it return errors first, so that it does no more harm if it is open.
	Unmap(ctx context.Context, node string, ref sharedlun.Ref, volumeUUID string, sequence uint64, cut bool) error
}

// Groups changes groups, through whichever node is the writer. A san.San does.
type Groups interface {
	// MakeGroup makes the group. wipe is the digest of what a person agreed to lose.
	MakeGroup(ctx context.Context, ref sharedlun.Ref, name, wipe string) (sharedlun.Group, error)
	// RemoveGroup removes a group without volumes.
	RemoveGroup(ctx context.Context, ref sharedlun.Ref) error
	// Release takes a volume from its node, if it is still that volume of that node, and marked as leaving.
	Release(ctx context.Context, ref sharedlun.Ref, v sharedlun.Volume) error
	// Forget takes boots of a node off the readers of a volume: a person vouched that they have ended. A node that answers has to agree, in the boot reported; empty for
	// one that does not.
	Forget(ctx context.Context, ref sharedlun.Ref, v sharedlun.Volume, boots []sharedlun.Boot, reported string) error
	// Drop drops what is remembered of groups whose owners are gone, by their UIDs.
	Drop(gone func(ownerUID string) bool)
}

// Records reads the record of a group's writer.
type Records interface {
	Load(ctx context.Context, ownerUID string) (writer.Record, string, error)
}

// Config of a Backend.
type Config struct {
	Agents  Agents
	Groups  Groups
	Records Records
	// Client writes to the API server, Live reads from it without a cache.
	Client client.Client
	Live   client.Reader
	// Namespace has the Secrets with credentials, and the Leases.
	Namespace string
	// Now returns the time, Random 64 random bits.
	Now    func() time.Time
	Random func() uint64
}

// Backend works on shared LUNs.
type Backend struct {
	Config
	memory memory
}

// New makes a Backend.
func New(cfg Config) *Backend { return &Backend{Config: cfg} }

// Profile returns what the engine has to know of shared LUNs.
func (b *Backend) Profile() backend.Profile { return iscsi.Profile() }

// Forget drops what is remembered of an Iscsi that is gone.
func (b *Backend) Forget(uid types.UID) {
	b.memory.forget(uid)
	b.Groups.Drop(func(owner string) bool { return owner == string(uid) })
}

// Observe asks the agents of all initiators, and reads the LUN, when what is known of them is old or was changed by a step.
func (b *Backend) Observe(ctx context.Context, s v1alpha1.Storage, w backend.World, last backend.View) (backend.View, error) {
	i, ok := s.(*v1alpha1.Iscsi)
	if !ok {
		return nil, fmt.Errorf("%T is no Iscsi", s)
	}
	old, _ := last.(*iscsi.View)
	o := iscsi.Observation{Iscsi: i, World: w, Now: b.Now(), Granted: b.memory.granted(i.UID, w.Members)}
	if old != nil {
		seen := old.Seen()
		// Where no Member has the LUN on record, what nodes showed tells which one is meant.
		o.Reading, o.Record, o.Hosts = seen.Reading, seen.Record, seen.Hosts
	}
	var err error
	if o.Chap, err = b.chapOf(ctx, i); err != nil {
		return nil, err
	}
	claims := iscsi.PersistentVolumes(w)
	stamp, due := b.memory.due(i, claims, o.Reading, o.Now)
	if due {
		if o.Record, _, err = b.Records.Load(ctx, string(i.UID)); err != nil {
			return nil, err
		}
	}
	if o.Hosts, err = b.look(ctx, o); err != nil {
		return nil, err
	}
	if due {
		o.Reading = b.read(ctx, iscsi.NewView(o, old))
		b.memory.read(i, claims, stamp)
		// Steps of nodes go on meanwhile: a key that was put on record since may be on the LUN already.
		o.Granted = b.memory.granted(i.UID, w.Members)
	}
	if view := iscsi.NewView(o, old); !view.Compares() {
		return view, nil
	}
	if o.Machines, err = kube.Machines(ctx, b.Client); err != nil {
		return nil, err
	}
	return iscsi.NewView(o, old), nil
}

// Snapshots reports whether a storage gets a VolumeSnapshotClass: every Iscsi does.
func (b *Backend) Snapshots(s v1alpha1.Storage) bool {
	_, ok := s.(*v1alpha1.Iscsi)
	return ok
}

// Fill writes what only an Iscsi has in its status.
func (b *Backend) Fill(s v1alpha1.Storage, v backend.View, _ backend.World) {
	i, ok := s.(*v1alpha1.Iscsi)
	view, seen := v.(*iscsi.View)
	if ok && seen && view != nil {
		view.Fill(i)
	}
}
