package harborcluster

import (
	"context"

	"quarry.storage/quarry/controller/internal/decide/harbor"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// service looks after Harbor itself. It is written only while all of its services are ready, and looked at always.
func (r *Reconciler) service(ctx context.Context, s *scope) (harbor.State, error) {
	want, err := harbor.Harbor(s.cluster, s.to)
	if err != nil {
		return harbor.State{}, err
	}
	got, err := r.ensure(ctx, s, want, s.serve)
	switch {
	case err != nil:
		return harbor.State{}, err
	case got.object != nil:
		return harbor.ServiceState(got.object, s.cluster.Spec.StrictReadiness), nil
	case got.obstacle.Reason == v1alpha1.ReasonHarborWaiting:
		return harbor.Pending(v1alpha1.ReasonHarborWaiting, "Harbor is made once storage, database and cache are ready."), nil
	}
	return got.obstacle, nil
}
