package harborcluster

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"quarry.storage/quarry/controller/internal/decide/harbor"
)

// cache looks after Redis.
func (r *Reconciler) cache(ctx context.Context, s *scope) (harbor.State, error) {
	c := s.cluster
	s.to.Cache = harbor.CacheConnection(c)
	if c.Spec.Cache.Spec.RedisFailover == nil {
		return harbor.External(c.Spec.Cache.Kind), nil
	}
	schema, missing, err := r.installed(ctx, harbor.RedisFailoverKind)
	if err != nil || missing.Status != "" {
		return missing, err
	}
	password := r.Password()
	fresh := map[string]string{harbor.KeyRedisPassword: password, harbor.KeyPassword: password}
	if _, obstacle, err := r.generated(ctx, s, harbor.CachePassword(c), fresh); err != nil || obstacle.Status != "" {
		return obstacle, err
	}
	got, err := r.ensure(ctx, s, harbor.RedisFailover(c, schema), s.act())
	if err != nil || got.object == nil {
		return got.obstacle, err
	}
	servers, err := r.workload(ctx, s, "StatefulSet", harbor.RedisServers(c))
	if err != nil {
		return harbor.State{}, err
	}
	sentinels, err := r.workload(ctx, s, "Deployment", harbor.RedisSentinels(c))
	if err != nil {
		return harbor.State{}, err
	}
	return harbor.RedisState(got.object, got.created, servers, sentinels), nil
}

// workload looks at what the operator of Redis made.
func (r *Reconciler) workload(ctx context.Context, s *scope, kind, name string) (harbor.Workload, error) {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("apps/v1")
	o.SetKind(kind)
	err := r.Live.Get(ctx, types.NamespacedName{Namespace: s.cluster.Namespace, Name: name}, o)
	switch {
	case apierrors.IsForbidden(err):
		return harbor.Workload{Hidden: true}, nil
	case apierrors.IsNotFound(err):
		return harbor.Workload{}, nil
	case err != nil:
		return harbor.Workload{}, fmt.Errorf("get %s %s: %w", kind, name, err)
	}
	return harbor.WorkloadOf(o), nil
}
