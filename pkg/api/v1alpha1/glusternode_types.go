package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GlusterNode is one server of a GlusterCluster. Deleting it has the node emptied and removed, and is never taken back.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=qgn
// +kubebuilder:selectablefield:JSONPath=`.spec.cluster`
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.cluster`
// +kubebuilder:printcolumn:name="Zone",type=string,JSONPath=`.spec.zone`
// +kubebuilder:printcolumn:name="Desired",type=string,JSONPath=`.spec.desiredState`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Bricks",type=integer,JSONPath=`.status.bricks`
// +kubebuilder:printcolumn:name="Size",type=string,JSONPath=`.status.capacity.total`
// +kubebuilder:printcolumn:name="Free",type=string,JSONPath=`.status.capacity.free`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 52 && !self.metadata.name.contains('.')",message="the name must be at most 52 characters long and without dots: it is the name of a workload"
type GlusterNode struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What is wanted.
	Spec GlusterNodeSpec `json:"spec"`
	// What was observed.
	// +optional
	Status GlusterNodeStatus `json:"status,omitempty"`
}

// GlusterNodeSpec is what is wanted.
//
// +kubebuilder:validation:XValidation:rule="self.cluster == oldSelf.cluster",message="cluster cannot be changed: make another GlusterNode"
// +kubebuilder:validation:XValidation:rule="(has(self.zone) ? self.zone : \"\") == (has(oldSelf.zone) ? oldSelf.zone : \"\")",message="zone cannot be changed: bricks were placed by it"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.peer) || has(self.peer) && self.peer == oldSelf.peer",message="peer is the record of which bricks are on the node, and cannot be changed"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.pool) || has(self.pool) && self.pool == oldSelf.pool",message="pool is the record of which pool the node is a member of, and cannot be changed"
// +kubebuilder:validation:XValidation:rule="has(self.external) != (has(self.storage) && size(self.storage) > 0)",message="exactly one of external and storage must be given"
// +kubebuilder:validation:XValidation:rule="has(self.external) == has(oldSelf.external)",message="a node cannot become external, nor an external one ours"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.storage) || has(self.storage) && oldSelf.storage.all(o, has(o.device) && !(has(self.devices) && self.devices.exists(r, r.device == o.device)) || self.storage.exists(n, (has(o.device) && has(n.device) && o.device == n.device) || (has(o.pvcName) && has(n.pvcName) && o.pvcName == n.pvcName)))",message="storage cannot be taken off a node, but for a device that is not on record: glusterd2 gives up no device. Delete the GlusterNode"
// +kubebuilder:validation:XValidation:rule="!has(self.storage) || self.storage.all(s, !has(s.device)) || has(self.nodeAffinity) && has(self.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution)",message="a node with devices needs a required nodeAffinity that matches exactly one node of Kubernetes"
// +kubebuilder:validation:XValidation:rule="!has(self.lost) || size(self.lost) == 0 || !has(self.external)",message="an external node cannot be declared lost: it is only looked at"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.move) || has(oldSelf.move.whole) && oldSelf.move.whole || has(self.move) && self.move.brick == oldSelf.move.brick && self.move.volume == oldSelf.move.volume",message="a brick that is moved stays on record until its data are whole elsewhere"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.devices) || oldSelf.devices.all(o, !has(o.allocated) || !o.allocated || has(self.devices) && self.devices.exists(n, n.device == o.device))",message="devices are the record of whose disks these are, and none that is allocated is taken off"
type GlusterNodeSpec struct {
	// Cluster is the GlusterCluster in the same namespace that the node belongs to.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Cluster string `json:"cluster"`
	// Zone is the failure domain of the node. Cannot be changed.
	// +optional
	Zone GlusterZone `json:"zone,omitempty"`
	// DesiredState disabled is maintenance: the node may be down for long, gets no new bricks, and no brick is moved to it or off it. enabled when not given.
	// +optional
	// +kubebuilder:validation:Enum=enabled;disabled
	DesiredState GlusterDesiredState `json:"desiredState,omitempty"`
	// External is a server that somebody else runs. Only whether it can be reached is looked at.
	// +optional
	External *GlusterExternal `json:"external,omitempty"`
	// Storage of the node. More can be added. Claims, and devices that are allocated, are not taken off; one that is only on record is taken off together with its record.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.all(a, !has(a.device) || self.exists_one(b, has(b.device) && a.device == b.device)) && self.all(a, !has(a.pvcName) || self.exists_one(b, has(b.pvcName) && a.pvcName == b.pvcName))",message="a device or claim must be given once"
	// +listType=atomic
	Storage []GlusterStorage `json:"storage,omitempty"`
	// NodeAffinity says on which nodes of Kubernetes the node may run.
	// +optional
	NodeAffinity *corev1.NodeAffinity `json:"nodeAffinity,omitempty"`
	// Peer is the ID of the node's server in the pool, by which glusterd2 says which bricks are on it. The controller writes it once, before the server is made: it
	// is the UID of the GlusterNode, or the ID that is on the node's claims if these were there first, as after a restore.
	// +optional
	// +kubebuilder:validation:MaxLength=36
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`
	Peer string `json:"peer,omitempty"`
	// Pool is the ID of the pool that the server is a member of, as glusterd2 calls it. The controller writes it once, when it sees the server there. Only a
	// server of this pool is asked about the node.
	// +optional
	// +kubebuilder:validation:MaxLength=36
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`
	Pool string `json:"pool,omitempty"`
	// Lost is a person's word that the node and what is on its disks are gone for ever. It counts only if it equals metadata.uid, and not while glusterd2
	// says that the node is online. It also deletes the GlusterNode.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Lost string `json:"lost,omitempty"`
	// Devices are the records of the disks of a node of Kubernetes that the GlusterNode has, one for each storage[].device. The controller writes each before anything
	// is made on the disk. No Cluster takes a disk that is on record.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=device
	Devices []GlusterDevice `json:"devices,omitempty"`
	// Move is the record of the brick that is being moved off the node, until its data are whole elsewhere. The controller writes it before glusterd2 is asked;
	// there is one at a time.
	// +optional
	Move *GlusterMove `json:"move,omitempty"`
}

// GlusterDesiredState is what a person wants of a node.
type GlusterDesiredState string

// Desired states.
const (
	GlusterEnabled  GlusterDesiredState = "enabled"
	GlusterDisabled GlusterDesiredState = "disabled"
)

// GlusterExternal is a server that somebody else runs.
type GlusterExternal struct {
	// Address of the server.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Address string `json:"address"`
	// Credentials of the server.
	// +optional
	Credentials *GlusterCredentials `json:"credentials,omitempty"`
}

// GlusterStorage is a device of a node.
//
// +kubebuilder:validation:XValidation:rule="has(self.device) != has(self.pvcName)",message="exactly one of device and pvcName must be given"
type GlusterStorage struct {
	// Device of the node of Kubernetes, by a path below /dev/disk/by-id, as the StorageNode of that node shows it. Patterns are not taken.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/dev/disk/by-id/')",message="the path must be below /dev/disk/by-id: others may mean another disk after the next boot"
	Device DevicePath `json:"device,omitempty"`
	// PVCName is a claim in the namespace with a volume in block mode.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	PVCName string `json:"pvcName,omitempty"`
	// Tags of the device.
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	Tags []string `json:"tags,omitempty"`
}

// GlusterNodeStatus is what was observed.
type GlusterNodeStatus struct {
	// Generation of the spec that this status belongs to.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// State computed from the flags.
	// +optional
	State MemberState `json:"state,omitempty"`
	// Flags that the state is computed from.
	// +optional
	Flags *MemberFlags `json:"flags,omitempty"`
	// OtherSince is since when glusterd2 says without a break that the node is up or down, other than the flag isUp. The flag follows after a minute.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`
	OtherSince *metav1.Time `json:"otherSince,omitempty"`
	// OfflineSince is since when the node is offline.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`
	OfflineSince *metav1.Time `json:"offlineSince,omitempty"`
	// Joined is true once the node was seen in the pool. From then on one that is missing there is a fault, and is not joined again by itself.
	// +optional
	Joined bool `json:"joined,omitempty"`
	// Capacity of the node's devices; while it does not report, what it reported last. Space of bricks that were replaced is not given back by glusterd2.
	// +optional
	Capacity Space `json:"capacity,omitempty"`
	// Bricks is the number of bricks of volumes and snapshots that the node holds.
	// +optional
	Bricks int32 `json:"bricks,omitempty"`
	// Holding are the first ten volumes and snapshots that keep the node from being removed.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Holding []string `json:"holding,omitempty"`
	// Message says what is wrong with the node, or what it waits for; empty when all is well.
	// +optional
	Message string `json:"message,omitempty"`
	// Conditions: Ready, SpecValid, ClaimsReady, WorkloadReady, PeerJoined, PeerOnline, DevicesReady, DevicesAllocated if it has disks of a node of Kubernetes, and PodCurrent; and while the node is removed Drained and Removed.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// GlusterMove is the record of one brick that is moved to another node.
type GlusterMove struct {
	// Brick is the ID of the brick that is given up.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Brick string `json:"brick"`
	// Volume of the brick.
	// +kubebuilder:validation:MaxLength=253
	Volume string `json:"volume"`
	// Path of the brick on this node.
	// +kubebuilder:validation:MaxLength=1024
	Path string `json:"path"`
	// Subvolume and Position of the brick in the volume, which its successor takes over.
	Subvolume int32 `json:"subvolume"`
	Position  int32 `json:"position"`
	// Request is what glusterd2 was asked last for the move, Asked when that was, and Answered whether there was an answer, whatever it was. While there was
	// none, the request may still take effect.
	// +optional
	Request GlusterRequest `json:"request,omitempty"`
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`
	Asked metav1.Time `json:"asked"`
	// +optional
	Answered bool `json:"answered,omitempty"`
	// Failure is what glusterd2 said to the request, if it said that it failed; empty otherwise. Without Answered such a request may have taken effect even so.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Failure string `json:"failure,omitempty"`
	// Successor is the ID of the brick that is in its place.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Successor string `json:"successor,omitempty"`
	// Repeated is how often glusterd2 was asked again for the same request.
	// +optional
	Repeated int32 `json:"repeated,omitempty"`
	// HealAsked is when glusterd2 took the request to heal the whole volume, after the brick was replaced.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`
	HealAsked *metav1.Time `json:"healAsked,omitempty"`
	// CleanSince is since when nothing was seen to be healed, without a break.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`
	CleanSince *metav1.Time `json:"cleanSince,omitempty"`
	// Whole: the successor has the data.
	// +optional
	Whole bool `json:"whole,omitempty"`
}

// GlusterRequest is what glusterd2 is asked for.
// +kubebuilder:validation:Enum=EnableSelfHeal;ReplaceBrick;HealVolume
type GlusterRequest string

// Requests.
const (
	// GlusterEnableSelfHeal has data copied to bricks of the volume that lack them.
	GlusterEnableSelfHeal GlusterRequest = "EnableSelfHeal"
	// GlusterReplaceBrick puts an empty brick of another node in the place of this one.
	GlusterReplaceBrick GlusterRequest = "ReplaceBrick"
	// GlusterHealVolume has all data looked at, and copied to that brick.
	GlusterHealVolume GlusterRequest = "HealVolume"
)

// GlusterNodeList is a list of GlusterNodes.
// +kubebuilder:object:root=true
type GlusterNodeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []GlusterNode `json:"items"`
}
