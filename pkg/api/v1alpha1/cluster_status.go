package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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

// ClusterStatus is what was observed.
type ClusterStatus struct {
	// Generation of the spec that this status belongs to.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Phase sums up the conditions.
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// Message says what holds the Cluster up, one line per host.
	// +optional
	Message string `json:"message,omitempty"`
	// Config is which devices of which host this Cluster owns, as written on the disks.
	// +optional
	// +listType=atomic
	Config []HostDevices `json:"config,omitempty"`
	// Capacity of the volume groups.
	// +optional
	Capacity Capacity `json:"capacity,omitempty"`
	// Members are the hosts with their state.
	// +optional
	// +listType=map
	// +listMapKey=node
	Members []Member `json:"members,omitempty"`
	// HostCount is the number of members.
	// +optional
	HostCount int32 `json:"hostCount,omitempty"`
	// DeviceCount is the number of owned devices.
	// +optional
	DeviceCount int32 `json:"deviceCount,omitempty"`
	// Plan is what the controller would do to disks next, when that waits for approval.
	// +optional
	Plan *Plan `json:"plan,omitempty"`
	// Conditions: Ready, HostsValid, DisksReady, PlanApproved, StorageClassReady, CSIReady, and ThinPoolsHealthy where thin pools are.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// HostDevices are the devices of one host.
type HostDevices struct {
	// Name of the Kubernetes node.
	NodeName string `json:"nodeName"`
	// Stable paths, ordered.
	// +optional
	// +listType=atomic
	BlockDevices []string `json:"blockDevices,omitempty"`
}

// Capacity is the total and its parts.
type Capacity struct {
	// Sum over the instances that report.
	// +optional
	Total Space `json:"total,omitempty"`
	// One per host.
	// +optional
	// +listType=atomic
	Instances []Instance `json:"instances,omitempty"`
}

// Space is a size and what of it is used and free.
type Space struct {
	// +optional
	Total *resource.Quantity `json:"total,omitempty"`
	// +optional
	Used *resource.Quantity `json:"used,omitempty"`
	// +optional
	Free *resource.Quantity `json:"free,omitempty"`
}

// Instance is the volume group of one host.
type Instance struct {
	// Name of the Kubernetes node.
	Host string `json:"host"`
	// Stable paths of its devices, joined by commas.
	// +optional
	Dev string `json:"dev,omitempty"`
	// Stat is true while the host reports; otherwise info is what it reported last.
	Stat bool `json:"stat"`
	// +optional
	Info Space `json:"info,omitempty"`
	// ThinPool is how full the host's thin pool is; while the host does not report, what it reported last.
	// +optional
	ThinPool *ThinPoolUsage `json:"thinPool,omitempty"`
}

// MemberState is one of the five states of a member, see docs/states.md.
// +kubebuilder:validation:Enum=online;offline;quiesced;failed;abandoned
type MemberState string

// MemberFlags are the four flags that the state is computed from.
// +structType=atomic
type MemberFlags struct {
	// IsUp: the agent answers. Observed.
	IsUp bool `json:"isUp"`
	// HasData: a logical volume exists in the group. Observed; true when it is not known.
	HasData bool `json:"hasData"`
	// ShouldQuiesce: maintenance is asked for, in this spec or on the StorageNode.
	ShouldQuiesce bool `json:"shouldQuiesce"`
	// ShouldDestroy: the host was removed from the spec, or the Cluster is being deleted. Never goes back.
	ShouldDestroy bool `json:"shouldDestroy"`
}

// Member is one host of a Cluster.
type Member struct {
	// Name of the Kubernetes node.
	Node string `json:"node"`
	// State computed from the flags.
	State MemberState `json:"state"`
	// Flags that the state is computed from.
	Flags MemberFlags `json:"flags"`
	// Message says what is wrong with the member, or what it waits for; empty when all is well.
	// +optional
	Message string `json:"message,omitempty"`
}

// Plan is an ordered list of steps with a digest over them.
type Plan struct {
	// Digest over the devices, their identities and every step. The annotation quarry.storage/approve with this value approves it.
	Digest string `json:"digest"`
	// Approved is true once the annotation matched; the steps run then, as long as they still describe the world.
	// +optional
	Approved bool `json:"approved,omitempty"`
	// Steps in order.
	// +listType=atomic
	Steps []PlanStep `json:"steps"`
}

// PlanStep is one change of the disks of one host.
type PlanStep struct {
	// Host that it happens on.
	Host string `json:"host"`
	// Action: WipeDevice, EnsureVolumeGroup, EnsureThinPool, ReduceVolumeGroup or RemoveVolumeGroup.
	Action string `json:"action"`
	// VolumeGroup that is changed, if any.
	// +optional
	VolumeGroup string `json:"volumeGroup,omitempty"`
	// Devices, as "path (model serial, size)".
	// +optional
	// +listType=atomic
	Devices []string `json:"devices,omitempty"`
	// ThinPool that is made or grown, as "name (size)".
	// +optional
	ThinPool string `json:"thinPool,omitempty"`
	// Reason for the step, one sentence.
	Reason string `json:"reason"`
	// Digest of the step and the identities of its devices.
	Digest string `json:"digest"`
}
