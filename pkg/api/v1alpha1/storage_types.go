package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Storage is a kind that owns a StorageClass of its own name. One engine reconciles all of them.
//
// +kubebuilder:object:generate=false
type Storage interface {
	metav1.Object
	runtime.Object
	// StorageKind returns the name of the kind. Objects that were read from a cache carry no TypeMeta.
	StorageKind() string
	// Common returns the part of the spec that every kind has.
	Common() StorageCommon
	// StorageStatus returns the part of the status that every kind has, to be read and written.
	StorageStatus() *StorageStatus
}

// StorageCommon is the part of a spec that every storage has, with defaults applied.
//
// +kubebuilder:object:generate=false
type StorageCommon struct {
	// Default marks the StorageClass as the default class.
	Default bool
	// ReclaimPolicy of the StorageClass.
	ReclaimPolicy corev1.PersistentVolumeReclaimPolicy
	// Approval says whether plans run by themselves.
	Approval Approval
	// Hosts lists the hosts by name; Selector chooses them by the labels of their Nodes. At most one of the two is set.
	Hosts    []HostName
	Selector *metav1.LabelSelector
	// Maintenance lists hosts under maintenance.
	Maintenance []HostName
	// RemovalDelay is how long a host that left the spec stays a member before it is removed. It begins anew after maintenance. Nil means the
	// default.
	RemovalDelay *metav1.Duration
}

// Phase sums up the conditions for a person; nothing reads it back.
// +kubebuilder:validation:Enum=Creating;Running;Updating;Deleting;Warning;Failed
type Phase string

// Phases.
const (
	PhaseCreating Phase = "Creating"
	PhaseRunning  Phase = "Running"
	PhaseUpdating Phase = "Updating"
	PhaseDeleting Phase = "Deleting"
	PhaseWarning  Phase = "Warning"
	PhaseFailed   Phase = "Failed"
)

// MaxProblems is the number of problems that one status shows.
const MaxProblems = 10

// MaxPlanSteps is the number of steps that a plan of a storage shows. A Member shows all of its own.
const MaxPlanSteps = 20

// StorageStatus is the part of a status that every storage has. Its size does not depend on the number of members: their details are
// on the Member objects.
type StorageStatus struct {
	// Generation of the spec that this status belongs to.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Phase sums up the conditions.
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// Message says what holds the storage up, one line per problem.
	// +optional
	Message string `json:"message,omitempty"`
	// Capacity of the storage: the sum over the members that report.
	// +optional
	Capacity Capacity `json:"capacity,omitempty"`
	// HostCount is the number of members.
	// +optional
	HostCount int32 `json:"hostCount,omitempty"`
	// DeviceCount is the number of owned devices.
	// +optional
	DeviceCount int32 `json:"deviceCount,omitempty"`
	// MemberStates counts the members by state.
	// +optional
	MemberStates *MemberStates `json:"memberStates,omitempty"`
	// Problems of members, the first ten. `kubectl get members` shows all.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Problems []Problem `json:"problems,omitempty"`
	// LostGroups are the UUIDs of volume groups of members that a person declared lost. Should their disks come back, they are foreign.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	LostGroups []string `json:"lostGroups,omitempty"`
	// Plan is what waits for approval: the number of steps and the first of them. Approving it approves the plans of all its Members.
	// +optional
	Plan *Plan `json:"plan,omitempty"`
	// Conditions; Ready is computed from the others.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// MemberStates counts members by state.
type MemberStates struct {
	// +optional
	Online int32 `json:"online,omitempty"`
	// +optional
	Offline int32 `json:"offline,omitempty"`
	// +optional
	Quiesced int32 `json:"quiesced,omitempty"`
	// +optional
	Failed int32 `json:"failed,omitempty"`
	// +optional
	Abandoned int32 `json:"abandoned,omitempty"`
	// Leaving is how many of all these were taken off the spec and are not removed yet.
	// +optional
	Leaving int32 `json:"leaving,omitempty"`
}

// Problem is what is wrong with one member.
type Problem struct {
	// Name of the Kubernetes node.
	Node string `json:"node"`
	// CamelCase reason.
	Reason string `json:"reason"`
	// One sentence for a person.
	Message string `json:"message"`
}

// Plan is an ordered list of steps with a digest over them.
type Plan struct {
	// Digest over the steps, the identities of everything that they touch, and the offer. The annotation quarry.storage/approve with this value
	// approves it. On a Cluster of type cephfs a slash and the digest of one step may follow, if the consent of that step is not empty: then it alone is approved.
	Digest string `json:"digest"`
	// Offer tells the plan from the same one that was shown before and is over: an approval of that one does not count for this one. Of a storage it is that of the
	// steps of no host.
	// +optional
	Offer string `json:"offer,omitempty"`
	// Approved is true once the annotation matched; the steps run then, as long as they still describe the world.
	// +optional
	Approved bool `json:"approved,omitempty"`
	// Count is the number of steps of the whole plan.
	// +optional
	Count int32 `json:"count,omitempty"`
	// Steps in order; of a long plan the first ones.
	// +listType=atomic
	Steps []PlanStep `json:"steps"`
	// Whole has the digests of all steps of no host, in order, those that steps does not show among them. Only a storage has it.
	// +optional
	// +listType=atomic
	Whole []string `json:"whole,omitempty"`
	// Vouched has the digests of those steps by whose approval a person vouches for how things are at that time, such as that a node is off. One goes from
	// here once the step was taken, or was not needed for the first time: the approval does not cover it any more.
	// +optional
	// +listType=atomic
	Vouched []string `json:"vouched,omitempty"`
}

// PlanStep is one change.
type PlanStep struct {
	// Host that it happens on; empty for a step of the whole storage.
	Host string `json:"host"`
	// Action: what is done, such as WipeDevice or EnsureVolumeGroup.
	Action string `json:"action"`
	// VolumeGroup that is changed, if any.
	// +optional
	VolumeGroup string `json:"volumeGroup,omitempty"`
	// GroupUUID is the UUID of the group that the member adopts. Only a step AdoptVolumeGroup has it.
	// +optional
	GroupUUID string `json:"groupUUID,omitempty"`
	// Replaces are the UUIDs of the recorded groups that are given up for the one that is adopted.
	// +optional
	// +listType=atomic
	Replaces []string `json:"replaces,omitempty"`
	// Devices, as "path (model serial, size)"; of an Iscsi the LUN, as "WWID (serial, size)".
	// +optional
	// +listType=atomic
	Devices []string `json:"devices,omitempty"`
	// Volumes that the step is about, with their claims where these are known: those that are lost by it, that move with it, that are in the
	// thin pool that is repaired, or that are in the group that is adopted ("kept") and in those that are given up for it ("lost"); of an Iscsi those that are mapped, released, or freed of a reader.
	// +optional
	// +listType=atomic
	Volumes []string `json:"volumes,omitempty"`
	// ThinPool that is made, grown or repaired, as "name (size)".
	// +optional
	ThinPool string `json:"thinPool,omitempty"`
	// Later is true for a step that is approved with the plan and runs once it is possible.
	// +optional
	Later bool `json:"later,omitempty"`
	// Reason for the step, one sentence.
	Reason string `json:"reason"`
	// Consent is what whoever approves the plan says by that about the step: what they vouch for, or agree to lose. Empty when it only needs their approval.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Consent string `json:"consent,omitempty"`
	// Digest of the step and the identities of its devices. It approves nothing without that of the plan.
	Digest string `json:"digest"`
}
