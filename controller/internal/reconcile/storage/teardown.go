package storage

import (
	"context"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// markUse keeps the finalizer exactly while a volume exists. No finalizer can be added to a storage that is being deleted; volumes hold
// its teardown up all the same.
func (r *Reconciler) markUse(ctx context.Context, s *scope) error {
	marked := controllerutil.ContainsFinalizer(s.storage, v1alpha1.FinalizerInUse)
	if marked == s.used || s.used && s.deleting() {
		return nil
	}
	if !s.used {
		if names, err := r.needed(ctx, s); err != nil || len(names) > 0 {
			s.within(time.Second)
			return err
		}
		return kube.RemoveFinalizer(ctx, r.Client, s.storage, v1alpha1.FinalizerInUse)
	}
	_, err := kube.AddFinalizer(ctx, r.Client, s.storage, v1alpha1.FinalizerInUse)
	return err
}

// needed names the volumes and attachments of the storage that the API server itself knows. The cache may be behind, and what is given free
// is never taken back.
func (r *Reconciler) needed(ctx context.Context, s *scope) ([]string, error) {
	live, err := s.volumes(ctx, r.Live)
	if err != nil {
		return nil, err
	}
	names := live.attached
	for _, at := range live.Volumes {
		for _, v := range at {
			names = append(names, v.String())
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// removeClass deletes the StorageClass first, so that nobody makes another volume. Nothing is torn down before that.
func (r *Reconciler) removeClass(ctx context.Context, s *scope) error {
	have := s.haveClass
	// A class of somebody else does not hold the deletion up.
	s.class.Conflict = ""
	if have == nil {
		return nil
	}
	if have.DeletionTimestamp.IsZero() {
		if err := kube.Delete(ctx, r.Client, have); err != nil {
			s.blocked = "Nothing is torn down before the StorageClass is deleted: " + err.Error()
			return err
		}
	}
	s.class.Exists = len(have.Finalizers) > 0
	if s.class.Exists {
		s.blocked = fmt.Sprintf("The StorageClass %s is being deleted, which its finalizers hold up.", have.Name)
	}
	return nil
}

// checkVolumes holds the teardown up while any volume of the storage exists, in the API or on a disk.
func (r *Reconciler) checkVolumes(_ context.Context, s *scope) error {
	names := slices.Concat(s.attached, s.whole.Holding)
	for _, v := range s.world.Volumes[""] {
		names = append(names, v.String())
	}
	for _, h := range s.hosts {
		names = append(names, h.Holding...)
	}
	if len(names) > 0 {
		slices.Sort(names)
		s.blocked = fmt.Sprintf("Volumes exist, nothing is torn down until they are deleted: %s", backend.Shorten(slices.Compact(names), 10))
	}
	return nil
}

// awaitDriver holds the teardown of the last storage of a driver up until the driver is removed, which happens once no volume needs it.
func (r *Reconciler) awaitDriver(_ context.Context, s *scope) error {
	if s.blocked != "" || !s.driver.Exists {
		return nil
	}
	for _, o := range s.world.Others {
		if p, ok := r.Profiles(o); ok && p.Driver.Name == s.profile.Driver.Name {
			return nil
		}
	}
	s.blocked = "The CSI driver is being removed, as this is the last storage that uses it."
	if s.driver.Progress != "" {
		s.blocked = s.driver.Progress
	}
	return nil
}

// finish gives the storage free once every member is gone. The API server itself is asked: a Member or a volume that the cache does not
// know yet would be left without an owner.
func (r *Reconciler) finish(ctx context.Context, s *scope) error {
	if s.blocked != "" {
		return nil
	}
	for _, h := range s.hosts {
		if h.Object != nil && !h.Removed || h.Object == nil && s.holds(h.Node) {
			return nil
		}
	}
	if len(s.whole.Steps) > 0 || s.whole.Silent {
		return nil
	}
	left, err := r.left(ctx, s)
	if err != nil {
		return err
	}
	if left != "" {
		s.blocked = left
		s.within(time.Second)
		return nil
	}
	if err := kube.RemoveFinalizer(ctx, r.Client, s.storage, v1alpha1.FinalizerTeardown); err != nil {
		return err
	}
	s.gone = true
	r.tell(s)
	r.forget(s.owner.Kind, s.owner.Name)
	return nil
}

// left says which volumes and Members of the storage the API server itself knows; empty when there are none.
func (r *Reconciler) left(ctx context.Context, s *scope) (string, error) {
	names, err := r.needed(ctx, s)
	if err != nil {
		return "", err
	}
	if len(names) > 0 {
		return "Volumes exist, nothing is torn down until they are deleted: " + backend.Shorten(names, 10), nil
	}
	var list v1alpha1.MemberList
	if err := r.Live.List(ctx, &list); err != nil {
		return "", fmt.Errorf("list members: %w", err)
	}
	for i := range list.Items {
		if s.owner.Owns(&list.Items[i]) {
			names = append(names, list.Items[i].Name)
		}
	}
	if len(names) > 0 {
		return "Members exist: " + backend.Shorten(names, 10), nil
	}
	return "", nil
}
