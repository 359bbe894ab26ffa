package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// GlusterDevice is the record of a disk of a node of Kubernetes that a GlusterNode has.
//
// +kubebuilder:validation:XValidation:rule="self.device == oldSelf.device && self.node == oldSelf.node && self.path == oldSelf.path && self.size == oldSelf.size && (has(self.wwn) ? self.wwn : \"\") == (has(oldSelf.wwn) ? oldSelf.wwn : \"\") && (has(self.serial) ? self.serial : \"\") == (has(oldSelf.serial) ? oldSelf.serial : \"\")",message="a disk that is on record is not changed: another one is another device"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.allocated) || !oldSelf.allocated || has(self.allocated) && self.allocated",message="a disk that was allocated to the server stays allocated"
// +kubebuilder:validation:XValidation:rule="has(self.wwn) && size(self.wwn) > 0 || has(self.serial) && size(self.serial) > 0",message="a disk needs a WWN or a serial number"
type GlusterDevice struct {
	// Device as spec.storage has it.
	Device DevicePath `json:"device"`
	// Node of Kubernetes that the disk is plugged into.
	Node HostName `json:"node"`
	// Path of the disk when it was put on record; the pod of the server gets the disk by it.
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/dev/disk/by-id/')",message="the path must be below /dev/disk/by-id: others may mean another disk after the next boot"
	Path DevicePath `json:"path"`
	// WWN, serial number and size in bytes of the disk. Another disk at the same path is another one.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	WWN string `json:"wwn,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Serial string `json:"serial,omitempty"`
	// +kubebuilder:validation:Minimum=1
	Size int64 `json:"size"`
	// Recorded is when the disk was put on record. It is allocated three minutes later, if nobody else has it by then.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`
	Recorded metav1.Time `json:"recorded"`
	// Allocated: the server may have written on the disk. It is written before the pod gets it.
	// +optional
	Allocated bool `json:"allocated,omitempty"`
}
