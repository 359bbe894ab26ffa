package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Condition types of a StorageNode.
const (
	// ConditionAgentConnected: the controller and the agent of the node talk to each other.
	ConditionAgentConnected = "AgentConnected"
)

// StorageNode is what the agent of one Kubernetes node reports. The controller makes it; its name is the node's name.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=sn
// +kubebuilder:printcolumn:name="Agent",type=string,JSONPath=`.status.agentVersion`
// +kubebuilder:printcolumn:name="Devices",type=integer,JSONPath=`.status.deviceCount`
// +kubebuilder:printcolumn:name="In Use",type=integer,JSONPath=`.status.inUseCount`
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.status.availableCount`
// +kubebuilder:printcolumn:name="Others",type=string,priority=1,JSONPath=`.status.otherDevices`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`
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
	// Maintenance quiesces the node in every Cluster: it takes no new volumes, and is not declared failed for being away,
	// unless its member is being deleted. It outlives the node: a node that is deleted and registers again is still under maintenance.
	// +optional
	Maintenance bool `json:"maintenance,omitempty"`
}

// MaxNodeDevices is the number of devices that a StorageNode lists, MaxNodeGroups the number of volume groups.
const (
	MaxNodeDevices = 256
	MaxNodeGroups  = 64
)

// StorageNodeStatus is what the agent reports. Its size does not depend on the number of volumes on the node.
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
	// Number of disks, and of other devices that may be chosen. A disk that is seen over several paths counts once.
	// +optional
	DeviceCount int32 `json:"deviceCount,omitempty"`
	// Number of these that are clean and can be taken.
	// +optional
	AvailableCount int32 `json:"availableCount,omitempty"`
	// Number of these that a storage uses.
	// +optional
	InUseCount int32 `json:"inUseCount,omitempty"`
	// OtherDevices counts the block devices that are not listed, by kind: "8 loop, 12 lvm, 3 partition".
	// +optional
	OtherDevices string `json:"otherDevices,omitempty"`
	// Disks, and other devices that may be chosen, ordered by kernel name. Of more than 256, those in use and those available come first;
	// the others are counted under otherDevices.
	// +optional
	// +listType=map
	// +listMapKey=kernelName
	Devices []NodeDevice `json:"devices,omitempty"`
	// Number of volume groups of ours on the node.
	// +optional
	GroupCount int32 `json:"groupCount,omitempty"`
	// Volume groups of ours on the node, the first 64. Two groups may have one name, so they are told apart by their UUID.
	// +optional
	// +listType=map
	// +listMapKey=uuid
	Groups []NodeVolumeGroup `json:"groups,omitempty"`
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
	// How it is attached: sata, sas, nvme, nvme-tcp, usb, iscsi, …; empty when that is not known.
	// +optional
	Transport string `json:"transport,omitempty"`
	// +optional
	Rotational bool `json:"rotational,omitempty"`
	// Available is true when the device is clean and may be taken.
	Available bool `json:"available"`
	// InUseBy names the storage that the device belongs to, "Cluster fast", or the object that has it on record, "GlusterNode gluster/east-1".
	// +optional
	InUseBy string `json:"inUseBy,omitempty"`
	// Verdict sums up for a person whether the device is available, available on request (a Cluster has to name its transport or itself), in
	// use or refused.
	// +optional
	Verdict string `json:"verdict,omitempty"`
	// Refusals are the reasons why it is not available; of a device in use, what is wrong with it.
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
	// UUID of the group in LVM.
	UUID string `json:"uuid"`
	// Name of the group in LVM.
	Name string `json:"name"`
	// UID of the storage that owns it.
	OwnerUID string `json:"ownerUID"`
	// Owner names the storage: "Cluster fast".
	// +optional
	Owner string `json:"owner,omitempty"`
	// Size and free space.
	Size resource.Quantity `json:"size"`
	Free resource.Quantity `json:"free"`
	// Number of logical volumes.
	Volumes int32 `json:"volumes"`
	// Partial is true when a disk of the group is missing.
	// +optional
	Partial bool `json:"partial,omitempty"`
	// BelongsTo names the node that the group belongs to by its LVM system ID, when that is another one: "node n2". Nothing on it is used here.
	// +optional
	BelongsTo string `json:"belongsTo,omitempty"`
	// Thin pools of ours in the group, the first 8.
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
