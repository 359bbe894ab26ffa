package setup

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"quarry.storage/quarry/controller/internal/decide/backend"
	decidepin "quarry.storage/quarry/controller/internal/decide/pin"
	"quarry.storage/quarry/controller/internal/reconcile/driver"
	"quarry.storage/quarry/controller/internal/reconcile/pin"
	"quarry.storage/quarry/controller/internal/setup/rights"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// pins adds the reconciler that brings copies to the node of their source.
func pins(ctx context.Context, mgr manager.Manager, table []driver.Entry) error {
	role := rights.Role{Name: "quarry-pin", Controller: controllerPin, Reads: []rights.Resource{{Name: "persistentvolumeclaims"}}}
	if err := rights.Check(ctx, mgr.GetClient(), role, rights.Patience); err != nil {
		return fmt.Errorf("add reconciler of copies: %w", err)
	}
	drivers := make([]backend.Driver, 0, len(table))
	for _, e := range table {
		drivers = append(drivers, e.Profile.Driver)
	}
	r := &pin.Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Drivers: drivers}
	if err := r.SetupWithManager(ctx, mgr); err != nil {
		return fmt.Errorf("add reconciler of copies: %w", err)
	}
	return nil
}

// stripClaim keeps what a claim begins as a copy of, where it is to be, and which volume it has.
func stripClaim(o any) (any, error) {
	c, ok := o.(*corev1.PersistentVolumeClaim)
	if !ok {
		return o, nil
	}
	out := &corev1.PersistentVolumeClaim{TypeMeta: c.TypeMeta, ObjectMeta: stripMeta(c.ObjectMeta)}
	out.Labels, out.OwnerReferences = nil, nil
	if value, ok := c.Labels[v1alpha1.LabelReserved]; ok {
		out.Labels = map[string]string{v1alpha1.LabelReserved: value}
	}
	for _, name := range decidepin.Kept {
		if value, ok := c.Annotations[name]; ok {
			if out.Annotations == nil {
				out.Annotations = map[string]string{}
			}
			out.Annotations[name] = value
		}
	}
	out.Spec.StorageClassName, out.Spec.VolumeName = c.Spec.StorageClassName, c.Spec.VolumeName
	out.Spec.DataSource, out.Spec.DataSourceRef = c.Spec.DataSource, c.Spec.DataSourceRef
	out.Status.Phase = c.Status.Phase
	return out, nil
}
