package pin

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Kind is the kind of a source.
type Kind string

// Kinds of sources that live on one node. The content of any other kind comes from a populator, which chooses the node itself.
const (
	KindClaim    Kind = "PersistentVolumeClaim"
	KindSnapshot Kind = "VolumeSnapshot"
)

// SnapshotGroup is the API group of snapshots.
const SnapshotGroup = "snapshot.storage.k8s.io"

// Source is what a volume begins as a copy of. It is in the namespace of the claim: the provisioner of our drivers refuses all others.
type Source struct {
	Kind Kind
	Name string
}

// sourceOf returns the source of a claim, as the provisioner reads it: dataSource comes first.
func sourceOf(c *corev1.PersistentVolumeClaim) (Source, bool) {
	var group *string
	var kind, name string
	switch s, ref := c.Spec.DataSource, c.Spec.DataSourceRef; {
	case s != nil:
		group, kind, name = s.APIGroup, s.Kind, s.Name
	case ref == nil, ref.Namespace != nil && *ref.Namespace != "":
		return Source{}, false
	default:
		group, kind, name = ref.APIGroup, ref.Kind, ref.Name
	}
	out := Source{Kind: Kind(kind), Name: name}
	switch out.Kind {
	case KindClaim:
		return out, name != "" && (group == nil || *group == "")
	case KindSnapshot:
		return out, name != "" && group != nil && *group == SnapshotGroup
	}
	return Source{}, false
}

// Origin is where the data of a source is. It is zero while that is not known; nothing is ever concluded from that.
type Origin struct {
	Driver, Handle string
}

// OfVolume returns the origin of a claim that is a source, from the claim and its PersistentVolume.
func OfVolume(c *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) Origin {
	ref := v.Spec.ClaimRef
	switch {
	case !c.DeletionTimestamp.IsZero(), c.Status.Phase != corev1.ClaimBound, c.Spec.VolumeName != v.Name:
		return Origin{}
	case ref == nil, ref.Namespace != c.Namespace || ref.Name != c.Name, v.Spec.CSI == nil:
		return Origin{}
	}
	return Origin{Driver: v.Spec.CSI.Driver, Handle: v.Spec.CSI.VolumeHandle}
}

// Snapshot is what matters of a VolumeSnapshot.
type Snapshot struct {
	Namespace, Name string
	UID             types.UID
	// Ready is true when it can be used; Deleting when it is on its way out.
	Ready, Deleting bool
	// Content is the name of its VolumeSnapshotContent.
	Content string
}

// Content is what matters of a VolumeSnapshotContent.
type Content struct {
	Name, Driver, Handle string
	// Of is the snapshot that it belongs to.
	Of struct {
		Namespace, Name string
		UID             types.UID
	}
}

// OfSnapshot returns the origin of a snapshot, from the snapshot and its content. Each has to name the other.
func OfSnapshot(s Snapshot, c Content) Origin {
	switch {
	case s.Deleting, !s.Ready, s.Content == "", s.Content != c.Name:
		return Origin{}
	case c.Of.UID != s.UID, c.Of.Namespace != s.Namespace, c.Of.Name != s.Name:
		return Origin{}
	}
	return Origin{Driver: c.Driver, Handle: c.Handle}
}
