package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StorageType is the backend of a Cluster.
// +kubebuilder:validation:Enum=lvm;cephfs
type StorageType string

// Backends.
const (
	StorageTypeLVM    StorageType = "lvm"
	StorageTypeCephFS StorageType = "cephfs"
)

// Approval says whether a plan runs by itself.
// +kubebuilder:validation:Enum=Automatic;Manual
type Approval string

// Approvals.
const (
	ApprovalAutomatic Approval = "Automatic"
	ApprovalManual    Approval = "Manual"
)

// Cluster turns raw disks of the listed hosts into one StorageClass of the Cluster's name.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=qc,categories=quarry
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.storageType`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Hosts",type=integer,JSONPath=`.status.hostCount`
// +kubebuilder:printcolumn:name="Devices",type=integer,JSONPath=`.status.deviceCount`
// +kubebuilder:printcolumn:name="Capacity",type=string,JSONPath=`.status.capacity.total.total`
// +kubebuilder:printcolumn:name="Used",type=string,JSONPath=`.status.capacity.total.used`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="the name must be at most 63 characters long: it is used as a label value"
type Cluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What is wanted.
	Spec ClusterSpec `json:"spec"`
	// What was observed. It can be lost: it is rebuilt from the disks.
	// +optional
	Status ClusterStatus `json:"status,omitempty"`
}

// ClusterSpec is what is wanted.
//
// +kubebuilder:validation:XValidation:rule="self.storageType == oldSelf.storageType",message="storageType cannot be changed: delete the Cluster and create another one"
// +kubebuilder:validation:XValidation:rule="!has(self.lvm) || self.storageType == 'lvm'",message="lvm goes with storageType lvm only"
// +kubebuilder:validation:XValidation:rule="!has(self.ceph) || self.storageType == 'cephfs'",message="ceph goes with storageType cephfs only"
// +kubebuilder:validation:XValidation:rule="(has(self.ceph) && has(self.ceph.failureDomain) && self.ceph.failureDomain == 'osd') == (has(oldSelf.ceph) && has(oldSelf.ceph.failureDomain) && oldSelf.ceph.failureDomain == 'osd')",message="ceph.failureDomain cannot be changed: it says where the copies are since the Ceph cluster was made; delete the Cluster and create another one"
// +kubebuilder:validation:XValidation:rule="!(has(oldSelf.ceph) && has(oldSelf.ceph.takeUp)) || (has(self.ceph) && has(self.ceph.takeUp) && self.ceph.takeUp.fsid == oldSelf.ceph.takeUp.fsid)",message="ceph.takeUp cannot be removed, and its fsid cannot be changed: it says which Ceph cluster the disks and volumes are of"
// +kubebuilder:validation:XValidation:rule="(has(self.hosts) && size(self.hosts) > 0) != has(self.hostSelector)",message="give either hosts or hostSelector"
// +kubebuilder:validation:XValidation:rule="(has(self.lvm) && has(self.lvm.volumeGroup)) == (has(oldSelf.lvm) && has(oldSelf.lvm.volumeGroup))",message="lvm.volumeGroup cannot be added or removed later: the group with the old name holds the data"
// +kubebuilder:validation:XValidation:rule="!(has(oldSelf.lvm) && has(oldSelf.lvm.thinPool)) || (has(self.lvm) && has(self.lvm.thinPool))",message="lvm.thinPool cannot be removed: the volumes in it would be lost; delete the Cluster and create another one"
type ClusterSpec struct {
	// Backend: lvm (volumes local to a host), or cephfs (shared volumes over the disks of all hosts, which Ceph keeps copies of).
	StorageType StorageType `json:"storageType"`

	// Names of the Kubernetes nodes whose disks are used. A node that is taken off the list leaves: it takes no new volumes. With
	// storageType lvm it is removed after removalDelay once it holds none; with cephfs its data are moved to the others after
	// removalDelay, and then it is removed. Listing it again before its Member is deleted takes it back.
	// +optional
	// +kubebuilder:validation:MaxItems=5000
	// +listType=set
	Hosts []HostName `json:"hosts,omitempty"`

	// HostSelector chooses the nodes by their labels, instead of hosts. A node that exists and does not match any more leaves.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchLabels) || self.matchLabels.all(k, !k.startsWith('quarry.storage/') && !k.startsWith('iscsi.quarry.storage/'))",message="labels below quarry.storage/ and iscsi.quarry.storage/ are written by the controller and cannot select hosts"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, !e.key.startsWith('quarry.storage/') && !e.key.startsWith('iscsi.quarry.storage/'))",message="labels below quarry.storage/ and iscsi.quarry.storage/ are written by the controller and cannot select hosts"
	// +kubebuilder:validation:XValidation:rule="(has(self.matchLabels) && size(self.matchLabels) > 0) || (has(self.matchExpressions) && size(self.matchExpressions) > 0)",message="hostSelector must not be empty: it would choose every node"
	HostSelector *metav1.LabelSelector `json:"hostSelector,omitempty"`

	// RemovalDelay is how long a host that leaves stays a member before it is removed; 5m when not given. It does not run under
	// maintenance, and begins anew after it.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+$') && duration(self) <= duration('8760h')",message="removalDelay must be between 0s and 8760h, in h, m, s and ms: 5 days are 120h"
	RemovalDelay *metav1.Duration `json:"removalDelay,omitempty"`

	// Which devices of the hosts are used. When not given, these are all clean disks that a host has when it joins, without those over a
	// network and on USB. Disks that appear later are taken only if this selects them, or with devices.hotplug.
	// +optional
	Devices *DeviceSelector `json:"devices,omitempty"`

	// How the volume groups are made; storageType lvm only.
	// +optional
	LVM *LVMSpec `json:"lvm,omitempty"`

	// How Ceph is run; storageType cephfs only.
	// +optional
	Ceph *CephSpec `json:"ceph,omitempty"`

	// The StorageClass that is made.
	// +optional
	StorageClass *StorageClassSpec `json:"storageClass,omitempty"`

	// Hosts under maintenance: they take no new volumes, and nothing is changed on their disks. A name that is no member is told in the
	// condition HostsValid.
	// +optional
	// +kubebuilder:validation:MaxItems=5000
	// +listType=set
	Maintenance []HostName `json:"maintenance,omitempty"`

	// Manual shows every change of disks, with storageType cephfs nearly every step, in status.plan and waits until the annotation quarry.storage/approve carries its
	// digest. Automatic runs plans by itself, except steps by which something is lost or given up: a wipe of a disk that is not clean and, with cephfs, ReplaceOSD, fewer copies and the like.
	// These always wait, and status.plan says in consent what is lost.
	// +optional
	// +kubebuilder:default=Automatic
	Approval Approval `json:"approval,omitempty"`
}

// HostName is the name of a Kubernetes node.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
type HostName string

// DevicePath is an absolute path below /dev without "." or ".." elements.
// +kubebuilder:validation:MinLength=6
// +kubebuilder:validation:MaxLength=512
// +kubebuilder:validation:XValidation:rule="self.matches('^/dev/[A-Za-z0-9_+=.:,@%#-][A-Za-z0-9_+=.:,@%#/-]*$') && !self.matches('/[.][.]?(/|$)') && !self.contains('//') && !self.endsWith('/')",message="a device path must be absolute, below /dev, and without empty, '.' or '..' elements"
type DevicePath string

// Transport is how a disk is attached to its node.
// +kubebuilder:validation:Enum=sata;sas;scsi;nvme;virtio;xen;mmc;nvdimm;usb;iscsi;fc;nvme-tcp;nvme-rdma;nvme-fc;nvme-loop;nbd;rbd;rnbd;aoe;drbd
type Transport string

// DeviceSelector chooses devices. Every given field must match; a device that is not clean is never chosen by it.
//
// +kubebuilder:validation:XValidation:rule="!has(self.minSize) || !has(self.maxSize) || quantity(string(self.minSize)).isLessThan(quantity(string(self.maxSize)))",message="minSize must be less than maxSize"
// +kubebuilder:validation:XValidation:rule="(!has(self.minSize) || quantity(string(self.minSize)).compareTo(quantity('0')) >= 0) && (!has(self.maxSize) || quantity(string(self.maxSize)).compareTo(quantity('0')) > 0)",message="minSize must not be negative, and maxSize must be more than 0"
type DeviceSelector struct {
	// Paths of devices, best below /dev/disk/by-id. Given on every host; a host that lacks a path is told so.
	// +optional
	// +kubebuilder:validation:MaxItems=256
	// +listType=set
	Paths []DevicePath `json:"paths,omitempty"`
	// Smallest size, inclusive.
	// +optional
	MinSize *resource.Quantity `json:"minSize,omitempty"`
	// Largest size, inclusive.
	// +optional
	MaxSize *resource.Quantity `json:"maxSize,omitempty"`
	// True chooses spinning disks only, false chooses the others only.
	// +optional
	Rotational *bool `json:"rotational,omitempty"`
	// Model, compared in full without regard to case; "*" stands for any characters.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Model string `json:"model,omitempty"`
	// Transports of devices, as StorageNodes show them. Disks over a network (iscsi, fc, nvme-tcp and the like, nbd, rbd) and on USB are
	// taken only if their transport is listed here, or the disk itself under paths or wipe. Every other transport is chosen when none is
	// given.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=set
	Transports []Transport `json:"transports,omitempty"`
	// Hotplug takes disks that appear, or become clean, after a host has joined, even if nothing above selects them. A host has joined once
	// its volume group exists, or, with storageType cephfs, while an OSD of it is on record. It makes no difference if paths, sizes, rotational, model or transports are given: what they select is taken
	// whenever it appears.
	// +optional
	Hotplug bool `json:"hotplug,omitempty"`
	// MinAge is how long a disk must have been there before it is taken, counted from the later of the boot of the node and the making of the
	// device node; 1m when not given. Somebody else may have attached a fresh disk for a purpose of their own. Disks under paths or wipe are
	// taken at once.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+$') && duration(self) <= duration('8760h')",message="minAge must be between 0s and 8760h, in h, m, s and ms: 5 days are 120h"
	MinAge *metav1.Duration `json:"minAge,omitempty"`
	// Devices that are not clean and may be wiped. Each wipe also waits for the approval of its plan.
	// +optional
	// +kubebuilder:validation:MaxItems=256
	// +listType=map
	// +listMapKey=host
	// +listMapKey=path
	Wipe []WipeConsent `json:"wipe,omitempty"`
}

// WipeConsent names one device on one host that may lose its content.
type WipeConsent struct {
	// Host that the device is plugged into.
	Host HostName `json:"host"`
	// Stable path, below /dev/disk/by-id or /dev/disk/by-path: kernel names move.
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/dev/disk/by-id/') || self.startsWith('/dev/disk/by-path/')",message="a device to wipe must be named by a path below /dev/disk/by-id or /dev/disk/by-path: names like /dev/sdb move"
	Path DevicePath `json:"path"`
	// Serial number of the device. When given, another device at the same path is not wiped.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Serial string `json:"serial,omitempty"`
}

// LVMSpec says how volume groups are made.
type LVMSpec struct {
	// Name of the volume group on every host; quarry-NAME of the Cluster when not given.
	// +optional
	// +kubebuilder:validation:MaxLength=100
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_+][A-Za-z0-9_+.-]*$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="lvm.volumeGroup cannot be changed: the group with the old name holds the data"
	VolumeGroup string `json:"volumeGroup,omitempty"`
	// ThinPool makes volumes thin: they take room as it is written, snapshots and copies share it. Volumes are linear when it is not
	// given. It can be added later, which leaves linear volumes as they are, and cannot be removed.
	// +optional
	ThinPool *ThinPoolSpec `json:"thinPool,omitempty"`
	// Zero says which linear volumes are zeroed, with everything that they grow by, before they are shown: Block, when not given, those that
	// are raw block devices; Always those with a filesystem too; Never none, so that whoever gets a raw block device reads what others wrote
	// there. Thin volumes show nothing of others in any case. It counts for what is made or grows from now on.
	// +optional
	Zero ZeroPolicy `json:"zero,omitempty"`
	// DiscardOnDelete has the disks discard a linear volume before it is removed, so that an SSD or a thin disk of a hypervisor knows that the
	// space is free. It hides nothing: what is zeroed does not depend on it. Disks that cannot discard are no error. It counts for what is
	// deleted from now on.
	// +optional
	DiscardOnDelete bool `json:"discardOnDelete,omitempty"`
}

// StorageClassSpec says what the StorageClass is like.
type StorageClassSpec struct {
	// Default marks the class as the default class.
	// +optional
	Default bool `json:"default,omitempty"`
	// What happens to a volume when its claim is deleted.
	// +optional
	// +kubebuilder:default=Delete
	// +kubebuilder:validation:Enum=Delete;Retain
	ReclaimPolicy corev1.PersistentVolumeReclaimPolicy `json:"reclaimPolicy,omitempty"`
	// When a volume is made. Local volumes are always made when a pod needs them.
	// +optional
	// +kubebuilder:default=WaitForFirstConsumer
	// +kubebuilder:validation:Enum=WaitForFirstConsumer
	BindingMode storagev1.VolumeBindingMode `json:"bindingMode,omitempty"`
	// Filesystem of volumes that are not raw blocks.
	// +optional
	// +kubebuilder:default=ext4
	// +kubebuilder:validation:Enum=ext4;xfs;btrfs
	FSType string `json:"fsType,omitempty"`
	// Options with which volumes are mounted that are made from now on, for example noatime. Options that would weaken the nodes, or let
	// nothing be written, are refused. When not given, those that a person gives the StorageClass stay.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=set
	MountOptions []MountOption `json:"mountOptions,omitempty"`
	// Options with which the filesystem of a volume is made that is made from now on: a flag of mkfs of that filesystem and, after a space,
	// its value, for example "-i 65536" for ext4. Options that name devices, force, or discard are refused. The StorageClass is made anew when
	// they change, which touches no volume.
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +listType=set
	MkfsOptions []MkfsOption `json:"mkfsOptions,omitempty"`
}

// MkfsOption is one option of mkfs: a flag, or a flag and its value.
// +kubebuilder:validation:MinLength=2
// +kubebuilder:validation:MaxLength=128
// +kubebuilder:validation:XValidation:rule="self.matches('^--?[A-Za-z]+( [A-Za-z0-9^][A-Za-z0-9_^=.,-]*)?$')",message="an option of mkfs is a flag such as -M, or a flag, a space and a value such as -i 65536"
type MkfsOption string

// StorageKind returns "Cluster".
func (c *Cluster) StorageKind() string { return KindCluster }

// Common returns what every storage has, with defaults applied.
func (c *Cluster) Common() StorageCommon {
	out := StorageCommon{
		ReclaimPolicy: corev1.PersistentVolumeReclaimDelete, Approval: c.Spec.Approval, Hosts: c.Spec.Hosts, Selector: c.Spec.HostSelector,
		Maintenance: c.Spec.Maintenance, RemovalDelay: c.Spec.RemovalDelay,
	}
	if s := c.Spec.StorageClass; s != nil {
		out.Default = s.Default
		if s.ReclaimPolicy != "" {
			out.ReclaimPolicy = s.ReclaimPolicy
		}
	}
	return out
}

// StorageStatus returns the common part of the status.
func (c *Cluster) StorageStatus() *StorageStatus { return &c.Status.StorageStatus }

// ClusterList is a list of Clusters.
// +kubebuilder:object:root=true
type ClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Cluster `json:"items"`
}
