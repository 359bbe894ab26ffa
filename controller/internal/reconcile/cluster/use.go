package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"quarry.storage/quarry/controller/internal/decide/health"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Drivers knows how CSI drivers are.
type Drivers interface {
	// State returns how the driver of a name is.
	State(ctx context.Context, driver string) (health.Driver, error)
}

func (r *Reconciler) readDriver(ctx context.Context, s *scope) (err error) {
	s.driver, err = r.Drivers.State(ctx, v1alpha1.DriverLVM)
	return err
}

// readAttachments finds attachments of volumes of the class. One whose volume is gone may be of any class of the driver, so it counts.
func (r *Reconciler) readAttachments(ctx context.Context, s *scope) error {
	var list storagev1.VolumeAttachmentList
	if err := r.Client.List(ctx, &list, &client.ListOptions{UnsafeDisableDeepCopy: new(true)}); err != nil {
		return fmt.Errorf("list volumeattachments: %w", err)
	}
	for i := range list.Items {
		a := &list.Items[i]
		if a.Spec.Attacher != v1alpha1.DriverLVM || a.Spec.Source.PersistentVolumeName == nil {
			continue
		}
		name := *a.Spec.Source.PersistentVolumeName
		v := &corev1.PersistentVolume{}
		err := r.Client.Get(ctx, types.NamespacedName{Name: name}, v)
		switch {
		case apierrors.IsNotFound(err), err == nil && v.Spec.StorageClassName == s.cluster.Name:
			s.world.used = true
			s.world.unplaced = append(s.world.unplaced, fmt.Sprintf("%s (attached to %s)", name, a.Spec.NodeName))
		case err != nil:
			return fmt.Errorf("get persistentvolume %s: %w", name, err)
		}
	}
	return nil
}

// markUse keeps the finalizer exactly while a volume exists. No finalizer can be added to a Cluster that is being deleted; volumes hold
// its teardown up all the same.
func (r *Reconciler) markUse(ctx context.Context, s *scope) error {
	marked := controllerutil.ContainsFinalizer(s.cluster, v1alpha1.FinalizerInUse)
	if marked == s.world.used || s.world.used && s.deleting() {
		return nil
	}
	before := s.cluster.DeepCopy()
	if s.world.used {
		controllerutil.AddFinalizer(s.cluster, v1alpha1.FinalizerInUse)
	} else {
		controllerutil.RemoveFinalizer(s.cluster, v1alpha1.FinalizerInUse)
	}
	status := s.cluster.Status
	if err := r.Client.Patch(ctx, s.cluster, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("mark as in use: %w", err)
	}
	s.cluster.Status = status
	return nil
}

// awaitDriver holds the teardown of the last Cluster of a driver up until the driver is removed, which happens once no volume needs it.
func (r *Reconciler) awaitDriver(_ context.Context, s *scope) error {
	if s.blocked != "" || !s.driver.Exists {
		return nil
	}
	for _, c := range s.world.others {
		if c.Spec.StorageType == s.cluster.Spec.StorageType {
			return nil
		}
	}
	s.blocked = "The CSI driver is being removed, as this is the last Cluster that uses it."
	if s.driver.Progress != "" {
		s.blocked = s.driver.Progress
	}
	return nil
}
