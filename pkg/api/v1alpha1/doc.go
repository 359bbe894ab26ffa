// Package v1alpha1 holds the kinds of the API group quarry.storage, version v1alpha1, and every name that both sides share:
// condition types, reasons, labels, finalizers, annotations and driver names. It knows nothing of clients or controllers.
//
// +kubebuilder:object:generate=true
// +groupName=quarry.storage
package v1alpha1
