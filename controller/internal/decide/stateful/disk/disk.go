// Package disk tells from Members and published capacities how the disks are that hold the volumes of a replica, and whether there is room for
// its claims elsewhere. It knows nothing of clients, and of no single kind of storage.
package disk

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"quarry.storage/quarry/controller/internal/decide/stateful/nodes"
	"quarry.storage/quarry/controller/internal/decide/stateful/replica"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Holder returns the Member that holds a volume, by the group on record of both; nil when none is known to, as for volumes of others. A group that
// several Members have is on a disk that they share: the volume is on none of them.
func Holder(v *corev1.PersistentVolume, members []v1alpha1.Member) *v1alpha1.Member {
	if v.Spec.CSI == nil || v.Spec.CSI.VolumeAttributes[v1alpha1.AttributeGroupUUID] == "" {
		return nil
	}
	var found *v1alpha1.Member
	for i := range members {
		if g := members[i].Spec.Group; g == nil || g.UUID != v.Spec.CSI.VolumeAttributes[v1alpha1.AttributeGroupUUID] {
			continue
		}
		if found != nil {
			return nil
		}
		found = &members[i]
	}
	return found
}

// Trust is how far the status of a Member counts.
type Trust int

// Trusts, from the least.
const (
	// Stale: nobody keeps the status up to date, or an earlier leader wrote it.
	Stale Trust = iota
	// Told: it was written lately. The host did not say how its devices are: what the status says of them was seen before.
	Told
	// Seen: it was written lately, by what the host said.
	Seen
)

// Of tells how the disks are that hold a volume, by the group on record of it. sound is what State has it for, and trust says of Members by name how far
// their status counts. What is in a group that a person gave up is lost, once each Member that gave it up says that it is away; a Member that records
// the group, or says that it is back, outranks those. Until then nobody knows whether anybody can serve from there. A group that nobody has on record holds
// nothing back.
func Of(v *corev1.PersistentVolume, members []v1alpha1.Member, trust map[string]Trust, sound bool) (state replica.DiskState, doubtful bool) {
	if m := Holder(v, members); m != nil {
		return State(m, trust[m.Name], sound)
	}
	if v.Spec.CSI == nil {
		return replica.DiskFine, false
	}
	uuid, given := v.Spec.CSI.VolumeAttributes[v1alpha1.AttributeGroupUUID], false
	for i := range members {
		m := &members[i]
		switch g := m.Spec.Group; {
		case uuid == "" || g == nil:
		case g.UUID == uuid, slices.Contains(g.Earlier, uuid) && Away(m) == metav1.ConditionFalse:
			return replica.DiskFine, false
		case slices.Contains(g.Earlier, uuid):
			given, doubtful = true, doubtful || Away(m) != metav1.ConditionTrue || trust[m.Name] < Seen
		}
	}
	if given && !doubtful {
		return replica.DiskLost, false
	}
	return replica.DiskFine, doubtful
}

// Away is what a Member says of whether the groups are away that a person gave up there. What it said of an earlier record does not count: another group
// may be among them by now.
func Away(m *v1alpha1.Member) metav1.ConditionStatus {
	c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionGivenUpAbsent)
	if c == nil || c.ObservedGeneration != m.Generation {
		return metav1.ConditionUnknown
	}
	return c.Status
}

// State tells how the disks of a Member are. sound says whether the pod of the replica says nothing against its volumes: while it does not, a device
// that is missing is not known to hold any of it. One without a pod has to be tried, or it would never be made again. A failure that the host
// itself does not tell now, or that comes about while a person maintains what holds the volumes, gives nothing up: it makes doubtful whether anybody can serve from
// there. The word of a person that the Member is lost needs no host that tells anything, but a status that was written lately.
func State(m *v1alpha1.Member, trust Trust, sound bool) (state replica.DiskState, doubtful bool) {
	if m == nil {
		return replica.DiskFine, false
	}
	lost, broken := failures(m, sound)
	switch {
	case lost && trust > Stale:
		return replica.DiskLost, false
	case m.Spec.Maintenance || len(m.Status.Maintenance) > 0:
		return replica.DiskSuspended, lost || broken
	case trust < Seen, !up(m):
		return replica.DiskFine, lost || broken
	case broken:
		return replica.DiskFailed, false
	}
	return replica.DiskFine, false
}

// failures reports whether the status of a Member says that a person declared it lost, and that its disks failed.
func failures(m *v1alpha1.Member, sound bool) (lost, broken bool) {
	ready := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReady)
	gone := ready != nil && ready.Status != metav1.ConditionTrue && ready.Reason == v1alpha1.ReasonVolumeGroupLost
	silent := m.Status.Flags != nil && !up(m)
	missing := slices.ContainsFunc(m.Status.Devices, func(d v1alpha1.MemberDevice) bool { return d.State == v1alpha1.DeviceMissing })
	return taken(m) && (gone || silent), gone || missing && !sound
}

// up reports whether a Member says that its host answers.
func up(m *v1alpha1.Member) bool { return m.Status.Flags != nil && m.Status.Flags.IsUp }

// taken reports whether the controller took a person's word that a Member is lost: it deleted the Member for it, and said so. Before that a word can be taken
// back, and may have been said while nobody looked after the Member.
func taken(m *v1alpha1.Member) bool {
	c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionLeaving)
	return m.Spec.Lost != "" && m.Spec.Lost == string(m.UID) && !m.DeletionTimestamp.IsZero() &&
		c != nil && c.Status == metav1.ConditionTrue && c.Reason == v1alpha1.ReasonLost
}

// Room returns which of the nodes that would take a replica, beside those that it is on, are known to have room for its claims, as the scheduler would see
// it; ordered. Classes for which nobody publishes capacity have room on each of them.
func Room(claims []*corev1.PersistentVolumeClaim, on map[string]bool, takers nodes.Nodes, published []storagev1.CSIStorageCapacity) []string {
	need := map[string]*resource.Quantity{}
	for _, c := range claims {
		class := c.Spec.StorageClassName
		if class == nil || !slices.ContainsFunc(published, func(p storagev1.CSIStorageCapacity) bool { return p.StorageClassName == *class }) {
			continue
		}
		if need[*class] == nil {
			need[*class] = &resource.Quantity{}
		}
		need[*class].Add(c.Spec.Resources.Requests[corev1.ResourceStorage])
	}
	var out []string
	for name, n := range takers {
		if len(need) == 0 || !on[name] && fits(need, n, published) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// fits reports whether a node has room for all that is needed. What is not known to fit does not.
func fits(need map[string]*resource.Quantity, n nodes.Node, published []storagev1.CSIStorageCapacity) bool {
	for class, size := range need {
		if !slices.ContainsFunc(published, func(p storagev1.CSIStorageCapacity) bool {
			return p.StorageClassName == class && p.Capacity != nil && p.Capacity.Cmp(*size) >= 0 && covers(p.NodeTopology, n)
		}) {
			return false
		}
	}
	return true
}

func covers(topology *metav1.LabelSelector, n nodes.Node) bool {
	s, err := metav1.LabelSelectorAsSelector(topology)
	return err == nil && s.Matches(labels.Set(n.Labels))
}
