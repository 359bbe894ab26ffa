package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: Group, Version: "v1alpha1"}

// AddToScheme makes the kinds of this package known to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&Cluster{}, &ClusterList{},
		&Member{}, &MemberList{},
		&Nfs{}, &NfsList{},
		&StorageNode{}, &StorageNodeList{},
		&StatefulCluster{}, &StatefulClusterList{},
		&HarborCluster{}, &HarborClusterList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
