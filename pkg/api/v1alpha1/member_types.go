package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Member is one node's part of one storage. The controller makes and removes Members; deleting one removes the node's part once it
// holds no data, and is never taken back.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=qm,categories=quarry
// +kubebuilder:selectablefield:JSONPath=`.spec.node`
// +kubebuilder:selectablefield:JSONPath=`.spec.of.name`
// +kubebuilder:selectablefield:JSONPath=`.spec.of.uid`
// +kubebuilder:printcolumn:name="Of",type=string,JSONPath=`.spec.of.name`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.node`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Devices",type=integer,JSONPath=`.status.deviceCount`
// +kubebuilder:printcolumn:name="Size",type=string,JSONPath=`.status.capacity.total`
// +kubebuilder:printcolumn:name="Free",type=string,JSONPath=`.status.capacity.free`
// +kubebuilder:printcolumn:name="Volumes",type=integer,JSONPath=`.status.volumes`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Member struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Whose member it is, and what is recorded of its data.
	Spec MemberSpec `json:"spec"`
	// What was observed. It can be lost: it is observed again.
	// +optional
	Status MemberStatus `json:"status,omitempty"`
}

// MemberSpec is the identity of a member, the record of its data, and what a person wants of it.
//
// +kubebuilder:validation:XValidation:rule="self.of.kind == oldSelf.of.kind && self.of.name == oldSelf.of.name && self.of.uid == oldSelf.of.uid && self.node == oldSelf.node",message="of and node are the identity of a Member and cannot be changed"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.ceph) || has(self.ceph) || !has(oldSelf.ceph.osds) || oldSelf.ceph.osds.all(o, o.purged)",message="an OSD stays on record until it is purged"
type MemberSpec struct {
	// Of is the storage that the member belongs to.
	Of MemberOwner `json:"of"`
	// Node is the name of the Kubernetes node.
	Node HostName `json:"node"`
	// Group is the record of the volume group that holds the member's data. It outranks what is seen on the disks. The controller writes
	// it; its UUID is set once, and changes only when a person approves that the member adopts another group.
	// +optional
	Group *MemberGroup `json:"group,omitempty"`
	// Lun is the record of the LUN that the member of an Iscsi saw when it joined. It outranks what is seen: another LUN under the old
	// number is refused. The controller writes it, once.
	// +optional
	Lun *MemberLun `json:"lun,omitempty"`
	// Reservation is the key that the member of an Iscsi has for the boot that the node is in. The controller writes it before the key is
	// registered, so that a lost status grants no key twice.
	// +optional
	Reservation *MemberReservation `json:"reservation,omitempty"`
	// Ceph is the record of what the member of a Cluster of type cephfs has: its monitor and its OSDs. It outranks what is seen. The controller writes each
	// part before it acts on it.
	// +optional
	Ceph *MemberCeph `json:"ceph,omitempty"`
	// Maintenance quiesces this member: it takes no new volumes, and no step is taken on it.
	// +optional
	Maintenance bool `json:"maintenance,omitempty"`
	// Lost is a person's word that the node and what it holds are gone for ever. It counts only if it equals metadata.uid, and not while
	// the agent reports what is on record (the group, or the disks of OSDs), or answers and cannot say that it is not there. It is refused while the member is Ready, and can be emptied until the member is being deleted.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Lost string `json:"lost,omitempty"`
	// Retire lists devices that no storage takes on this node any more. What lies on one in the member's volume group is moved to other devices
	// of the group, and the device leaves the group when it is empty. The condition Retired tells how far that is. A device that is taken off the
	// list before that stays in the group, with what is still on it. Of a Cluster of type cephfs it only keeps a device from being taken: an
	// OSD that is there stays, and there is no condition Retired.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=path
	Retire []RetiredDevice `json:"retire,omitempty"`
}

// MemberOwner names the storage that a member belongs to.
type MemberOwner struct {
	// Kind: Cluster, Iscsi or Nfs.
	// +kubebuilder:validation:Enum=Cluster;Iscsi;Nfs
	Kind string `json:"kind"`
	// Name of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// UID of the object. One of the same name with another UID is another owner.
	UID types.UID `json:"uid"`
}

// MemberGroup is the record of a volume group.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.uuid) || size(oldSelf.uuid) == 0 || (has(self.uuid) && (self.uuid == oldSelf.uuid || (size(self.uuid) > 0 && has(self.earlier) && oldSelf.uuid in self.earlier)))",message="the recorded group is set once; when another one is adopted, it goes to earlier"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.earlier) || oldSelf.earlier.all(u, (has(self.uuid) && self.uuid == u) || (has(self.earlier) && u in self.earlier))",message="no group is taken off earlier but the one that is recorded again"
type MemberGroup struct {
	// UUID of the group in LVM; empty until the group exists.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	UUID string `json:"uuid,omitempty"`
	// Name of the group in LVM.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Name string `json:"name,omitempty"`
	// Forming are the UUIDs of the physical volumes that the group is being made of, or how they begin as far as they are not made yet: the
	// first 20 characters. They are written before the group is made, and emptied once its UUID is recorded.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Forming []string `json:"forming,omitempty"`
	// Earlier are the UUIDs of the groups that a person gave up, by approving that the member adopts the group that its node has instead. Volumes
	// that are recorded in them hold nothing back any more.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=64
	Earlier []string `json:"earlier,omitempty"`
}

// MemberLun is the record of a LUN.
//
// +kubebuilder:validation:XValidation:rule="self.wwid == oldSelf.wwid && self.serial == oldSelf.serial && (!has(oldSelf.iqn) || (has(self.iqn) && self.iqn == oldSelf.iqn))",message="the recorded LUN is set once"
type MemberLun struct {
	// WWID of the LUN, as the target gives it in INQUIRY page 0x83, such as naa.6001405…
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	WWID string `json:"wwid"`
	// Serial number, as the target gives it in INQUIRY page 0x80.
	// +kubebuilder:validation:MaxLength=256
	Serial string `json:"serial"`
	// Size in bytes. A LUN that is larger than its record has grown; a smaller one is refused.
	// +kubebuilder:validation:Minimum=1
	Size int64 `json:"size"`
	// IQN is the target that has the LUN. A spec that names another one is refused.
	// +optional
	// +kubebuilder:validation:MaxLength=223
	IQN string `json:"iqn,omitempty"`
}

// MemberReservation is a key for persistent reservations (SPC-4).
//
// +kubebuilder:validation:XValidation:rule="!has(self.unfenced) || !self.unfenced || (has(oldSelf.unfenced) && oldSelf.unfenced)",message="a target that had reservations has them for good: a node with a key stays one that can be fenced"
type MemberReservation struct {
	// Key, 16 hexadecimal digits; random, never 0, and unique among the Members of one Iscsi.
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{16}$`
	Key string `json:"key"`
	// BootID is the boot of the node that the key was granted for, as /proc/sys/kernel/random/boot_id has it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	BootID string `json:"bootID"`
	// Machine is the machine that was in that boot, as status.nodeInfo.systemUUID of its Node has it: another one may have the name of the node later. Empty when nobody knows it.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Machine string `json:"machine,omitempty"`
	// Initiator is the name that the node's initiator had when the key was granted. A target knows a node by it: one that has another name now, or
	// the name of another node, gets no key.
	// +optional
	// +kubebuilder:validation:MaxLength=223
	Initiator string `json:"initiator,omitempty"`
	// Previous are the keys of earlier boots that the LUN had when it was read last: registering the new one replaces them, except on paths that are down. Each stays on record until it was seen to be gone.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:Pattern=`^[0-9a-f]{16}$`
	Previous []string `json:"previous,omitempty"`
	// Machines are the machines that keys in previous were granted to, by key. Nobody knows that of a key that is missing here.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Machines map[string]string `json:"machines,omitempty"`
	// Unfenced is true when the key is registered nowhere: the target keeps no persistent reservations, or kept none when a node was let in that was not booted since. A person has to vouch that the node is off before its volumes are used elsewhere. It is never set on a Member that had a key registered.
	// +optional
	Unfenced bool `json:"unfenced,omitempty"`
	// Paths are those on which the key was registered last, as PORTAL=DEVICE/SESSION, with commas in between. While the LUN has the key and no other path is up, it is not registered again. Empty before it was registered, and once sessions are made anew.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Paths string `json:"paths,omitempty"`
	// Registering names the latest request to register the key, from before the node is asked until it has answered that one, or has refused it. Once a request had no answer, or
	// was made while another one was open, it stays until the next key, or until a person vouches that the node is off: a request may still reach the target, so that the node cannot
	// be fenced in this boot. Empty while no request is open.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Registering string `json:"registering,omitempty"`
	// Fenced is true once the key was seen to be gone from the LUN because the node was fenced. The node gets another key after a reboot.
	// +optional
	Fenced bool `json:"fenced,omitempty"`
}

// RetiredDevice is a device that is given up.
type RetiredDevice struct {
	// Path of the device.
	Path DevicePath `json:"path"`
	// Serial number of the device. When given, another device at the same path is not meant.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Serial string `json:"serial,omitempty"`
}

// MaintenanceSource says where maintenance was asked for: it is the kind of the object, that of the storage, Member or StorageNode.
type MaintenanceSource string

// Sources of maintenance that every storage has beside its own kind.
const (
	MaintenanceMember      MaintenanceSource = "Member"
	MaintenanceStorageNode MaintenanceSource = "StorageNode"
)

// MemberStatus is what was observed of a member.
type MemberStatus struct {
	// Generation of the spec that this status belongs to.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// State computed from the flags.
	// +optional
	State MemberState `json:"state,omitempty"`
	// Flags that the state is computed from.
	// +optional
	Flags *MemberFlags `json:"flags,omitempty"`
	// Maintenance names where maintenance was asked for.
	// +optional
	// +listType=atomic
	Maintenance []MaintenanceSource `json:"maintenance,omitempty"`
	// Devices of the member.
	// +optional
	// +listType=map
	// +listMapKey=path
	Devices []MemberDevice `json:"devices,omitempty"`
	// DeviceCount is the number of devices.
	// +optional
	DeviceCount int32 `json:"deviceCount,omitempty"`
	// Capacity of the member; while it does not report, what it reported last. Free is rounded down to a whole percent of the total.
	// +optional
	Capacity Space `json:"capacity,omitempty"`
	// ThinPool is how full the thin pool is; while the member does not report, what it reported last.
	// +optional
	ThinPool *ThinPoolUsage `json:"thinPool,omitempty"`
	// Volumes is the number of volumes that the member holds.
	// +optional
	Volumes int32 `json:"volumes,omitempty"`
	// Holding are the first ten volumes, with their claims, that keep the member from being removed.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Holding []string `json:"holding,omitempty"`
	// Zeroing are the first ten volumes that are zeroed before anybody sees them, or that grow by what is, with how far that is: how much is zeroed, or, on a
	// shared LUN, how much may be seen. Their claims wait for it.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Zeroing []string `json:"zeroing,omitempty"`
	// Plan is what waits for approval on this member.
	// +optional
	Plan *Plan `json:"plan,omitempty"`
	// Message says what is wrong with the member, or what it waits for; empty when all is well.
	// +optional
	Message string `json:"message,omitempty"`
	// Conditions: Ready, RecordReported, Leaving while the member is to be removed, Retired while spec.retire lists a device, GivenUpAbsent once a group was
	// given up, and Sound, which is False and remembers while the host is silent what was wrong the last time that it could say.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// MemberList is a list of Members.
// +kubebuilder:object:root=true
type MemberList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Member `json:"items"`
}
