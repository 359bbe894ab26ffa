package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	Members []ClusterMember `json:"members,omitempty"`
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

// ClusterMember is one host of a Cluster.
type ClusterMember struct {
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
