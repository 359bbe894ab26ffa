package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// HarborWitness tells how the HarborCluster of its name is deleted. It has the HarborCluster as its owner, and nothing else: Kubernetes takes the owner off when
// that is deleted with --cascade=orphan. Its finalizer keeps it in every other deletion until the HarborCluster has ended. The controller makes and removes it.
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced
// +kubebuilder:printcolumn:name=Owner,type=string,JSONPath=`.metadata.ownerReferences[0].name`,description="The HarborCluster that it speaks for. None once that was orphaned."
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type HarborWitness struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

// HarborWitnessList is a list of HarborWitnesses.
// +kubebuilder:object:root=true
type HarborWitnessList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []HarborWitness `json:"items"`
}
