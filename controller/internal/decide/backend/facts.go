package backend

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

// reported is how old a volume is when every host that answers has reported it: a driver makes a volume before its PersistentVolume, and
// the report of that may come a moment later.
const reported = time.Minute

// Facts are what the member machine is fed about one host, whatever the backend.
type Facts struct {
	// Up is true while the host answers, and what it reports is current.
	Up bool
	// TooEarly is true while nobody can say: the controller or the agent has just started.
	TooEarly bool
	// Missing is true when nothing of ours runs on the host.
	Missing bool
	// Data is what the host itself reports about data on it. Volumes of the API server count besides.
	Data nodestate.Data
	// Recorded is true while the host reports what the record of its member names. A word that it is lost does not count then.
	Recorded bool
	// Unsure is true while the host answers, and what it reports leaves open whether that is there. A word that it is lost does not count
	// then either.
	Unsure bool
	// Reason and Problem say why the host is not up; empty when it is.
	Reason, Problem string
	// Holding names what of the storage is on the host, ordered.
	Holding []string
}

// Reported says whether a host reports what its member has on record, and why. Without a record everything that the host holds is what the record
// would be about. A word that the member is lost counts only while it does not.
func (f Facts) Reported(recorded, holds bool) metav1.Condition {
	state := func(s metav1.ConditionStatus, reason, message string) metav1.Condition {
		return Condition(v1alpha1.ConditionRecordReported, s, reason, message)
	}
	switch {
	case f.Recorded:
		return state(metav1.ConditionTrue, v1alpha1.ReasonRecordReported, "The node reports what is on record.")
	case f.TooEarly:
		return state(metav1.ConditionUnknown, v1alpha1.ReasonRecordTooEarly, "Nobody can say yet: the controller or the agent has just started.")
	case f.Unsure:
		return state(metav1.ConditionUnknown, v1alpha1.ReasonRecordUnsure, "The agent of the node answers, and cannot say whether what is on record is there.")
	case !recorded && f.Up && holds:
		return state(metav1.ConditionTrue, v1alpha1.ReasonRecordReported, "Nothing is on record, and the node reports a part of the storage.")
	case f.Up:
		return state(metav1.ConditionFalse, v1alpha1.ReasonRecordNotReported, "The node answers, and what is on record is not there.")
	}
	return state(metav1.ConditionFalse, v1alpha1.ReasonRecordNotReported, "The node does not answer, so nobody reports what is on record.")
}

// Kind sorts findings.
type Kind int

// Kinds of findings, from good to bad.
const (
	// Well: nothing to say, or nothing that anybody must act on.
	Well Kind = iota
	// Busy: work is under way.
	Busy
	// Waiting: somebody must approve.
	Waiting
	// Bad: something is wrong with the host.
	Bad
)

// Finding is what there is to say about a host.
type Finding struct {
	Kind Kind
	// Reason of a condition.
	Reason string
	// Message for a person; may be set when all is well.
	Message string
}

// IsZero reports whether there is nothing to say.
func (f Finding) IsZero() bool { return f == Finding{} }

// Volume is a PersistentVolume of the storage.
type Volume struct {
	// Name of the PersistentVolume, and Claim, "namespace/name", that it is bound to; empty when none is.
	Name, Claim string
	// Handle of the driver.
	Handle string
	// GroupUUID that was recorded when the volume was made; empty for a volume of a version that recorded none.
	GroupUUID string
	// Attributes that the driver recorded when the volume was made.
	Attributes map[string]string
	// Expected is true when the volume has to be there: a claim is bound to it, or it was released and is retained. A volume that is
	// about to be deleted may be gone already, and one that was made a moment ago may not be reported yet.
	Expected bool
	// Bound: a claim is.
	Bound bool
}

// VolumeOf returns what matters of a PersistentVolume of a CSI driver.
func VolumeOf(v *corev1.PersistentVolume, now time.Time) Volume {
	out := Volume{
		Name: v.Name, Handle: v.Spec.CSI.VolumeHandle, GroupUUID: v.Spec.CSI.VolumeAttributes[v1alpha1.AttributeGroupUUID],
		Attributes: v.Spec.CSI.VolumeAttributes,
		Expected:   kept(v) && ExpectedIn(v, now) == 0,
		Bound:      v.Status.Phase == corev1.VolumeBound,
	}
	if c := v.Spec.ClaimRef; c != nil {
		out.Claim = c.Namespace + "/" + c.Name
	}
	return out
}

// ExpectedIn returns how long it takes until a volume has to be there if it is kept; 0 when that time is over. Whoever finds that it is not there
// finds so only then.
func ExpectedIn(v *corev1.PersistentVolume, now time.Time) time.Duration {
	return max(0, reported-now.Sub(v.CreationTimestamp.Time))
}

// kept reports whether nobody is about to delete what a PersistentVolume stands for. One that is bound is kept even if it is being
// deleted: its data goes after the claim only.
func kept(v *corev1.PersistentVolume) bool {
	switch v.Status.Phase {
	case corev1.VolumeBound:
		return true
	case corev1.VolumeReleased:
		return v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain && v.DeletionTimestamp.IsZero()
	}
	return false
}

// String names the volume and its claim.
func (v Volume) String() string {
	if v.Claim == "" {
		return v.Name
	}
	return v.Name + " (claim " + v.Claim + ")"
}
