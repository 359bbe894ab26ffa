package storage

import (
	"context"
	"fmt"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	storagev1ac "k8s.io/client-go/applyconfigurations/storage/v1"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/class"
	"quarry.storage/quarry/controller/internal/kube"
)

// makeClass brings the StorageClass to what the spec says, once volumes can be made. A class of that name that is not ours is
// left alone. A person is told what the API server refuses; a conflict is only tried again.
func (r *Reconciler) makeClass(ctx context.Context, s *scope) error {
	have := s.haveClass
	if s.class.Conflict != "" || have == nil && !s.whole.Serves || have != nil && !have.DeletionTimestamp.IsZero() {
		return nil
	}
	if why := s.whole.Class.Invalid; why != "" {
		s.class.Failed = why
		return nil
	}
	want := class.Wanted(s.storage, s.profile.Driver.Name, s.whole.Class)
	if have != nil && class.Same(have, want) {
		return nil
	}
	err := r.writeClass(ctx, s, want)
	if err != nil && !apierrors.IsConflict(err) {
		s.class.Failed = fmt.Sprintf("The StorageClass %s could not be written: %v", want.Name, err)
	}
	return err
}

// writeClass writes the class. Most fields of a class never change: then it is deleted and made again, which does not touch volumes.
func (r *Reconciler) writeClass(ctx context.Context, s *scope, want *storagev1.StorageClass) error {
	if s.haveClass != nil && !class.SameFixed(s.haveClass, want) {
		if err := kube.Delete(ctx, r.Client, s.haveClass); err != nil {
			return err
		}
		s.class.Exists = false
	}
	if err := kube.Apply(ctx, r.Client, "storageclass "+want.Name, configuration(want)); err != nil {
		return err
	}
	s.class.Exists = true
	return nil
}

// readClass reads our StorageClass; there is none when the name is taken.
func (r *Reconciler) readClass(ctx context.Context, s *scope) error {
	have := &storagev1.StorageClass{}
	err := r.Client.Get(ctx, types.NamespacedName{Name: s.owner.Name}, have)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("get storageclass %s: %w", s.owner.Name, err)
	case !class.Ours(have, s.storage, s.profile.Driver.Name):
		s.class = backend.Class{Conflict: fmt.Sprintf(
			"A StorageClass named %s exists and was not made for this %s: it is left alone. Delete it, or give the %s another name.",
			s.owner.Name, s.owner.Kind, s.owner.Kind)}
		return nil
	}
	s.haveClass, s.class = have, backend.Class{Exists: true}
	return nil
}

// configuration returns the class as it is applied.
func configuration(want *storagev1.StorageClass) *storagev1ac.StorageClassApplyConfiguration {
	out := storagev1ac.StorageClass(want.Name).
		WithLabels(want.Labels).WithAnnotations(want.Annotations).WithProvisioner(want.Provisioner).
		WithParameters(want.Parameters).WithReclaimPolicy(*want.ReclaimPolicy).
		WithAllowVolumeExpansion(*want.AllowVolumeExpansion).WithVolumeBindingMode(*want.VolumeBindingMode)
	if len(want.MountOptions) > 0 {
		out.WithMountOptions(want.MountOptions...)
	}
	return out
}
