// Package class decides what the StorageClass of a storage is like. It is pure.
package class

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	storagev1 "k8s.io/api/storage/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Names that Kubernetes gives.
const (
	annotationDefault = "storageclass.kubernetes.io/is-default-class"
	// ParameterFSType is the parameter that names the filesystem of volumes.
	ParameterFSType = "csi.storage.k8s.io/fstype"
)

// Wish is what a backend wants of its StorageClass.
type Wish struct {
	// Parameters of the class.
	Parameters map[string]string
	// MountOptions of volumes; those of the class are a person's when there are none.
	MountOptions []string
	// Binding of volumes to nodes.
	Binding storagev1.VolumeBindingMode
	// Invalid says why the spec makes no class; empty when it does.
	Invalid string
}

// Wanted returns the StorageClass of a storage.
func Wanted(s v1alpha1.Storage, provisioner string, w Wish) *storagev1.StorageClass {
	common := s.Common()
	want := &storagev1.StorageClass{
		Provisioner: provisioner, Parameters: w.Parameters, ReclaimPolicy: &common.ReclaimPolicy,
		AllowVolumeExpansion: new(true), VolumeBindingMode: &w.Binding,
	}
	want.Name = s.GetName()
	want.Labels = map[string]string{v1alpha1.LabelOf(s.StorageKind()): s.GetName()}
	want.MountOptions = w.MountOptions
	// In words: what is only left out stays as a person set it.
	want.Annotations = map[string]string{annotationDefault: strconv.FormatBool(common.Default)}
	if len(w.MountOptions) > 0 {
		want.Annotations[v1alpha1.AnnotationMountOptions] = strings.Join(w.MountOptions, ",")
	}
	return want
}

// Ours reports whether a class was made for a storage. A class of the name that somebody else made is left alone.
func Ours(have *storagev1.StorageClass, s v1alpha1.Storage, provisioner string) bool {
	return have.Labels[v1alpha1.LabelOf(s.StorageKind())] == s.GetName() && have.Provisioner == provisioner
}

// SameFixed reports whether two classes agree in what can never be changed.
func SameFixed(have, want *storagev1.StorageClass) bool {
	return have.Provisioner == want.Provisioner && maps.Equal(have.Parameters, want.Parameters) &&
		have.ReclaimPolicy != nil && *have.ReclaimPolicy == *want.ReclaimPolicy &&
		have.VolumeBindingMode != nil && *have.VolumeBindingMode == *want.VolumeBindingMode
}

// Same reports whether a class is as it should be. Its mount options are a person's where the storage wants none, and did not before.
func Same(have, want *storagev1.StorageClass) bool {
	for k, v := range want.Labels {
		if have.Labels[k] != v {
			return false
		}
	}
	const options = v1alpha1.AnnotationMountOptions
	if have.Annotations[options] != want.Annotations[options] || len(want.MountOptions) > 0 && !slices.Equal(have.MountOptions, want.MountOptions) {
		return false
	}
	return SameFixed(have, want) &&
		have.AllowVolumeExpansion != nil && *have.AllowVolumeExpansion &&
		(have.Annotations[annotationDefault] == "true") == (want.Annotations[annotationDefault] == "true")
}
