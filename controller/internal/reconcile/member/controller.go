// Package member tells of Members whose storage does not exist, as after a restore: nobody else looks after them. It changes nothing but
// their status: nothing is deleted, and no finalizer is taken off. A Member whose storage exists is the engine's alone.
package member

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/notice"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// The kinds of storages are read with the rights of reconcile/storage.
// +kubebuilder:rbac:groups=quarry.storage,resources=members,verbs=get;list;watch
// +kubebuilder:rbac:groups=quarry.storage,resources=members/status,verbs=patch

// Reconciler looks for the storages of Members.
type Reconciler struct {
	// Client reads from the cache and writes; Live reads from the API server.
	Client client.Client
	Live   client.Reader
	// Events tells people what happened.
	Events events.EventRecorder
}

// Reconcile tells of one Member without a storage.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	m := &v1alpha1.Member{}
	if err := r.Client.Get(ctx, req.NamespacedName, m); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if _, missing, err := r.find(ctx, r.Client, m); err != nil || !missing {
		return ctrl.Result{}, err
	}
	// The cache may be behind: only what the API server itself does not know is missing.
	other, missing, err := r.find(ctx, r.Live, m)
	if err != nil || !missing {
		return ctrl.Result{}, err
	}
	return kube.Retry(ctx, ctrl.Result{}, r.tell(ctx, m, other))
}

// find looks for the storage of a Member. missing is true when it does not exist; other is then the UID of one of its name, or empty.
func (r *Reconciler) find(ctx context.Context, c client.Reader, m *v1alpha1.Member) (other types.UID, missing bool, err error) {
	kinds, err := kube.StorageKinds(r.Client.Scheme())
	if err != nil {
		return "", false, err
	}
	for _, kind := range kinds {
		s, ok := kind.(v1alpha1.Storage)
		if !ok || s.StorageKind() != m.Spec.Of.Kind {
			continue
		}
		err := c.Get(ctx, types.NamespacedName{Name: m.Spec.Of.Name}, s)
		switch {
		case apierrors.IsNotFound(err):
			return "", true, nil
		case err != nil:
			return "", false, fmt.Errorf("get %s %s: %w", m.Spec.Of.Kind, m.Spec.Of.Name, err)
		}
		return s.GetUID(), s.GetUID() != m.Spec.Of.UID, nil
	}
	// A kind of a later version: whether its objects exist is not known.
	return "", false, nil
}

// tell writes the status of a Member whose storage does not exist.
func (r *Reconciler) tell(ctx context.Context, m *v1alpha1.Member, other types.UID) error {
	after := m.DeepCopy()
	short := describe(m, other)
	message := short + " " + remedy(m)
	c := backend.Condition(v1alpha1.ConditionReady, "False", v1alpha1.ReasonOwnerMissing, message)
	c.ObservedGeneration = m.Generation
	known := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReady)
	news := known == nil || known.Reason != c.Reason
	meta.SetStatusCondition(&after.Status.Conditions, c)
	after.Status.Message, after.Status.ObservedGeneration = short, m.Generation
	wrote, err := kube.WriteStatus(ctx, r.Client, m, after)
	if err != nil || !wrote || !news {
		return err
	}
	kube.Emit(r.Events, m, notice.Note{Kind: corev1.EventTypeWarning, Reason: c.Reason, Action: "FindOwner", Message: message})
	return nil
}

// describe says what is wrong and what it means, in a line that fits a column.
func describe(m *v1alpha1.Member, other types.UID) string {
	of := m.Spec.Of
	text := fmt.Sprintf("%s %s with UID %s does not exist", of.Kind, of.Name, of.UID)
	if other != "" {
		text += fmt.Sprintf("; the one of this name has UID %s and does not use this Member", other)
	}
	return text + fmt.Sprintf(". Nothing is done for node %s, and nothing on it is changed or deleted.", m.Spec.Node)
}

// remedy says what to do.
func remedy(m *v1alpha1.Member) string {
	remove := fmt.Sprintf(`kubectl patch member.%s %s --type=merge -p '{"metadata":{"finalizers":null}}'`, v1alpha1.Group, m.Name)
	if m.DeletionTimestamp.IsZero() {
		remove = fmt.Sprintf("kubectl annotate --overwrite member.%s %s %s=%s && kubectl delete --wait=false member.%s %s && ",
			v1alpha1.Group, m.Name, v1alpha1.AnnotationRemove, m.UID, v1alpha1.Group, m.Name) + remove
	}
	return "To give the Member up, and leave what is on the node as it is: " + remove
}
