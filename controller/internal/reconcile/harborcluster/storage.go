package harborcluster

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"quarry.storage/quarry/controller/internal/decide/harbor"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// storage looks after MinIO, and once it runs, after the way to it and Harbor's bucket.
func (r *Reconciler) storage(ctx context.Context, s *scope) (harbor.State, error) {
	c := s.cluster
	if c.Spec.Storage.Spec.MinIO == nil {
		to, err := harbor.StorageConnection(c, "")
		s.to.Storage = to
		return harbor.External(c.Spec.Storage.Kind), err
	}
	schema, missing, err := r.installed(ctx, harbor.TenantKind)
	if err != nil || missing.Status != "" {
		return missing, err
	}
	credentials, obstacle, err := r.credentials(ctx, s)
	if err != nil || obstacle.Status != "" {
		return obstacle, err
	}
	if f := harbor.CheckCredentials(c, credentials); f != nil {
		return harbor.Failed(f.Reason, f.Message), nil
	}
	if s.to.Storage, err = harbor.StorageConnection(c, credentials[harbor.KeyAccess]); err != nil {
		return harbor.State{}, err
	}
	return r.tenant(ctx, s, schema, credentials)
}

// tenant looks after the Tenant with what it reads, and once it is ready, after what stands on it.
func (r *Reconciler) tenant(ctx context.Context, s *scope, schema *harbor.Schema, credentials map[string]string) (harbor.State, error) {
	c := s.cluster
	if secret, wanted := harbor.Configuration(c, schema, credentials); wanted {
		if got, err := r.ensure(ctx, s, secret, s.act()); err != nil || got.object == nil {
			return got.obstacle, err
		}
	}
	want, err := harbor.Tenant(c, schema)
	if err != nil {
		return harbor.State{}, err
	}
	got, err := r.ensure(ctx, s, want, s.act())
	if err != nil || got.object == nil {
		return got.obstacle, err
	}
	if state := harbor.TenantState(got.object); !state.Ready() {
		return state, nil
	}
	secret := harbor.Secret(c, harbor.StorageSecret(c), map[string]string{harbor.KeyS3: credentials[harbor.KeySecret]})
	if got, err := r.ensure(ctx, s, secret, s.act()); err != nil || got.object == nil {
		return got.obstacle, err
	}
	if obstacle, err := r.ingress(ctx, s); err != nil || obstacle.Status != "" {
		return obstacle, err
	}
	return r.bucket(ctx, s, got.object)
}

// credentials returns those of MinIO: the user's, or our own.
func (r *Reconciler) credentials(ctx context.Context, s *scope) (map[string]string, harbor.State, error) {
	name, given := harbor.StorageCredentials(s.cluster)
	if given {
		data, err := r.secret(ctx, s, name)
		return data, harbor.State{}, err
	}
	return r.generated(ctx, s, name, map[string]string{harbor.KeyAccess: harbor.DefaultAccessKey, harbor.KeySecret: r.Password()})
}

// ingress looks after the way that clients are redirected on.
func (r *Reconciler) ingress(ctx context.Context, s *scope) (harbor.State, error) {
	o, wanted := harbor.Ingress(s.cluster)
	if wanted {
		got, err := r.ensure(ctx, s, o, s.act())
		return got.obstacle, err
	}
	if s.act() {
		return harbor.State{}, r.remove(ctx, s, o)
	}
	return harbor.State{}, nil
}

// bucket looks after the Job that makes Harbor's bucket in a Tenant. A Job cannot be changed: one that is outdated is made again.
func (r *Reconciler) bucket(ctx context.Context, s *scope, tenant *unstructured.Unstructured) (harbor.State, error) {
	want := harbor.BucketJob(s.cluster)
	have, err := r.look(ctx, s, want)
	if err != nil || have.obstacle.Status != "" {
		return have.obstacle, err
	}
	if have.object == nil {
		made, err := r.ensure(ctx, s, want, s.act())
		if err != nil || made.object == nil {
			return made.obstacle, err
		}
		return harbor.BucketState(made.object, time.Time{}), nil
	}
	now := time.Now()
	outdated, when := harbor.Outdated(have.object, want, tenant, now)
	if outdated && s.act() {
		return harbor.Pending(v1alpha1.ReasonHarborChildDeleting, describe(want)+" is made again."), r.remove(ctx, s, want)
	}
	if when.After(now) {
		s.after[harbor.Storage] = when.Sub(now)
	}
	return harbor.BucketState(have.object, when), nil
}
