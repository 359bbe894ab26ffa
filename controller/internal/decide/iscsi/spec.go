// Package iscsi decides about volumes on a shared LUN: who logs in, who may write, when the volume group is made and removed, which node is
// fenced. It is pure; decisions 0038 to 0040 say why it is so.
package iscsi

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedlun"
)

const (
	// Every is how often nodes and the LUN are looked at, unless a step changed something.
	Every = 15 * time.Second
	// soon is when to look again while something is under way.
	soon = time.Second
	// grace is how long after a start of the controller conditions of before stand while nobody could look.
	grace = 30 * time.Second
	// loginEvery is how often it is tried to get paths back while another one is up.
	loginEvery = 30 * time.Second
	// leavingFor is how long a volume is left to whoever began to take it from its node.
	leavingFor = 30 * time.Second
	// bootFor is how long a node that was booted gets to register its new key before a person is asked about the one of before.
	bootFor = 2 * time.Minute
	// maxNamed is how many nodes, paths or volumes a message names.
	maxNamed = 10
	// maxKeys is how many keys the reason for a step names: a storage shows its first 200 bytes.
	maxKeys = 4
)

// NextLook is how long after a look that failed so many times in a row the next one comes: what was in its way is mostly over soon. Without a failure it is Every.
func NextLook(failures int) time.Duration {
	if failures == 0 {
		return Every
	}
	return min(soon<<min(failures-1, 10), Every)
}

// Profile returns what the engine has to know of shared LUNs.
func Profile() backend.Profile {
	return backend.Profile{
		Driver: backend.Driver{
			Name: v1alpha1.DriverISCSI, Deployment: "quarry-csi-iscsi", Topology: true, Capacity: true, Snapshots: true, Attach: true,
		},
		Members: &backend.Readiness{
			Condition: v1alpha1.ConditionInitiatorsReady, Reason: v1alpha1.ReasonInitiatorsReady,
			Message: "Every initiator sees the LUN and may write to it.", None: "No initiator has a part of the volume group yet.",
			Preparing: "is being connected to the LUN", Unapproved: "its steps wait for approval",
		},
		Label: func(storage string) string { return v1alpha1.LabelInitiatorPrefix + storage },
	}
}

// defaultPort of portals (RFC 7143).
const defaultPort = 3260

// TargetOf returns the target that a spec names, as agents are told of it.
func TargetOf(i *v1alpha1.Iscsi) sharedlun.Target {
	t := sharedlun.Target{IQN: i.Spec.IQN}
	port := i.Spec.Port
	if port == 0 {
		port = defaultPort
	}
	for _, address := range i.Spec.Targets {
		t.Portals = append(t.Portals, sharedlun.Portal(string(address), uint16(port)))
	}
	return t
}

// rival returns the name of an Iscsi that names the same target and comes first: one whose members have a LUN of it on record, then the older one. It
// is empty when this one comes first. A target is known to a node by its name: two Iscsis of one name would use each other's sessions, whatever
// portals they list.
func rival(i *v1alpha1.Iscsi, w backend.World) string {
	recorded := map[types.UID]bool{}
	for _, m := range slices.Concat(w.Members, w.OtherMembers) {
		if l := m.Spec.Lun; l != nil && l.IQN == i.Spec.IQN {
			recorded[m.Spec.Of.UID] = true
		}
	}
	first := i
	for _, o := range w.Others {
		other, ok := o.(*v1alpha1.Iscsi)
		if !ok || other.Spec.IQN != i.Spec.IQN {
			continue
		}
		if mine, theirs := recorded[first.UID], recorded[other.UID]; mine != theirs && theirs || mine == theirs && before(other, first) {
			first = other
		}
	}
	if first == i {
		return ""
	}
	return first.Name
}

// takenBy returns the name of another Iscsi whose members have the LUN on record, whatever target it names; empty when there is none. Of two that have it the older
// one goes on.
func (v *View) takenBy() string {
	lun := v.LUN()
	if lun == nil {
		return ""
	}
	for _, m := range v.seen.World.OtherMembers {
		l := m.Spec.Lun
		if l == nil || m.Spec.Of.UID == v.seen.Iscsi.UID || l.WWID != lun.WWID || l.Serial != lun.Serial {
			continue
		}
		var other *v1alpha1.Iscsi
		for _, o := range v.seen.World.Others {
			if i, is := o.(*v1alpha1.Iscsi); is && i.UID == m.Spec.Of.UID {
				other = i
			}
		}
		if v.rec.Lun == nil || other != nil && before(other, v.seen.Iscsi) {
			return m.Spec.Of.Name
		}
	}
	return ""
}

func before(a, b *v1alpha1.Iscsi) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}

// claimed counts the volumes of the storage that the API server knows, attached ones once more: only none matters.
func claimed(w backend.World) int {
	n := 0
	for _, held := range []map[string][]backend.Volume{w.Volumes, w.Attached} {
		for _, at := range held {
			n += len(at)
		}
	}
	return n
}

// PersistentVolumes counts those of the storage.
func PersistentVolumes(w backend.World) int {
	n := 0
	for _, at := range w.Volumes {
		n += len(at)
	}
	return n
}

// deleting reports whether the Iscsi is being deleted.
func (v *View) deleting() bool { return !v.seen.Iscsi.DeletionTimestamp.IsZero() }

// removed reports whether the group is gone for good, or a person gave the LUN up as it is.
func (v *View) removed() bool { return v.givenUp() || v.gone() }

// gone reports whether the group was removed with its Iscsi: nothing of ours is on the LUN but keys.
func (v *View) gone() bool {
	return v.deleting() && v.rec.group != "" && v.seen.Iscsi.Annotations[v1alpha1.AnnotationGroupRemoved] == v.rec.group
}

// givenUp reports whether a person lets the Iscsi go whatever is on its LUN.
func (v *View) givenUp() bool {
	return v.deleting() && v.seen.Iscsi.Annotations[v1alpha1.AnnotationRemove] == string(v.seen.Iscsi.UID)
}

// blank reports whether it is known that there is no group. While one is being made, nothing at all may be on the LUN.
func (v *View) blank() bool {
	r := v.seen.Reading
	return v.rec.group == "" && r.Known && r.Contents.Group == nil && (v.rec.Forming == "" || v.deleting() && r.Contents.Content == "")
}

// groupless reports whether an Iscsi that is being deleted has no group to remove any more.
func (v *View) groupless() bool { return v.removed() || v.untouched() || v.blank() }

// untouched reports whether nothing was ever written to a LUN: no Member has anything on record.
func (v *View) untouched() bool { return v.rec.group == "" && v.rec.Forming == "" && v.rec.Lun == nil }
