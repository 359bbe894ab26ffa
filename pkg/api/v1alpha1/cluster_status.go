package v1alpha1

import "k8s.io/apimachinery/pkg/api/resource"

// ClusterStatus is what was observed. The details of the hosts are on the Members of the Cluster.
type ClusterStatus struct {
	StorageStatus `json:",inline"`

	// Ceph is what is known of the Ceph cluster; storageType cephfs only.
	// +optional
	Ceph *CephStatus `json:"ceph,omitempty"`
}

// Capacity is the capacity of a storage.
type Capacity struct {
	// Sum over the members that report.
	// +optional
	Total Space `json:"total,omitempty"`
}

// Space is a size and what of it is used and free.
type Space struct {
	// +optional
	Total *resource.Quantity `json:"total,omitempty"`
	// +optional
	Used *resource.Quantity `json:"used,omitempty"`
	// +optional
	Free *resource.Quantity `json:"free,omitempty"`
}

// MemberState is one of the five states of a member, see docs/states.md.
// +kubebuilder:validation:Enum=online;offline;quiesced;failed;abandoned
type MemberState string

// MemberFlags are the four flags that the state is computed from.
// +structType=atomic
type MemberFlags struct {
	// IsUp: the node's part of the storage can be reached. Observed.
	IsUp bool `json:"isUp"`
	// HasData: the node holds data of the storage. Observed; true when it is not known.
	HasData bool `json:"hasData"`
	// ShouldQuiesce: maintenance is asked for, or the member is leaving.
	ShouldQuiesce bool `json:"shouldQuiesce"`
	// ShouldDestroy: the Member was deleted. Never goes back.
	ShouldDestroy bool `json:"shouldDestroy"`
}
