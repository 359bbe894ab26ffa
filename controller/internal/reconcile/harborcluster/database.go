package harborcluster

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	want := harbor.Postgresql(c, schema)
	lenient, err := r.lenient(ctx, s, want)
	if err != nil {
		return harbor.State{}, err
	}
	got, err := r.ensure(ctx, s, want, s.act())
	if err != nil || got.object == nil {
		return got.obstacle, err
	}
	master, err := r.master(ctx, s)
	if err != nil {
		return harbor.State{}, err
	}
	state := harbor.PostgresqlState(got.object, master, got.created, c.Spec.StrictReadiness)
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
			state.Message += lenient
			return state, nil
		}
	}
	s.again[harbor.Database] = true
	return harbor.Pending(v1alpha1.ReasonHarborStarting,
		"PostgreSQL runs; the Secret with the password of Harbor's user, "+harbor.DatabaseCredentials(c)[0]+", does not exist yet."), nil
}

// lenient lets a database that is to refuse connections without TLS take them until Harbor, which connects so, is made anew. It returns a sentence that says
// so, and none if it is not so.
func (r *Reconciler) lenient(ctx context.Context, s *scope, want *unstructured.Unstructured) (string, error) {
	if !harbor.Refuses(want) {
		return "", nil
	}
	user, err := r.mine(ctx, s, harbor.Users(s.cluster)[0])
	if err != nil {
		return "", err
	}
	have, err := r.mine(ctx, s, want)
	if err != nil || harbor.MayRefuse(user, have) {
		return "", err
	}
	harbor.TakeBoth(want)
	return " It takes connections without TLS until Harbor runs with TLS.", nil
}

// master looks for the master of PostgreSQL.
func (r *Reconciler) master(ctx context.Context, s *scope) (harbor.Master, error) {
	l := &unstructured.UnstructuredList{}
	l.SetGroupVersionKind(harbor.EndpointSliceKind)
	service := harbor.MasterService(s.cluster)
	err := r.Live.List(ctx, l, client.InNamespace(s.cluster.Namespace), client.MatchingLabels{harbor.LabelService: service})
	if apierrors.IsForbidden(err) {
		return harbor.Master{Hidden: true}, nil
	}
	if err != nil {
		return harbor.Master{}, fmt.Errorf("list endpointslices of service %s: %w", service, err)
	}
	return harbor.MasterOf(l.Items), nil
}
