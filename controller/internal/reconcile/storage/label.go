package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// labelHosts puts the label of the storage type on every host that may be used, and that of the storage itself on those that serve it. A node whose
// label cannot be written delays no other.
func (r *Reconciler) labelHosts(ctx context.Context, s *scope) error {
	var errs []error
	for i := range s.hosts {
		h := &s.hosts[i]
		if h.Object == nil || h.Invalid != nil {
			continue
		}
		if s.profile.Type != "" && !h.Flags.ShouldDestroy() {
			errs = append(errs, r.setLabel(ctx, s, h.Node, v1alpha1.LabelStorageType, string(s.profile.Type)))
		}
		errs = append(errs, r.labelOwn(ctx, s, h))
	}
	if err := errors.Join(errs...); err != nil {
		ctrlLog(ctx).Error(err, "Failed to label nodes")
		s.within(10 * time.Second)
	}
	return nil
}

// labelOwn keeps the label of the storage itself on a host from when it serves until it leaves: no other pod comes to a host that leaves. Where a host
// does not serve for a while, it stays as it is.
func (r *Reconciler) labelOwn(ctx context.Context, s *scope, h *backend.HostHealth) error {
	switch {
	case s.profile.Label == nil:
		return nil
	case h.Flags.ShouldDestroy(), h.Leaving.Active:
		return r.setLabel(ctx, s, h.Node, s.profile.Label(s.owner.Name), "")
	case h.Decided.Serves:
		return r.setLabel(ctx, s, h.Node, s.profile.Label(s.owner.Name), "true")
	}
	return nil
}

// unlabel takes the labels off a host that was torn down: that of the storage itself, and that of its type unless another storage of the type uses the host.
func (r *Reconciler) unlabel(ctx context.Context, s *scope, h *backend.HostHealth) error {
	node := s.world.Nodes[h.Node]
	if s.profile.Label != nil {
		if err := r.setLabel(ctx, s, h.Node, s.profile.Label(s.owner.Name), ""); err != nil {
			return err
		}
	}
	if s.profile.Type == "" || s.wanted(h.Node) || backend.Labelled(node, s.profile.Type, s.claimants) {
		return nil
	}
	if node.Labels[v1alpha1.LabelStorageType] != string(s.profile.Type) {
		return nil
	}
	return r.setLabel(ctx, s, h.Node, v1alpha1.LabelStorageType, "")
}

// setLabel writes a label, or removes it when the value is empty. Other labels are not touched.
func (r *Reconciler) setLabel(ctx context.Context, s *scope, name, label, value string) error {
	known := s.world.Nodes[name]
	if !known.Exists || known.Labels[label] == value {
		return nil
	}
	node := &metav1.PartialObjectMetadata{}
	node.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	if err := r.Client.Get(ctx, types.NamespacedName{Name: name}, node); err != nil {
		return client.IgnoreNotFound(err)
	}
	before := node.DeepCopy()
	if value == "" {
		delete(node.Labels, label)
	} else {
		metav1.SetMetaDataLabel(&node.ObjectMeta, label, value)
	}
	if err := r.Client.Patch(ctx, node, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("label node %s: %w", name, err)
	}
	return nil
}

// usedBefore reports whether a node has the label of the storage type although no Member explains it. An earlier version that knew no Members may have used
// the node, or one whose Member was lost.
func (s *scope) usedBefore(node string) bool {
	if s.profile.Type == "" || s.world.Nodes[node].Labels[v1alpha1.LabelStorageType] != string(s.profile.Type) {
		return false
	}
	return !slices.ContainsFunc(s.world.OtherMembers, func(m *v1alpha1.Member) bool {
		// A storage of another kind does not have the label on account of its Members.
		return string(m.Spec.Node) == node && m.Spec.Of.Kind == s.owner.Kind && m.Annotations[v1alpha1.AnnotationUnreported] == ""
	})
}
