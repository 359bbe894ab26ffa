package v1alpha1

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Bounds and defaults of thin pools.
const (
	// DefaultThinPoolPercent is the share of the volume group that a thin pool takes when neither size nor percent is given. The rest is
	// for its metadata and the spare that LVM keeps for repairs.
	DefaultThinPoolPercent = 95
	// ThinPoolName is the logical volume that is the thin pool.
	ThinPoolName = "quarry-thin"
	// ThinPoolWarnPercent is the fullness of data or metadata from which on a warning is given, ThinPoolCalmPercent the one below which it
	// ends: writes and deletions around one limit would begin and end it again and again.
	ThinPoolWarnPercent = 80
	ThinPoolCalmPercent = 75
)

// ThinPoolSpec says how the thin pool of every host is made. It grows when more is asked for, and never shrinks.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.size) && has(self.percent))",message="size and percent exclude each other"
// +kubebuilder:validation:XValidation:rule="!has(self.size) || !has(oldSelf.size) || quantity(string(self.size)).compareTo(quantity(string(oldSelf.size))) >= 0",message="size must not be made smaller: a thin pool cannot shrink"
// +kubebuilder:validation:XValidation:rule="!has(self.percent) || !has(oldSelf.percent) || self.percent >= oldSelf.percent",message="percent must not be made smaller: a thin pool cannot shrink"
// +kubebuilder:validation:XValidation:rule="has(self.chunkSize) == has(oldSelf.chunkSize) && (!has(self.chunkSize) || quantity(string(self.chunkSize)).compareTo(quantity(string(oldSelf.chunkSize))) == 0)",message="chunkSize cannot be changed: it is part of the pool's layout"
type ThinPoolSpec struct {
	// Size of the pool on every host, at least 64Mi. It has to fit beside the pool's metadata.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('64Mi')) >= 0",message="the size of a thin pool must be at least 64Mi"
	Size *resource.Quantity `json:"size,omitempty"`
	// Percent of the volume group that the pool takes, as far as there is room; 95 when neither size nor percent is given. The pool
	// grows with the group.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Percent *int32 `json:"percent,omitempty"`
	// OverprovisionRatio bounds the sum of the sizes of all volumes, snapshots and copies in the pool, as a multiple of the pool's size,
	// at most 100 with two decimals. With 1.0 every volume can be filled.
	// +optional
	// +kubebuilder:default="1.0"
	// +kubebuilder:validation:MaxLength=6
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{1,3}([.][0-9]{1,2})?$') && double(self) >= 1.0 && double(self) <= 100.0",message="overprovisionRatio must be a decimal number between 1.0 and 100.0 with at most two decimals"
	OverprovisionRatio string `json:"overprovisionRatio,omitempty"`
	// ChunkSize is the unit in which room is taken: a multiple of 64Ki up to 1Gi. Chosen by the size of the pool when not given.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isInteger() && quantity(string(self)).asInteger() >= 65536 && quantity(string(self)).asInteger() <= 1073741824 && quantity(string(self)).asInteger() % 65536 == 0",message="chunkSize must be a multiple of 64Ki between 64Ki and 1Gi"
	ChunkSize *resource.Quantity `json:"chunkSize,omitempty"`
}

// ThinPoolUsage is how full one thin pool is.
type ThinPoolUsage struct {
	// Name of the pool in LVM.
	Name string `json:"name"`
	// Size of the pool.
	Size resource.Quantity `json:"size"`
	// Provisioned is the sum of the sizes of all volumes in it.
	Provisioned resource.Quantity `json:"provisioned"`
	// DataPercent is the part of the size that is taken. It is left out while that is not known: the pool is not active, and it may be full.
	// +optional
	DataPercent *int32 `json:"dataPercent,omitempty"`
	// MetadataPercent is the part of the pool's metadata that is taken, as far as that is known.
	// +optional
	MetadataPercent *int32 `json:"metadataPercent,omitempty"`
	// NearlyFull is true from 80 % of data or metadata on, until both are below 75 % again.
	// +optional
	NearlyFull bool `json:"nearlyFull,omitempty"`
	// KeptMetadata are the names in LVM of the volumes that hold the pool's metadata as it was before repairs. They are removed by hand.
	// +optional
	// +listType=atomic
	KeptMetadata []string `json:"keptMetadata,omitempty"`
}

// Known reports whether it is known how full the pool is.
func (u ThinPoolUsage) Known() bool { return u.DataPercent != nil && u.MetadataPercent != nil }

// Describe says how full a nearly full pool is, or that it is not known, and what can be done.
func (u ThinPoolUsage) Describe() string {
	if !u.Known() {
		return fmt.Sprintf("how full thin pool %s is is not known, for it is not active: the log of the node's agent says why", u.Name)
	}
	return fmt.Sprintf("thin pool %s is nearly full, data %d %%, metadata %d %%: add a disk, or delete volumes or snapshots",
		u.Name, *u.DataPercent, *u.MetadataPercent)
}

// ZeroPolicy says which linear volumes are zeroed before they are shown.
// +kubebuilder:validation:Enum=Always;Block;Never
type ZeroPolicy string

// Policies of zeroing.
const (
	ZeroAlways ZeroPolicy = "Always"
	ZeroBlock  ZeroPolicy = "Block"
	ZeroNever  ZeroPolicy = "Never"
)
