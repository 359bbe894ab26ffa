package iscsi

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/iscsi"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/controller/internal/san"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedlun"
)

// createGroup makes the group. That it is begun is on record first: what a call that is cut off leaves on the LUN is ours then.
func (b *Backend) createGroup(ctx context.Context, s iscsi.Step) error {
	name := sharedlun.GroupName(s.Ref.OwnerUID)
	err := b.member(ctx, s.Member, s, func(m *v1alpha1.Member) {
		if m.Spec.Group == nil {
			m.Spec.Group = &v1alpha1.MemberGroup{Name: name}
		}
	})
	if err != nil {
		return err
	}
	_, err = b.Groups.MakeGroup(ctx, s.Ref, name, s.Wipe)
	return err
}

// removeGroup removes the group of an Iscsi that is being deleted, and records that it is gone: nobody can read that any more once the last node is
// logged out.
func (b *Backend) removeGroup(ctx context.Context, s iscsi.Step) error {
	i, err := b.iscsi(ctx, s)
	if err != nil {
		return err
	}
	if i.DeletionTimestamp.IsZero() {
		return passing("iscsi %s is not being deleted", i.Name)
	}
	if err := b.Groups.RemoveGroup(ctx, s.Ref); err != nil {
		return err
	}
	if err := b.recordRemoval(ctx, s); err != nil {
		return err
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: san.LeasePrefix + s.Ref.OwnerUID}}
	if err := b.Client.Delete(ctx, lease); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete lease %s/%s: %w", lease.Namespace, lease.Name, err)
	}
	return nil
}

// recordRemoval records that the group is gone. The turn in which it went takes long enough for somebody to write to the Iscsi, as its status: that is no reason to take another turn.
func (b *Backend) recordRemoval(ctx context.Context, s iscsi.Step) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hearPatience)
	defer cancel()
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		i, err := b.iscsi(ctx, s)
		if err != nil {
			return err
		}
		_, err = kube.Patch(ctx, b.Client, i, func(i *v1alpha1.Iscsi) {
			if i.Annotations == nil {
				i.Annotations = map[string]string{}
			}
			i.Annotations[v1alpha1.AnnotationGroupRemoved] = s.Ref.UUID
		})
		return err
	})
}
