package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MemberDevice is one device of a member.
type MemberDevice struct {
	// Stable path.
	Path string `json:"path"`
	// Identity tells this device from another one at the same path: its WWN, or its serial number.
	// +optional
	Identity string `json:"identity,omitempty"`
	// OSD is the number that Ceph gave the OSD on the device; absent while it has none, and of other storage.
	// +optional
	// +kubebuilder:validation:Minimum=0
	OSD *int32 `json:"osd,omitempty"`
	// OSDState is what Ceph said last of the OSD on the device: whether its daemon runs (up or down), and whether data are placed on it (in or out). Absent
	// while it never ran, and of other storage.
	// +optional
	// +kubebuilder:validation:Enum=up-in;up-out;down-in;down-out
	OSDState OSDState `json:"osdState,omitempty"`
	// Size of the device.
	// +optional
	Size resource.Quantity `json:"size,omitempty"`
	// State: present or missing.
	// +kubebuilder:validation:Enum=present;missing
	State DeviceState `json:"state"`
	// MissingSince is when the device was first seen missing while its agent reported; empty while it is present, and while the agent is silent.
	// +optional
	MissingSince *metav1.Time `json:"missingSince,omitempty"`
}

// OSDState says whether the daemon of an OSD runs, and whether data are placed on it.
type OSDState string

// States of an OSD.
const (
	OSDUpIn    OSDState = "up-in"
	OSDUpOut   OSDState = "up-out"
	OSDDownIn  OSDState = "down-in"
	OSDDownOut OSDState = "down-out"
)

// DeviceState says whether a device of a member is there.
type DeviceState string

// States of a device.
const (
	DevicePresent DeviceState = "present"
	DeviceMissing DeviceState = "missing"
)
