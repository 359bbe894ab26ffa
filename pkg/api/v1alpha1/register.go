package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: Group, Version: "v1alpha1"}

// StorageList is a list of one kind of storages.
//
// +kubebuilder:object:generate=false
type StorageList interface {
	metav1.ListInterface
	runtime.Object
	// Storages returns the items.
	Storages() []Storage
}

// StorageLists returns an empty list of every kind that owns a StorageClass.
func StorageLists() []StorageList { return []StorageList{&ClusterList{}, &IscsiList{}, &NfsList{}} }

// Storages returns the items.
func (l *ClusterList) Storages() []Storage {
	out := make([]Storage, 0, len(l.Items))
	for i := range l.Items {
		out = append(out, &l.Items[i])
	}
	return out
}

// Storages returns the items.
func (l *IscsiList) Storages() []Storage {
	out := make([]Storage, 0, len(l.Items))
	for i := range l.Items {
		out = append(out, &l.Items[i])
	}
	return out
}

// Storages returns the items.
func (l *NfsList) Storages() []Storage {
	out := make([]Storage, 0, len(l.Items))
	for i := range l.Items {
		out = append(out, &l.Items[i])
	}
	return out
}

// AddToScheme makes the kinds of this package known to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&Cluster{}, &ClusterList{},
		&Member{}, &MemberList{},
		&Iscsi{}, &IscsiList{},
		&Nfs{}, &NfsList{},
		&StorageNode{}, &StorageNodeList{},
		&StatefulCluster{}, &StatefulClusterList{},
		&HarborCluster{}, &HarborClusterList{},
		&HarborWitness{}, &HarborWitnessList{},
		&GlusterCluster{}, &GlusterClusterList{},
		&GlusterNode{}, &GlusterNodeList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
