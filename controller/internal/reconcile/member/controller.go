// Package member tells about Members whose storage does not exist, as after a restore from a backup: the storage has another UID then.
// Nobody takes a step for them, and nothing is deleted.
package member

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// +kubebuilder:rbac:groups=quarry.storage,resources=clusters;nfs;members,verbs=get;list;watch
// +kubebuilder:rbac:groups=quarry.storage,resources=members/status,verbs=patch

// Reconciler writes the status of Members without an owner. The engine of the owner's kind writes that of all others.
type Reconciler struct {
	// Client reads from the cache and writes; Live reads from the API server.
	Client client.Client
	Live   client.Reader
}

// Reconcile looks whether the owner of a Member exists.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	m := &v1alpha1.Member{}
	if err := r.Client.Get(ctx, req.NamespacedName, m); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	owned, _, err := ownerOf(ctx, r.Client, m)
	if owned || err != nil {
		return ctrl.Result{}, err
	}
	// The cache may not know a new owner yet, so the API server itself has to say that there is none.
	owned, namesake, err := ownerOf(ctx, r.Live, m)
	if owned || err != nil {
		return ctrl.Result{}, err
	}
	return kube.Retry(ctx, ctrl.Result{}, r.tell(ctx, m, namesake))
}

// ownerOf reports whether the owner of a Member exists; if it does not, namesake is the storage of its kind and name, which is nil when
// there is none.
func ownerOf(ctx context.Context, c client.Reader, m *v1alpha1.Member) (owned bool, namesake v1alpha1.Storage, err error) {
	all, err := kube.Storages(ctx, c)
	if err != nil {
		return false, nil, err
	}
	for _, s := range all {
		if backend.OwnerOf(s).Owns(m) {
			return true, nil, nil
		}
		if s.StorageKind() == m.Spec.Of.Kind && s.GetName() == m.Spec.Of.Name {
			namesake = s
		}
	}
	return false, namesake, nil
}

// tell writes into the status that the owner does not exist. What was observed before stays as it was.
func (r *Reconciler) tell(ctx context.Context, m *v1alpha1.Member, namesake v1alpha1.Storage) error {
	after := m.DeepCopy()
	after.Status.ObservedGeneration = m.Generation
	after.Status.Message = missing(m, namesake)
	meta.SetStatusCondition(&after.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonOwnerMissing, Message: after.Status.Message,
		ObservedGeneration: m.Generation,
	})
	_, err := kube.WriteStatus(ctx, r.Client, m, after)
	return err
}

func missing(m *v1alpha1.Member, namesake v1alpha1.Storage) string {
	of := m.Spec.Of
	text := fmt.Sprintf("belongs to a %s with UID %s, which does not exist any more", of.Kind, of.UID)
	if namesake != nil {
		text += fmt.Sprintf("; %s %s has UID %s", of.Kind, of.Name, namesake.GetUID())
	}
	return text + ". Nothing is done for it on its node, and nothing is deleted"
}
