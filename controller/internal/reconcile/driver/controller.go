// Package driver keeps what a CSI driver needs in the cluster, for as long as a Cluster uses it: the CSIDriver object, the
// Deployment with the CSI controller and its sidecars, and the classes of snapshots.
package driver

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// +kubebuilder:rbac:groups=apps,namespace=quarry-system,resources=deployments,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=storage.k8s.io,resources=csidrivers,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=snapshot.storage.k8s.io,resources=volumesnapshotclasses,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=snapshot.storage.k8s.io,resources=volumesnapshotcontents,verbs=get;list;watch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch

// fieldOwner is the one field owner of everything the controller applies.
const fieldOwner = client.FieldOwner("quarry-controller")

// lastLook is how often it is looked whether a driver that nobody uses for new volumes is still needed.
const lastLook = 10 * time.Second

// deployments are the names of the Deployments, by driver.
var deployments = map[string]string{v1alpha1.DriverLVM: "quarry-csi-lvm"}

// Reconciler keeps the drivers. Its requests are the names of drivers.
type Reconciler struct {
	Client client.Client
	// Namespace of the Deployments.
	Namespace string
	Images    Images
	// Verbosity of the log of all containers.
	Verbosity int
}

// Reconcile deploys or removes one driver.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if deployments[req.Name] == "" {
		return ctrl.Result{}, nil
	}
	var list v1alpha1.ClusterList
	if err := r.Client.List(ctx, &list); err != nil {
		return ctrl.Result{}, fmt.Errorf("list clusters: %w", err)
	}
	stay, leave := users(list.Items)
	needed := len(stay) > 0
	if !needed && len(leave) > 0 {
		var err error
		if needed, err = r.serves(ctx, req.Name); err != nil {
			return ctrl.Result{}, err
		}
	}
	if !needed {
		return ctrl.Result{}, errors.Join(r.snapshotClasses(ctx, req.Name, nil), r.remove(ctx, req.Name))
	}
	result := ctrl.Result{}
	if len(stay) == 0 {
		// Snapshots that hold the driver are not watched, because their API may be missing.
		result.RequeueAfter = lastLook
	}
	return result, errors.Join(r.deploy(ctx, req.Name), r.snapshotClasses(ctx, req.Name, stay))
}

// users returns the Clusters with storageType lvm that stay, and those that are being deleted.
func users(clusters []v1alpha1.Cluster) (stay, leave []v1alpha1.Cluster) {
	for _, c := range clusters {
		switch {
		case c.Spec.StorageType != v1alpha1.StorageTypeLVM:
		case c.DeletionTimestamp.IsZero():
			stay = append(stay, c)
		default:
			leave = append(leave, c)
		}
	}
	return stay, leave
}

// serves says whether a volume or snapshot exists that only the driver can delete.
func (r *Reconciler) serves(ctx context.Context, driver string) (bool, error) {
	var volumes corev1.PersistentVolumeList
	if err := r.Client.List(ctx, &volumes, &client.ListOptions{UnsafeDisableDeepCopy: new(true)}); err != nil {
		return false, fmt.Errorf("list persistentvolumes: %w", err)
	}
	for _, v := range volumes.Items {
		if v.Spec.CSI != nil && v.Spec.CSI.Driver == driver {
			return true, nil
		}
	}
	return r.snapshots(ctx, driver)
}

func (r *Reconciler) deploy(ctx context.Context, driver string) error {
	for _, o := range []applied{csiDriver(driver), r.deployment(driver)} {
		if err := r.Client.Apply(ctx, o.config, fieldOwner, client.ForceOwnership); err != nil {
			return fmt.Errorf("apply %s: %w", o.name, err)
		}
	}
	return nil
}

// remove deletes the Deployment first, so that nothing answers for a driver that is not declared.
func (r *Reconciler) remove(ctx context.Context, driver string) error {
	d := &appsv1.Deployment{}
	d.Namespace, d.Name = r.Namespace, deployments[driver]
	c := &storagev1.CSIDriver{}
	c.Name = driver
	for _, o := range []client.Object{d, c} {
		err := r.Client.Get(ctx, client.ObjectKeyFromObject(o), o)
		if apierrors.IsNotFound(err) || err == nil && (!o.GetDeletionTimestamp().IsZero() || o.GetLabels()[v1alpha1.LabelDriver] != driver) {
			continue
		}
		if err == nil {
			err = r.Client.Delete(ctx, o, client.PropagationPolicy("Background"))
		}
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete %s: %w", o.GetName(), err)
		}
	}
	return nil
}

// State returns how a driver is, as its Deployment says.
func (r *Reconciler) State(ctx context.Context, driver string) (backend.DriverState, error) {
	d := &appsv1.Deployment{}
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: r.Namespace, Name: deployments[driver]}, d)
	if apierrors.IsNotFound(err) {
		return backend.DriverState{}, nil
	}
	if err != nil {
		return backend.DriverState{}, fmt.Errorf("get deployment %s: %w", deployments[driver], err)
	}
	return stateOf(d), nil
}

// stateOf reads a Deployment's status. While a new version is rolled out the old one serves.
func stateOf(d *appsv1.Deployment) backend.DriverState {
	s := backend.DriverState{Exists: true, Ready: d.Status.AvailableReplicas > 0 && d.DeletionTimestamp.IsZero()}
	where := d.Namespace + "/" + d.Name
	if !s.Ready {
		s.Progress = fmt.Sprintf("The CSI driver's Deployment %s is not available yet.", where)
	}
	for _, c := range d.Status.Conditions {
		stuck := c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse ||
			c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue
		if stuck && !s.Ready {
			s.Failed = fmt.Sprintf("The CSI driver's Deployment %s does not get ready: %s", where, c.Message)
		}
	}
	return s
}
