package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Nfs turns a directory that an NFS server exports into one StorageClass of its own name. Every volume is a directory below it, and
// pods on any number of nodes may share it. NFS enforces no size.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=nfs,singular=nfs,scope=Cluster,shortName=qn,categories=quarry
// +kubebuilder:printcolumn:name="Server",type=string,JSONPath=`.spec.server`
// +kubebuilder:printcolumn:name="Path",type=string,JSONPath=`.spec.path`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Capacity",type=string,JSONPath=`.status.capacity.total.total`
// +kubebuilder:printcolumn:name="Free",type=string,JSONPath=`.status.capacity.total.free`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="the name must be at most 63 characters long: it is used as a label value"
type Nfs struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What is wanted.
	Spec NfsSpec `json:"spec"`
	// What was observed.
	// +optional
	Status NfsStatus `json:"status,omitempty"`
}

// NfsSpec is what is wanted.
//
// +kubebuilder:validation:XValidation:rule="self.server == oldSelf.server && self.path == oldSelf.path",message="server and path cannot be changed: volumes are on the share that they were made on; create another Nfs"
type NfsSpec struct {
	// Server is the DNS name or the IP address of the NFS server; an IPv6 address stands without brackets.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="isIP(self) || !self.matches('^[0-9.]*$') && self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="server must be a DNS name or an IP address, without a port (that is the mount option port=2050); an IPv6 address stands without brackets"
	Server string `json:"server"`
	// Path is the exported directory on the server.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/') && !self.contains('//') && !self.matches('(^|/)[.][.]?(/|$)') && !self.matches('[[:cntrl:]]') && (self == '/' || !self.endsWith('/'))",message="path must be absolute, without empty, '.' or '..' elements, control characters or a slash at its end"
	Path string `json:"path"`
	// MountOptions of the volumes, as mount.nfs knows them, for example vers=4.1 or nconnect=4. Options that would weaken the nodes
	// (suid, dev) or name another server are refused.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=set
	MountOptions []MountOption `json:"mountOptions,omitempty"`
	// SubDir is the template of the directories of new volumes, below path. It may use ${pvc.namespace}, ${pvc.name} and ${pv.name}.
	// ${pv.name} alone when not given. Two volumes never share a directory.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('/') && !self.endsWith('/') && !self.contains('//') && !self.matches('(^|/)[.][^/]*(/|$)') && !self.matches('[[:cntrl:]]') && !self.matches('[^/]{256}') && !self.matches('[$]([^{]|$)') && self.replace('${pvc.namespace}', '').replace('${pvc.name}', '').replace('${pv.name}', '').matches('^[^${}]*$')",message="subDir must be a relative path without empty elements, elements that begin with a dot or are longer than 255 characters, or control characters; it may use ${pvc.namespace}, ${pvc.name} and ${pv.name}"
	SubDir string `json:"subDir,omitempty"`
	// OnDelete says what happens to the directory of a volume that is deleted: delete removes it, archive renames it to
	// archived-NAME-DATE, retain leaves it. Every volume keeps the policy that it was made with.
	// +optional
	// +kubebuilder:default=delete
	OnDelete DirectoryPolicy `json:"onDelete,omitempty"`
	// The StorageClass that is made.
	// +optional
	StorageClass *NfsStorageClassSpec `json:"storageClass,omitempty"`
}

// MountOption is one mount option: a word, or a word and its value.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=128
// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9_]+(=[A-Za-z0-9._:-]+)?$')",message="a mount option is a word such as hard, or a word and a value such as timeo=600"
// +kubebuilder:validation:XValidation:rule="!(self in ['suid', 'dev'])",message="the options suid and dev would let a share weaken the nodes: they are refused"
type MountOption string

// DirectoryPolicy is what happens to the directory of a volume that is deleted.
// +kubebuilder:validation:Enum=delete;retain;archive
type DirectoryPolicy string

// Policies for the directories of deleted volumes.
const (
	DirectoryDelete  DirectoryPolicy = "delete"
	DirectoryRetain  DirectoryPolicy = "retain"
	DirectoryArchive DirectoryPolicy = "archive"
)

// NfsStorageClassSpec says what the StorageClass of an Nfs is like.
type NfsStorageClassSpec struct {
	// Default marks the class as the default class.
	// +optional
	Default bool `json:"default,omitempty"`
	// What happens to a volume when its claim is deleted.
	// +optional
	// +kubebuilder:default=Delete
	// +kubebuilder:validation:Enum=Delete;Retain
	ReclaimPolicy corev1.PersistentVolumeReclaimPolicy `json:"reclaimPolicy,omitempty"`
	// When a volume is made.
	// +optional
	// +kubebuilder:default=Immediate
	// +kubebuilder:validation:Enum=Immediate;WaitForFirstConsumer
	BindingMode storagev1.VolumeBindingMode `json:"bindingMode,omitempty"`
}

// NfsStatus is what was observed.
type NfsStatus struct {
	StorageStatus `json:",inline"`
	// VolumeCount is the number of PersistentVolumes of the class.
	// +optional
	VolumeCount int32 `json:"volumeCount,omitempty"`
	// Version of NFS that the share was reached with.
	// +optional
	Version string `json:"version,omitempty"`
	// ShareID is the identity that was written on the share when it was first used. A share with another one is refused.
	// +optional
	ShareID string `json:"shareID,omitempty"`
	// CheckedFrom is the node whose agent looked at the share last.
	// +optional
	CheckedFrom string `json:"checkedFrom,omitempty"`
}

// StorageKind returns "Nfs".
func (n *Nfs) StorageKind() string { return KindNfs }

// Common returns what every storage has.
func (n *Nfs) Common() StorageCommon {
	c := StorageCommon{ReclaimPolicy: corev1.PersistentVolumeReclaimDelete, Approval: ApprovalAutomatic}
	if s := n.Spec.StorageClass; s != nil {
		c.Default = s.Default
		if s.ReclaimPolicy != "" {
			c.ReclaimPolicy = s.ReclaimPolicy
		}
	}
	return c
}

// StorageStatus returns the common part of the status.
func (n *Nfs) StorageStatus() *StorageStatus { return &n.Status.StorageStatus }

// NfsList is a list of Nfs.
// +kubebuilder:object:root=true
type NfsList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Nfs `json:"items"`
}
