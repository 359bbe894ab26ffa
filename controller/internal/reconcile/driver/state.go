package driver

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/backend"
)

// State returns how the driver of a name is, as its Deployment says.
func (r *Reconciler) State(ctx context.Context, driver string) (backend.DriverState, error) {
	e, ok := r.entry(driver)
	if !ok {
		return backend.DriverState{}, fmt.Errorf("no backend has the CSI driver %q", driver)
	}
	d := r.emptyDeployment(e.Profile.Driver)
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(d), d)
	if client.IgnoreNotFound(err) != nil {
		return backend.DriverState{}, fmt.Errorf("get deployment %s: %w", d.Name, err)
	}
	var s backend.DriverState
	if err == nil {
		s = stateOf(d)
	}
	if why := r.failure(driver); why != "" && !s.Ready {
		s.Failed = why
	}
	return s, nil
}

// remember notes whether a driver could be written. A conflict passes by itself.
func (r *Reconciler) remember(driver string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == nil {
		r.failed = map[string]string{}
	}
	switch {
	case err == nil:
		delete(r.failed, driver)
	case !apierrors.IsConflict(err):
		r.failed[driver] = fmt.Sprintf("The CSI driver could not be deployed: %v", err)
	}
}

// failure says why a driver could not be written the last time; empty when it could.
func (r *Reconciler) failure(driver string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed[driver]
}

// stateOf reads the status of a Deployment. While a new version is rolled out the old one serves.
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
