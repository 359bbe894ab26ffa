package harborcluster

import (
	"context"

	"quarry.storage/quarry/controller/internal/decide/harbor"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// database looks after PostgreSQL. Once it runs, the password that its operator made is handed on to Harbor, again in every pass, so that
// a new one is followed.
func (r *Reconciler) database(ctx context.Context, s *scope) (harbor.State, error) {
	c := s.cluster
	s.to.Database = harbor.DatabaseConnection(c)
	if c.Spec.Database.Spec.ZlandoPostgreSQL == nil {
		return harbor.External(c.Spec.Database.Kind), nil
	}
	schema, missing, err := r.installed(ctx, harbor.PostgresqlKind)
	if err != nil || missing.Status != "" {
		return missing, err
	}
	got, err := r.ensure(ctx, s, harbor.Postgresql(c, schema), s.act())
	if err != nil || got.object == nil {
		return got.obstacle, err
	}
	state := harbor.PostgresqlState(got.object, got.created, c.Spec.StrictReadiness)
	if !state.Ready() {
		return state, nil
	}
	for _, name := range harbor.DatabaseCredentials(c) {
		data, err := r.secret(ctx, s, name)
		if err != nil {
			return harbor.State{}, err
		}
		if password := data["password"]; password != "" {
			secret := harbor.Secret(c, harbor.DatabasePassword(c), map[string]string{harbor.KeyDatabasePassword: password})
			got, err := r.ensure(ctx, s, secret, s.act())
			if err != nil || got.object == nil {
				return got.obstacle, err
			}
			return state, nil
		}
	}
	s.again[harbor.Database] = true
	return harbor.Pending(v1alpha1.ReasonHarborStarting,
		"PostgreSQL runs; the Secret with the password of Harbor's user, "+harbor.DatabaseCredentials(c)[0]+", does not exist yet."), nil
}
