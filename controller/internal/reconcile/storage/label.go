package storage

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// labelHosts puts the label of the storage type on every host that may be used. A node whose label cannot be written delays no other.
func (r *Reconciler) labelHosts(ctx context.Context, s *scope) error {
	var errs []error
	for i := range s.hosts {
		h := &s.hosts[i]
		if s.profile.Type == "" || h.Object == nil || h.Invalid != nil || h.Flags.ShouldDestroy() {
			continue
		}
		errs = append(errs, r.setLabel(ctx, s, h.Node, string(s.profile.Type)))
	}
	if err := errors.Join(errs...); err != nil {
		ctrlLog(ctx).Error(err, "Failed to label nodes")
		s.within(10 * time.Second)
	}
	return nil
}

// unlabel takes the label off a host that was torn down, unless another storage of the type uses it.
func (r *Reconciler) unlabel(ctx context.Context, s *scope, h *backend.HostHealth) error {
	node := s.world.Nodes[h.Node]
	if s.profile.Type == "" || s.wanted(h.Node) || backend.Labelled(node, s.profile.Type, s.claimants) {
		return nil
	}
	if node.Labels[v1alpha1.LabelStorageType] != string(s.profile.Type) {
		return nil
	}
	return r.setLabel(ctx, s, h.Node, "")
}

// setLabel writes the label, or removes it when the value is empty. Other labels are not touched.
func (r *Reconciler) setLabel(ctx context.Context, s *scope, name, value string) error {
	known := s.world.Nodes[name]
	if !known.Exists || known.Labels[v1alpha1.LabelStorageType] == value {
		return nil
	}
	node := &metav1.PartialObjectMetadata{}
	node.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	if err := r.Client.Get(ctx, types.NamespacedName{Name: name}, node); err != nil {
		return client.IgnoreNotFound(err)
	}
	before := node.DeepCopy()
	if value == "" {
		delete(node.Labels, v1alpha1.LabelStorageType)
	} else {
		metav1.SetMetaDataLabel(&node.ObjectMeta, v1alpha1.LabelStorageType, value)
	}
	if err := r.Client.Patch(ctx, node, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("label node %s: %w", name, err)
	}
	return nil
}
