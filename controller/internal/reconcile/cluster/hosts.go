package cluster

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/health"
	"quarry.storage/quarry/controller/internal/decide/host"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// labelHosts puts the label of the storage type on every host that may be used.
func (r *Reconciler) labelHosts(ctx context.Context, s *scope) error {
	var errs []error
	for i := range s.hosts {
		h := &s.hosts[i]
		if h.Invalid != nil || h.Member.Flags.ShouldDestroy {
			continue
		}
		errs = append(errs, r.setLabel(ctx, s.world.nodes[h.Name], string(s.cluster.Spec.StorageType)))
	}
	return errors.Join(errs...)
}

// unlabelHosts takes the label off the hosts that were torn down, unless another Cluster of the type uses them.
func (r *Reconciler) unlabelHosts(ctx context.Context, s *scope) error {
	var errs []error
	for i := range s.hosts {
		h := &s.hosts[i]
		if !h.Removed || s.wanted(h.Name) || host.Labelled(h.Name, s.cluster.Spec.StorageType, s.world.claims) {
			continue
		}
		if err := r.removeLabel(ctx, s, h); err != nil {
			// The member stays in the status until nothing is left of it.
			h.Removed = false
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (r *Reconciler) removeLabel(ctx context.Context, s *scope, h *health.Host) error {
	node := s.world.nodes[h.Name]
	if node == nil || node.Labels[v1alpha1.LabelStorageType] != string(s.cluster.Spec.StorageType) {
		return nil
	}
	return r.setLabel(ctx, node, "")
}

// setLabel writes the label, or removes it when the value is empty. Other labels are not touched.
func (r *Reconciler) setLabel(ctx context.Context, node *metav1.PartialObjectMetadata, value string) error {
	if node.Labels[v1alpha1.LabelStorageType] == value {
		return nil
	}
	before := node.DeepCopy()
	if value == "" {
		delete(node.Labels, v1alpha1.LabelStorageType)
	} else {
		metav1.SetMetaDataLabel(&node.ObjectMeta, v1alpha1.LabelStorageType, value)
	}
	if err := r.Client.Patch(ctx, node, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("label node %s: %w", node.Name, err)
	}
	return nil
}
