package harborcluster

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"quarry.storage/quarry/controller/internal/decide/harbor"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// child is what there is of one child.
type child struct {
	// object as the API server has it; nil when there is none that can be used.
	object *unstructured.Unstructured
	// created is true when it was made just now.
	created bool
	// obstacle says why there is no object.
	obstacle harbor.State
}

// ensure brings a child to its desired values and returns it as it is then. Without touch it only looks.
func (r *Reconciler) ensure(ctx context.Context, s *scope, want *unstructured.Unstructured, touch bool) (child, error) {
	have, err := r.look(ctx, s, want)
	switch {
	case err != nil || have.obstacle.Status != "":
		return have, err
	case !touch && have.object == nil:
		return child{obstacle: harbor.Pending(v1alpha1.ReasonHarborWaiting, describe(want)+" does not exist yet.")}, nil
	case !touch:
		return have, nil
	}
	harbor.Keep(s.cluster, want, have.object)
	if err := kube.ApplyChild(ctx, r.Client, want, have.object); err != nil {
		return child{}, err
	}
	return child{object: want, created: have.object == nil}, nil
}

// look finds the child of the given kind and name; no object when there is none.
func (r *Reconciler) look(ctx context.Context, s *scope, want *unstructured.Unstructured) (child, error) {
	kind := want.GroupVersionKind()
	if _, missing, err := r.installed(ctx, kind); err != nil || missing.Status != "" {
		return child{obstacle: missing}, err
	}
	have := &unstructured.Unstructured{}
	have.SetGroupVersionKind(kind)
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(want), have)
	switch {
	case apierrors.IsNotFound(err):
		return child{}, nil
	case err != nil:
		return child{}, fmt.Errorf("get %s %s: %w", kind.Kind, want.GetName(), err)
	case !harbor.Ours(s.cluster, have):
		return child{obstacle: harbor.Failed(v1alpha1.ReasonNameConflict,
			describe(want)+" exists and was not made for this HarborCluster: it is left alone. Rename one of them.")}, nil
	case have.GetDeletionTimestamp() != nil:
		return child{obstacle: harbor.Pending(v1alpha1.ReasonHarborChildDeleting,
			describe(want)+" is being deleted; it is made again afterwards.")}, nil
	}
	return child{object: have}, nil
}

// remove deletes a child of ours, if there is one.
func (r *Reconciler) remove(ctx context.Context, s *scope, o *unstructured.Unstructured) error {
	have, err := r.look(ctx, s, o)
	if err != nil || have.object == nil {
		return err
	}
	if err := kube.Delete(ctx, r.Client, have.object, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		return err
	}
	logf.FromContext(ctx).Info("Removed child", "kind", o.GetKind(), "name", o.GetName())
	return nil
}

// describe names a child in a sentence.
func describe(o *unstructured.Unstructured) string { return "The " + o.GetKind() + " " + o.GetName() }
