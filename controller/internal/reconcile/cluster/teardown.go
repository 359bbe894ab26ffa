package cluster

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"quarry.storage/quarry/controller/internal/decide/member"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// removeClass deletes the StorageClass first, so that nobody makes another volume.
func (r *Reconciler) removeClass(ctx context.Context, s *scope) error {
	have, err := r.readClass(ctx, s)
	if err != nil {
		return err
	}
	// A class of somebody else does not hold the deletion up.
	s.class.Conflict = ""
	if have == nil {
		return nil
	}
	if have.DeletionTimestamp.IsZero() {
		if err := r.deleteClass(ctx, have); err != nil {
			return err
		}
	}
	s.class.Exists = len(have.Finalizers) > 0
	if s.class.Exists {
		s.blocked = fmt.Sprintf("The StorageClass %s is being deleted, which its finalizers hold up.", have.Name)
	}
	return nil
}

// checkVolumes holds the teardown up while any volume of the Cluster exists, in the API or on a disk.
func (r *Reconciler) checkVolumes(_ context.Context, s *scope) error {
	names := slices.Clone(s.world.unplaced)
	for _, h := range s.hosts {
		names = append(names, member.Holding(member.Input{Groups: h.Groups, Volumes: s.world.volumes[h.Name]})...)
	}
	if len(names) > 0 {
		slices.Sort(names)
		s.blocked = fmt.Sprintf("Volumes exist, nothing is torn down until they are deleted: %s", member.Shorten(slices.Compact(names), 10))
	}
	return nil
}

// finish gives the Cluster free once every host is done.
func (r *Reconciler) finish(ctx context.Context, s *scope) error {
	if s.blocked != "" {
		return nil
	}
	for _, h := range s.hosts {
		if !h.Removed {
			return nil
		}
	}
	patch := client.MergeFromWithOptions(s.cluster.DeepCopy(), client.MergeFromWithOptimisticLock{})
	controllerutil.RemoveFinalizer(s.cluster, v1alpha1.FinalizerTeardown)
	if err := r.Client.Patch(ctx, s.cluster, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove finalizer: %w", err)
	}
	s.gone = true
	r.Work.Forget(s.cluster.Name)
	forgetMetrics(s.cluster.Name)
	return nil
}
