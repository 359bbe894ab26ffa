// Package backend holds what the decisions about every storage have in common, whatever its backend: the member machine, who may use a
// host, steps with their plan and approval, findings, conditions and the StorageClass. It is pure, and knows no single backend.
package backend

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Profile is what the engine has to know of a backend before it looks at anything.
type Profile struct {
	// Type is the label of the nodes that the backend uses, and what tells backends apart when hosts are shared out. A backend without a
	// type takes no part in that.
	Type v1alpha1.StorageType
	// Exclusive is true for a backend that never shares a host with another type.
	Exclusive bool
	// Driver of the volumes.
	Driver Driver
	// Members says how the readiness of the members is told; nil for a backend without members.
	Members *Readiness
	// Label returns the name of the label that nodes carry which serve a storage of this name; its value is "true". It is nil for a backend
	// whose nodes carry none.
	Label func(storage string) string
	// MovesData is true for a backend that moves the data of a member away by itself. A member of any other backend that leaves stays
	// until it is known to hold no data.
	MovesData bool
	// Effects are what steps do beyond the storage's own, by their action: of a recorded step only the action is known. An action that is missing has none.
	Effects map[string]Effect
}

// Effect is what the steps of one action do.
type Effect struct {
	// Takes is true for steps that may take devices of hosts which are nobody's so far.
	Takes bool
	// Wipes is true for steps that wipe the one device that they show.
	Wipes bool
	// GivesUp is true for steps by which the volumes that they show are deleted for good.
	GivesUp bool
}

// TakesDevices reports whether the backend has steps that take devices which are nobody's so far.
func (p Profile) TakesDevices() bool {
	for _, e := range p.Effects {
		if e.Takes {
			return true
		}
	}
	return false
}

// Wipes reports whether steps of an action wipe the device that they show.
func (p Profile) Wipes(action string) bool { return p.Effects[action].Wipes }

// Readiness is how a backend words what there is to say about its members. The engine has no words of its own for what a member is made of.
type Readiness struct {
	// Condition is the type of the condition.
	Condition string
	// Reason and Message of the condition while all members are well.
	Reason, Message string
	// None is the message while no member serves yet.
	None string
	// Preparing and Unapproved are what is said about one member: while its steps run, and while they wait for approval.
	Preparing, Unapproved string
	// Forgets says who has to forget what a lost member had, as in "Ceph has forgotten", of a backend that moves data; empty where its volumes have to be deleted.
	Forgets string
}

// Driver describes a CSI driver.
type Driver struct {
	// Name of the driver, the provisioner of the classes.
	Name string
	// Deployment is the name of the Deployment of its controller.
	Deployment string
	// Topology is true when a volume can be used on some nodes only.
	Topology bool
	// Capacity is true when the driver tells how much room is left. The scheduler looks at it for a driver with Topology.
	Capacity bool
	// Snapshots is true when the driver makes snapshots.
	Snapshots bool
	// Attach is true when volumes are attached to nodes: Kubernetes records each use of one on a node in a VolumeAttachment, and asks the
	// driver's controller before the volume is staged and after it was unstaged. The CSIDriver says so for as long as it exists.
	Attach bool
	// NodeOf returns the node that a handle names; empty when it names none. It is nil for a driver whose handles never do.
	NodeOf func(handle string) string
	// InGroup reports whether a volume whose attributes name no storage is in a group of this name, on the node that its handle names. It is nil for a driver without such groups.
	InGroup func(handle string, attributes map[string]string, group string) bool
	// PrefixOf returns what the handles of a storage's volumes begin with. It is nil for a driver whose handles begin with the UID of the storage, and a slash.
	PrefixOf func(v1alpha1.Storage) string
}

// Places returns the nodes that a PersistentVolume of the driver lives on: those that its affinity names with the driver's topology, and
// the one that its handle names. A person may have made the PersistentVolume by hand, with another affinity or with none. A volume that is
// attached lives on no node: its affinity says where it can be used, and its VolumeAttachments say where it is.
func (d Driver) Places(v *corev1.PersistentVolume) []string {
	if d.Attach {
		return nil
	}
	var nodes []string
	if d.NodeOf != nil && v.Spec.CSI != nil {
		if n := d.NodeOf(v.Spec.CSI.VolumeHandle); n != "" {
			nodes = append(nodes, n)
		}
	}
	if a := v.Spec.NodeAffinity; a != nil && a.Required != nil {
		for _, term := range a.Required.NodeSelectorTerms {
			for _, e := range term.MatchExpressions {
				if e.Key == v1alpha1.TopologyHost && e.Operator == corev1.NodeSelectorOpIn {
					nodes = append(nodes, e.Values...)
				}
			}
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}
