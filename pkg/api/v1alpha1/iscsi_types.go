package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Iscsi turns one LUN of an iSCSI target into one StorageClass of its own name. Every volume is a part of the LUN, is used on one node at a
// time, and moves between the initiators.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=iscsis,singular=iscsi,scope=Cluster,shortName=qi,categories=quarry
// +kubebuilder:printcolumn:name="IQN",type=string,JSONPath=`.spec.iqn`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Initiators",type=integer,JSONPath=`.status.hostCount`
// +kubebuilder:printcolumn:name="Volumes",type=integer,JSONPath=`.status.volumeCount`
// +kubebuilder:printcolumn:name="Capacity",type=string,JSONPath=`.status.capacity.total.total`
// +kubebuilder:printcolumn:name="Free",type=string,JSONPath=`.status.capacity.total.free`
// +kubebuilder:printcolumn:name="Plan",type=string,JSONPath=`.status.conditions[?(@.type=="PlanApproved")].reason`
// +kubebuilder:printcolumn:name="Writer",type=string,priority=1,JSONPath=`.status.writer`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="the name must be at most 63 characters long: it is part of a label's name"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.volumeCount) || oldSelf.status.volumeCount == 0 || (self.spec.iqn == oldSelf.spec.iqn && self.spec.port == oldSelf.spec.port && oldSelf.spec.targets.all(t, t in self.spec.targets))",message="iqn, port and the targets cannot be changed while volumes exist; targets may be added"
type Iscsi struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What is wanted.
	Spec IscsiSpec `json:"spec"`
	// What was observed.
	// +optional
	Status IscsiStatus `json:"status,omitempty"`
}

// IscsiSpec is what is wanted.
//
// +kubebuilder:validation:XValidation:rule="size(self.targets) == 1 || (has(self.multipath) && self.multipath)",message="several targets are several paths to one LUN: set multipath: true"
// +kubebuilder:validation:XValidation:rule="!has(self.maintenance) || self.maintenance.all(n, n in self.initiators)",message="maintenance names a node that is no initiator"
type IscsiSpec struct {
	// Targets are the addresses of the portals of the target: IP addresses; an IPv6 address stands without brackets. Several are paths to the
	// same LUN.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +listType=set
	Targets []PortalAddress `json:"targets"`
	// Port of every portal.
	// +optional
	// +kubebuilder:default=3260
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
	// IQN is the name of the target.
	// +kubebuilder:validation:MinLength=5
	// +kubebuilder:validation:MaxLength=223
	// +kubebuilder:validation:XValidation:rule="self.matches('^(iqn[.][0-9]{4}-(0[1-9]|1[0-2])[.][a-z0-9.-]+(:[a-z0-9.:_-]+)?|(eui|naa)[.][0-9a-f]{16}([0-9a-f]{16})?)$')",message="iqn must be an iSCSI name: iqn.YYYY-MM.reversed.domain[:rest], eui.16 digits or naa.16 or 32 digits, in lower case (RFC 7143)"
	IQN string `json:"iqn"`
	// Chap makes the initiators authenticate with the username and password in the Secret NAME-iscsi-secret of the controller's namespace. Its keys
	// are username and password; with mutualUsername and mutualPassword the target has to authenticate too.
	// +optional
	Chap bool `json:"chap,omitempty"`
	// Initiators are the names of the nodes that use the LUN. Volumes can be used on these nodes only.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=512
	// +listType=set
	Initiators []HostName `json:"initiators"`
	// Multipath says that several paths lead to the LUN: a node on which multipathd does not run is refused. multipathd joins them. It is needed where
	// there are several targets.
	// +optional
	Multipath bool `json:"multipath,omitempty"`
	// Cleanup says how the content of a deleted volume is kept from the next one that lies in its place: zero writes zeroes before anybody
	// sees a new volume; discard has the target forget them as well, which gives room back where the target is thin; none zeroes the
	// beginning of a new volume only: the next user of a raw block volume can read what the one before wrote.
	// +optional
	// +kubebuilder:default=zero
	Cleanup CleanupPolicy `json:"cleanup,omitempty"`
	// CopyRate is how much one node copies in a second at most for snapshots and clones, all of them together. Each byte is read from the LUN and written to it. 100Mi when not given.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isInteger() && quantity(string(self)).asInteger() >= 1048576",message="copyRate must be a whole number of bytes, at least 1Mi"
	CopyRate *resource.Quantity `json:"copyRate,omitempty"`
	// Wipe is a person's consent to lose what is on the LUN with this WWID, as status.lun shows it. It still needs an approved plan.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Wipe string `json:"wipe,omitempty"`
	// Approval Manual makes every plan wait for the annotation quarry.storage/approve. What loses data waits for it always.
	// +optional
	// +kubebuilder:default=Automatic
	Approval Approval `json:"approval,omitempty"`
	// Maintenance lists initiators on which no step is taken, and that get no new volumes.
	// +optional
	// +kubebuilder:validation:MaxItems=512
	// +listType=set
	Maintenance []HostName `json:"maintenance,omitempty"`
	// RemovalDelay is how long an initiator that left the list stays a member; 5m when not given. It does not run under maintenance, and begins
	// anew after it.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+$') && duration(self) <= duration('8760h')",message="removalDelay must be between 0s and 8760h, in h, m, s and ms: 5 days are 120h"
	RemovalDelay *metav1.Duration `json:"removalDelay,omitempty"`
	// The StorageClass that is made.
	// +optional
	StorageClass *IscsiStorageClassSpec `json:"storageClass,omitempty"`
}

// PortalAddress is the IP address of a portal.
// +kubebuilder:validation:MinLength=2
// +kubebuilder:validation:MaxLength=45
// +kubebuilder:validation:XValidation:rule="isIP(self) && !self.contains('%')",message="a target is an IP address, without a port (that is spec.port); an IPv6 address stands without brackets and zone"
type PortalAddress string

// CleanupPolicy is how the content of a deleted volume is kept from the next one.
// +kubebuilder:validation:Enum=zero;discard;none
type CleanupPolicy string

// Policies of cleanup.
const (
	CleanupZero    CleanupPolicy = "zero"
	CleanupDiscard CleanupPolicy = "discard"
	CleanupNone    CleanupPolicy = "none"
)

// IscsiStorageClassSpec says what the StorageClass of an Iscsi is like.
type IscsiStorageClassSpec struct {
	// Default marks the class as the default class.
	// +optional
	Default bool `json:"default,omitempty"`
	// What happens to a volume when its claim is deleted.
	// +optional
	// +kubebuilder:default=Delete
	// +kubebuilder:validation:Enum=Delete;Retain
	ReclaimPolicy corev1.PersistentVolumeReclaimPolicy `json:"reclaimPolicy,omitempty"`
	// FsType is the filesystem of volumes that do not ask for another one.
	// +optional
	// +kubebuilder:default=ext4
	// +kubebuilder:validation:Enum=ext4;xfs
	FsType string `json:"fsType,omitempty"`
}

// IscsiStatus is what was observed.
type IscsiStatus struct {
	StorageStatus `json:",inline"`
	// VolumeCount is the number of PersistentVolumes of the class.
	// +optional
	VolumeCount int32 `json:"volumeCount,omitempty"`
	// Lun is the LUN that the volumes lie on. The Members have the record.
	// +optional
	Lun *LunStatus `json:"lun,omitempty"`
	// Writer is the node that changes the volume group.
	// +optional
	Writer string `json:"writer,omitempty"`
	// Epoch counts the writers, and every time that a change was not answered.
	// +optional
	Epoch int64 `json:"epoch,omitempty"`
}

// LunStatus is a LUN as it was seen.
type LunStatus struct {
	// WWID as the kernel prints it.
	// +optional
	WWID string `json:"wwid,omitempty"`
	// Serial number.
	// +optional
	Serial string `json:"serial,omitempty"`
	// Size of the LUN.
	// +optional
	Size resource.Quantity `json:"size,omitempty"`
	// Reservations is true when the target keeps persistent reservations, by which a node can be fenced.
	// +optional
	Reservations bool `json:"reservations,omitempty"`
}

// StorageKind returns "Iscsi".
func (i *Iscsi) StorageKind() string { return KindIscsi }

// Common returns what every storage has.
func (i *Iscsi) Common() StorageCommon {
	c := StorageCommon{
		ReclaimPolicy: corev1.PersistentVolumeReclaimDelete, Approval: i.Spec.Approval, Hosts: i.Spec.Initiators,
		Maintenance: i.Spec.Maintenance, RemovalDelay: i.Spec.RemovalDelay,
	}
	if c.Approval == "" {
		c.Approval = ApprovalAutomatic
	}
	if s := i.Spec.StorageClass; s != nil {
		c.Default = s.Default
		if s.ReclaimPolicy != "" {
			c.ReclaimPolicy = s.ReclaimPolicy
		}
	}
	return c
}

// StorageStatus returns the common part of the status.
func (i *Iscsi) StorageStatus() *StorageStatus { return &i.Status.StorageStatus }

// IscsiList is a list of Iscsis.
// +kubebuilder:object:root=true
type IscsiList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Iscsi `json:"items"`
}
