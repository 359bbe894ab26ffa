package cluster

import (
	"context"
	"fmt"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	storagev1ac "k8s.io/client-go/applyconfigurations/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/health"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// fieldOwner is the one field owner of everything the controller applies.
const fieldOwner = client.FieldOwner("quarry-controller")

// Names that Kubernetes gives.
const (
	annotationDefaultClass = "storageclass.kubernetes.io/is-default-class"
	parameterFSType        = "csi.storage.k8s.io/fstype"
)

// makeClass brings the StorageClass to what the spec says, once a host can hold volumes. A class of that name that is not ours is
// left alone. Most fields of a class never change: then it is deleted and made again, which does not touch volumes.
func (r *Reconciler) makeClass(ctx context.Context, s *scope) error {
	have, err := r.readClass(ctx, s)
	if err != nil || s.class.Conflict != "" {
		return err
	}
	if have == nil && !holds(s.hosts) {
		return nil
	}
	want := wantedClass(s.cluster)
	switch {
	case have != nil && !have.DeletionTimestamp.IsZero():
		return nil
	case have != nil && sameClass(have, want):
		return nil
	case have != nil && !sameFixed(have, want):
		if err := r.deleteClass(ctx, have); err != nil {
			return err
		}
	}
	if err := r.Client.Apply(ctx, applyClass(want), fieldOwner, client.ForceOwnership); err != nil {
		s.class.Exists = false
		return fmt.Errorf("apply storageclass %s: %w", want.Name, err)
	}
	s.class.Exists = true
	return nil
}

// readClass returns our StorageClass; nil when there is none, or when the name is taken.
func (r *Reconciler) readClass(ctx context.Context, s *scope) (*storagev1.StorageClass, error) {
	have := &storagev1.StorageClass{}
	err := r.Client.Get(ctx, types.NamespacedName{Name: s.cluster.Name}, have)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get storageclass %s: %w", s.cluster.Name, err)
	case have.Labels[v1alpha1.LabelCluster] != s.cluster.Name || have.Provisioner != v1alpha1.DriverLVM:
		s.class = health.Class{Conflict: fmt.Sprintf(
			"A StorageClass named %s exists and was not made for this Cluster: it is left alone. Delete it, or give the Cluster another name.",
			s.cluster.Name)}
		return nil, nil
	}
	s.class = health.Class{Exists: true}
	return have, nil
}

func (r *Reconciler) deleteClass(ctx context.Context, have *storagev1.StorageClass) error {
	err := r.Client.Delete(ctx, have, client.Preconditions{UID: &have.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete storageclass %s: %w", have.Name, err)
	}
	return nil
}

func wantedClass(c *v1alpha1.Cluster) *storagev1.StorageClass {
	spec := v1alpha1.StorageClassSpec{}
	if c.Spec.StorageClass != nil {
		spec = *c.Spec.StorageClass
	}
	if spec.ReclaimPolicy == "" {
		spec.ReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	}
	if spec.FSType == "" {
		spec.FSType = "ext4"
	}
	want := &storagev1.StorageClass{
		Provisioner:          v1alpha1.DriverLVM,
		Parameters:           map[string]string{parameterFSType: spec.FSType, v1alpha1.ParameterCluster: string(c.UID)},
		ReclaimPolicy:        &spec.ReclaimPolicy,
		AllowVolumeExpansion: new(true),
		VolumeBindingMode:    new(storagev1.VolumeBindingWaitForFirstConsumer),
	}
	if pool := decide.ThinPoolOf(c.Spec.LVM); pool != nil {
		want.Parameters[v1alpha1.ParameterThinPool] = pool.Name
		want.Parameters[v1alpha1.ParameterOverprovision] = strconv.Itoa(int(decide.OverprovisionPercent(c.Spec.LVM.ThinPool)))
	}
	want.Name = c.Name
	want.Labels = map[string]string{v1alpha1.LabelCluster: c.Name}
	if spec.Default {
		want.Annotations = map[string]string{annotationDefaultClass: "true"}
	}
	return want
}

func applyClass(want *storagev1.StorageClass) *storagev1ac.StorageClassApplyConfiguration {
	return storagev1ac.StorageClass(want.Name).
		WithLabels(want.Labels).WithAnnotations(want.Annotations).WithProvisioner(want.Provisioner).
		WithParameters(want.Parameters).WithReclaimPolicy(*want.ReclaimPolicy).
		WithAllowVolumeExpansion(*want.AllowVolumeExpansion).WithVolumeBindingMode(*want.VolumeBindingMode)
}

// sameFixed compares what can never be changed.
func sameFixed(have, want *storagev1.StorageClass) bool {
	return have.Provisioner == want.Provisioner && maps.Equal(have.Parameters, want.Parameters) &&
		have.ReclaimPolicy != nil && *have.ReclaimPolicy == *want.ReclaimPolicy &&
		have.VolumeBindingMode != nil && *have.VolumeBindingMode == *want.VolumeBindingMode
}

func sameClass(have, want *storagev1.StorageClass) bool {
	return sameFixed(have, want) && have.AllowVolumeExpansion != nil && *have.AllowVolumeExpansion &&
		have.Labels[v1alpha1.LabelCluster] == want.Labels[v1alpha1.LabelCluster] &&
		(have.Annotations[annotationDefaultClass] == "true") == (want.Annotations[annotationDefaultClass] == "true")
}

// holds says whether any host can hold volumes.
func holds(hosts []health.Host) bool {
	for _, h := range hosts {
		if !h.Member.Flags.ShouldDestroy && h.Holds() {
			return true
		}
	}
	return false
}
