// Package pin brings claims whose volumes begin as copies to the node of their source, once for each claim and node. It writes two
// annotations and nothing else; deploy/base/claim-admission.yaml holds it to that, and docs/decisions/0018-pinned-copies.md says why.
//
// Its rights on claims and snapshots are in deploy/rbac/pin.yaml, not in markers. The policy allows only two annotations to be written with them.
package pin

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/pin"
	"quarry.storage/quarry/controller/internal/kube"
)

// +kubebuilder:rbac:groups="",resources=nodes;persistentvolumes,verbs=get;list;watch
// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,verbs=get;list;watch

// Reconciler brings claims to the nodes of their sources.
type Reconciler struct {
	// Client reads from the cache and writes; Live reads snapshots from the API server.
	Client client.Client
	Live   client.Reader
	// Drivers of all backends.
	Drivers []backend.Driver

	// refused are the moments at which claims were seen whose node the provisioner has just taken off.
	refused moments
	// chosen are the moments at which claims were first seen with a node and no volume, or the provisioner was reminded of them.
	chosen moments
	// watch begins to watch a kind that may not be installed; nil in a test that asks by itself.
	watch func(schema.GroupVersionKind) error
}

// Reconcile looks at one claim.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	result, err := r.reconcile(ctx, req.NamespacedName)
	return kube.Retry(ctx, result, err)
}

func (r *Reconciler) reconcile(ctx context.Context, name types.NamespacedName) (ctrl.Result, error) {
	c := &corev1.PersistentVolumeClaim{}
	if err := r.Client.Get(ctx, name, c); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	class, err := r.class(ctx, c)
	if err != nil {
		return ctrl.Result{}, err
	}
	if claim, ok := pin.Chosen(c, class, r.Drivers); ok {
		return r.remind(ctx, c, claim)
	}
	claim, ok := pin.For(c, class, r.Drivers)
	if !ok {
		return ctrl.Result{}, nil
	}
	origin, again, err := r.origin(ctx, c.Namespace, claim.Source)
	if err != nil {
		return ctrl.Result{}, err
	}
	result := ctrl.Result{RequeueAfter: again}
	node, ok := claim.Node(origin)
	if !ok {
		return result, nil
	}
	// The provisioner would take a node that does not exist off again, and there is no second time.
	if ok, err := r.exists(ctx, node); err != nil || !ok {
		return result, err
	}
	if wait := r.refused.wait(c.UID, pin.Refused(c), time.Now(), pause); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	logf.FromContext(ctx).V(1).Info("Bringing claim to the node of its source", "node", node, "source", origin.Handle)
	return ctrl.Result{}, r.annotate(ctx, c, claim.Pin(node))
}

// remind makes the provisioner look again at a claim that has had a node for a while, and no volume.
func (r *Reconciler) remind(ctx context.Context, c *corev1.PersistentVolumeClaim, claim pin.Claim) (ctrl.Result, error) {
	annotations, ok := claim.Remind()
	if !ok {
		return ctrl.Result{}, nil
	}
	if wait := r.chosen.wait(c.UID, true, time.Now(), patience); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	logf.FromContext(ctx).Info("Reminding the provisioner of a claim that has a node and no volume", "node", c.Annotations[pin.AnnotationSelectedNode])
	return ctrl.Result{RequeueAfter: patience}, r.annotate(ctx, c, annotations)
}

func (r *Reconciler) annotate(ctx context.Context, c *corev1.PersistentVolumeClaim, annotations map[string]string) error {
	_, err := kube.Patch(ctx, r.Client, c, func(c *corev1.PersistentVolumeClaim) {
		for key, value := range annotations {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, key, value)
		}
	})
	return client.IgnoreNotFound(err)
}

// class returns the StorageClass of a claim; nil when there is none.
func (r *Reconciler) class(ctx context.Context, c *corev1.PersistentVolumeClaim) (*storagev1.StorageClass, error) {
	name := pin.ClassOf(c)
	if name == "" {
		return nil, nil
	}
	class := &storagev1.StorageClass{}
	switch err := r.Client.Get(ctx, types.NamespacedName{Name: name}, class); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get storageclass %s: %w", name, err)
	}
	return class, nil
}

// exists reports whether a node does.
func (r *Reconciler) exists(ctx context.Context, node string) (bool, error) {
	o := nodeMetadata()
	switch err := r.Client.Get(ctx, types.NamespacedName{Name: node}, o); {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("get node %s: %w", node, err)
	}
	return o.DeletionTimestamp.IsZero(), nil
}

// origin finds out where the data of a source is. It returns when to look again if no event will say that it is known.
func (r *Reconciler) origin(ctx context.Context, namespace string, s pin.Source) (pin.Origin, time.Duration, error) {
	name := types.NamespacedName{Namespace: namespace, Name: s.Name}
	if s.Kind == pin.KindSnapshot {
		return r.ofSnapshot(ctx, name)
	}
	c, v := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}
	switch err := r.Client.Get(ctx, name, c); {
	case apierrors.IsNotFound(err), err == nil && c.Spec.VolumeName == "":
		return pin.Origin{}, 0, nil
	case err != nil:
		return pin.Origin{}, 0, fmt.Errorf("get claim %s: %w", name, err)
	}
	switch err := r.Client.Get(ctx, types.NamespacedName{Name: c.Spec.VolumeName}, v); {
	case apierrors.IsNotFound(err):
		return pin.Origin{}, 0, nil
	case err != nil:
		return pin.Origin{}, 0, fmt.Errorf("get persistentvolume %s: %w", c.Spec.VolumeName, err)
	}
	return pin.OfVolume(c, v), 0, nil
}
