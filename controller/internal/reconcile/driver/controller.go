// Package driver keeps what a CSI driver needs in the cluster, for as long as a storage uses it: the CSIDriver object, the Deployment with
// the CSI controller and its sidecars, and the classes of snapshots. It works from a table of backends and knows none of them by name.
package driver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// +kubebuilder:rbac:groups=apps,namespace=quarry-system,resources=deployments,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=storage.k8s.io,resources=csidrivers,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=snapshot.storage.k8s.io,resources=volumesnapshotclasses,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=snapshot.storage.k8s.io,resources=volumesnapshotcontents,verbs=get;list;watch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch

// lastLook is how often the reconciler looks whether a driver is still needed that no new volume can use.
const lastLook = 10 * time.Second

// Entry is one driver of the table.
type Entry struct {
	// Profile of the backend; its Driver is what is deployed.
	Profile backend.Profile
	// Snapshots reports whether a storage gets a VolumeSnapshotClass of its name; nil when none does.
	Snapshots func(v1alpha1.Storage) bool
}

// Reconciler keeps the drivers. Its requests are the names of drivers.
type Reconciler struct {
	Client client.Client
	// Namespace of the Deployments, and AgentNamespace that the drivers find the agents in.
	Namespace, AgentNamespace string

	Images Images
	// Verbosity of the log of all containers.
	Verbosity int
	// Entries of the table, one for each driver.
	Entries []Entry
	// Of returns the profile of the backend of a storage. It reports false for a storage whose backend does not exist yet.
	Of func(v1alpha1.Storage) (backend.Profile, bool)

	// withoutSnapshots is true once the log says that their API is not installed.
	withoutSnapshots atomic.Bool

	mu sync.Mutex
	// failed says by driver why it could not be written the last time.
	failed map[string]string
}

// entry returns the entry of the driver of a name.
func (r *Reconciler) entry(driver string) (Entry, bool) {
	for _, e := range r.Entries {
		if e.Profile.Driver.Name == driver {
			return e, true
		}
	}
	return Entry{}, false
}

// Reconcile deploys or removes one driver.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	e, ok := r.entry(req.Name)
	if !ok {
		return ctrl.Result{}, nil
	}
	result, err := r.reconcile(ctx, e)
	return kube.Retry(ctx, result, err)
}

func (r *Reconciler) reconcile(ctx context.Context, e Entry) (ctrl.Result, error) {
	all, err := kube.Storages(ctx, r.Client)
	if err != nil {
		return ctrl.Result{}, err
	}
	stay, leave := r.users(e, all)
	needed := len(stay) > 0
	if !needed && len(leave) > 0 {
		if needed, err = r.serves(ctx, e); err != nil {
			return ctrl.Result{}, err
		}
	}
	if !needed {
		r.remember(e.Profile.Driver.Name, nil)
		return ctrl.Result{}, errors.Join(r.snapshotClasses(ctx, e, nil), r.remove(ctx, e))
	}
	result := ctrl.Result{}
	if len(stay) == 0 {
		// Snapshots that hold the driver are not watched, because their API may be missing.
		result.RequeueAfter = lastLook
	}
	err = r.deploy(ctx, e)
	r.remember(e.Profile.Driver.Name, err)
	return result, errors.Join(err, r.snapshotClasses(ctx, e, stay))
}

// users returns the storages of the driver that stay, and those that are being deleted.
func (r *Reconciler) users(e Entry, all []v1alpha1.Storage) (stay, leave []v1alpha1.Storage) {
	for _, s := range all {
		switch p, ok := r.Of(s); {
		case !ok || p.Driver.Name != e.Profile.Driver.Name:
		case s.GetDeletionTimestamp().IsZero():
			stay = append(stay, s)
		default:
			leave = append(leave, s)
		}
	}
	return stay, leave
}

// serves reports whether a volume or snapshot exists that only the driver can delete.
func (r *Reconciler) serves(ctx context.Context, e Entry) (bool, error) {
	var volumes corev1.PersistentVolumeList
	if err := r.Client.List(ctx, &volumes, &client.ListOptions{UnsafeDisableDeepCopy: new(true)}); err != nil {
		return false, fmt.Errorf("list persistentvolumes: %w", err)
	}
	for _, v := range volumes.Items {
		if v.Spec.CSI != nil && v.Spec.CSI.Driver == e.Profile.Driver.Name {
			return true, nil
		}
	}
	if !e.Profile.Driver.Snapshots {
		return false, nil
	}
	return r.snapshots(ctx, e.Profile.Driver.Name)
}

// deploy applies the CSIDriver first: a volume is not staged before the kubelet knows how.
func (r *Reconciler) deploy(ctx context.Context, e Entry) error {
	d := e.Profile.Driver
	err := kube.Apply(ctx, r.Client, "csidriver "+d.Name, csiDriver(d))
	if apierrors.IsInvalid(err) {
		return fmt.Errorf("%w: it is made anew once no storage and no volume uses the driver", err)
	}
	if err != nil {
		return err
	}
	want := r.deployment(d)
	if err := r.keepTolerations(ctx, d, want); err != nil {
		return err
	}
	return kube.Apply(ctx, r.Client, "deployment "+d.Deployment, want)
}

// remove deletes the Deployment first, so that nothing serves a driver that is not declared.
func (r *Reconciler) remove(ctx context.Context, e Entry) error {
	for _, o := range []client.Object{r.emptyDeployment(e.Profile.Driver), emptyCSIDriver(e.Profile.Driver)} {
		err := r.Client.Get(ctx, client.ObjectKeyFromObject(o), o)
		switch {
		case client.IgnoreNotFound(err) != nil:
			return fmt.Errorf("get %T %s: %w", o, o.GetName(), err)
		case err != nil, !o.GetDeletionTimestamp().IsZero(), o.GetLabels()[v1alpha1.LabelDriver] != e.Profile.Driver.Name:
			continue
		}
		if err := kube.Delete(ctx, r.Client, o, client.PropagationPolicy("Background")); err != nil {
			return err
		}
	}
	return nil
}
