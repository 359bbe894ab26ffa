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
	// ThinPoolWarnPercent is the fullness of data or metadata from which on a warning is given.
	ThinPoolWarnPercent = 80
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
	// DataPercent is the part of the size that is taken.
	DataPercent int32 `json:"dataPercent"`
	// MetadataPercent is the part of the pool's metadata that is taken.
	MetadataPercent int32 `json:"metadataPercent"`
}

// Describe says how full a nearly full pool is, and what can be done.
func (u ThinPoolUsage) Describe() string {
	return fmt.Sprintf("thin pool %s is nearly full, data %d %%, metadata %d %%: add a disk, or delete volumes or snapshots",
		u.Name, u.DataPercent, u.MetadataPercent)
}

// NearlyFull reports whether a warning is due.
func (u ThinPoolUsage) NearlyFull() bool {
	return u.DataPercent >= ThinPoolWarnPercent || u.MetadataPercent >= ThinPoolWarnPercent
}
