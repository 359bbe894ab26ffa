package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StorageNode is what the agent of one Kubernetes node reports. The controller makes it; its name is the node's name.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=sn
// +kubebuilder:printcolumn:name="Agent",type=string,JSONPath=`.status.agentVersion`
// +kubebuilder:printcolumn:name="Devices",type=integer,JSONPath=`.status.deviceCount`
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.status.availableCount`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type StorageNode struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What is wanted of the node.
	// +optional
	Spec StorageNodeSpec `json:"spec,omitempty"`
	// What its agent reports.
	// +optional
	Status StorageNodeStatus `json:"status,omitempty"`
}

// StorageNodeSpec is what is wanted of the node.
type StorageNodeSpec struct {
	// Maintenance quiesces the node in every Cluster: it is never declared failed and takes no new volumes.
	// +optional
	Maintenance bool `json:"maintenance,omitempty"`
}

// StorageNodeStatus is what the agent reports.
type StorageNodeStatus struct {
	// Generation of the spec that this status belongs to.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// State of the node: online, offline or quiesced.
	// +optional
	State MemberState `json:"state,omitempty"`
	// Message says what is wrong; empty when all is well.
	// +optional
	Message string `json:"message,omitempty"`
	// Version of the agent.
	// +optional
	AgentVersion string `json:"agentVersion,omitempty"`
	// Release of the node's kernel.
	// +optional
	KernelRelease string `json:"kernelRelease,omitempty"`
	// Version of LVM that the agent runs.
	// +optional
	LVMVersion string `json:"lvmVersion,omitempty"`
	// Number of devices.
	// +optional
	DeviceCount int32 `json:"deviceCount,omitempty"`
	// Number of devices that are clean.
	// +optional
	AvailableCount int32 `json:"availableCount,omitempty"`
	// Block devices with verdict and reasons, ordered by kernel name. Partitions are named by their disk.
	// +optional
	// +listType=map
	// +listMapKey=kernelName
	Devices []NodeDevice `json:"devices,omitempty"`
	// Volume groups of ours on the node.
	// +optional
	// +listType=map
	// +listMapKey=name
	VolumeGroups []NodeVolumeGroup `json:"volumeGroups,omitempty"`
	// Conditions: Ready, AgentConnected.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NodeDevice is one block device.
type NodeDevice struct {
	// Stable path.
	Path string `json:"path"`
	// Name in the kernel; may change at every boot.
	KernelName string `json:"kernelName"`
	// Kind of device: disk, loop, md, …
	Type string `json:"type"`
	// Size.
	Size resource.Quantity `json:"size"`
	// +optional
	Model string `json:"model,omitempty"`
	// +optional
	Serial string `json:"serial,omitempty"`
	// +optional
	WWN string `json:"wwn,omitempty"`
	// +optional
	Transport string `json:"transport,omitempty"`
	// +optional
	Rotational bool `json:"rotational,omitempty"`
	// Available is true when the device is clean and may be taken.
	Available bool `json:"available"`
	// Refusals are the reasons why it is not.
	// +optional
	// +listType=atomic
	Refusals []Refusal `json:"refusals,omitempty"`
	// VolumeGroup that it belongs to.
	// +optional
	VolumeGroup string `json:"volumeGroup,omitempty"`
}

// Refusal is one reason why a device is not taken.
type Refusal struct {
	// CamelCase name.
	Reason string `json:"reason"`
	// One sentence for a person.
	Message string `json:"message"`
}

// NodeVolumeGroup is one volume group of ours.
type NodeVolumeGroup struct {
	Name string `json:"name"`
	// UID of the Cluster that owns it.
	OwnerUID string `json:"ownerUID"`
	// Size and free space.
	Size resource.Quantity `json:"size"`
	Free resource.Quantity `json:"free"`
	// Number of logical volumes.
	Volumes int32 `json:"volumes"`
	// Partial is true when a disk of the group is missing.
	// +optional
	Partial bool `json:"partial,omitempty"`
	// Thin pools of ours in the group.
	// +optional
	// +listType=atomic
	ThinPools []ThinPoolUsage `json:"thinPools,omitempty"`
}

// StorageNodeList is a list of StorageNodes.
// +kubebuilder:object:root=true
type StorageNodeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []StorageNode `json:"items"`
}
