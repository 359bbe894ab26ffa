package harborcluster

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"quarry.storage/quarry/controller/internal/decide/harbor"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/test/operatortest"
)

// What the installed definitions would refuse is told before anything is made.
func TestRehearsal_refusedChildMakesNothing(t *testing.T) {
	for name, tt := range map[string]struct {
		edit      func(*v1alpha1.HarborCluster)
		condition string
		says      string
	}{
		"a PostgreSQL that is not offered": {
			func(c *v1alpha1.HarborCluster) { c.Spec.Database.Spec.ZlandoPostgreSQL.Version = "12" }, "DatabaseReady", `Unsupported value: "12"`,
		},
		"a resource that the operator does not know": {
			func(c *v1alpha1.HarborCluster) {
				c.Spec.Database.Spec.ZlandoPostgreSQL.Resources.Limits = corev1.ResourceList{"ephemeral-storage": resource.MustParse("1Gi")}
			}, "DatabaseReady", "ephemeral-storage: field not declared in schema",
		},
		"a field that Harbor does not know": {
			func(c *v1alpha1.HarborCluster) { c.Spec.Portal = raw(`{"nothing":1}`) }, "ServiceReady", "nothing: field not declared in schema",
		},
		"a field that Harbor needs": {
			func(c *v1alpha1.HarborCluster) { c.Spec.Trivy = raw(`{}`) }, "ServiceReady", "spec.trivy.storage: Required value",
		},
		"a field of the wrong type": {
			func(c *v1alpha1.HarborCluster) { c.Spec.JobService = raw(`{"replicas":"three"}`) }, "ServiceReady", "replicas",
		},
		"an Ingress that Kubernetes does not take": {
			func(c *v1alpha1.HarborCluster) {
				c.Spec.Storage.Spec.Redirect = &v1alpha1.HarborRedirect{Expose: &v1alpha1.HarborRedirectExpose{
					Ingress: &v1alpha1.HarborIngress{Host: "no host"},
				}}
			}, "StorageReady", "spec.rules[0].host",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t)
			s.add(tt.edit)
			result, err := s.try()
			must(t, err)
			s.expect(v1alpha1.HarborUnhealthy, tt.condition, "False", v1alpha1.ReasonHarborChildRefused, tt.says)
			same(t, nothing, s.children())
			if result.RequeueAfter != retry {
				t.Errorf("looked again after %s: nobody tells when a refusal ends", result.RequeueAfter)
			}
		})
	}
}

func TestRehearsal_refusalLaterChangesNothing(t *testing.T) {
	s := newSuite(t)
	s.healthy()
	s.edit(func(c *v1alpha1.HarborCluster) {
		c.Spec.Database.Spec.ZlandoPostgreSQL.Replicas = 5
		c.Spec.Core = *raw(`{"tokenIssuer":{"kind":"Issuer","name":"i"},"nothing":true}`)
	})
	before := s.written()
	s.reconcile()
	after := s.written()
	delete(before, "HarborCluster")
	delete(after, "HarborCluster")
	same(t, before, after)
	s.expect(v1alpha1.HarborUnhealthy, "ServiceReady", "False", v1alpha1.ReasonHarborChildRefused, "nothing: field not declared")
	s.expect(v1alpha1.HarborUnhealthy, "DatabaseReady", "True", "Running", "")
	s.edit(func(c *v1alpha1.HarborCluster) {
		c.Spec.Core = *raw(`{"tokenIssuer":{"kind":"Issuer","name":"i"},"replicas":2}`)
	})
	s.reconcile()
	if n, _, _ := nested(s.child(harbor.PostgresqlKind, s.database()), "spec", "numberOfInstances"); n != int64(5) {
		t.Errorf("after the correction the database has %v replicas", n)
	}
}

// rehearsals lets a function see what is rehearsed, and answer in place of the API server.
func rehearsals(answer func(kind string) error) interceptor.Funcs {
	return interceptor.Funcs{Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
		if rehearsal(opts) {
			if err := answer(o.(interface{ GetKind() string }).GetKind()); err != nil {
				return err
			}
		}
		return c.Apply(ctx, o, opts...)
	}}
}

// Children are rehearsed when they or the definitions have changed, and not in every pass.
func TestRehearsal_onlyWhenSomethingChanged(t *testing.T) {
	s := newSuite(t)
	var kinds []string
	s.intercept(rehearsals(func(kind string) error {
		kinds = append(kinds, kind)
		return nil
	}))
	s.healthy()
	want := []string{
		"Harbor", "Job", "RedisFailover", "Secret", "Secret", "Secret", "Secret", "Secret", "Tenant", "postgresql",
	}
	slices.Sort(kinds)
	same(t, want, kinds)
	kinds = nil
	s.reconcile()
	same(t, nothing, kinds)
	s.edit(func(c *v1alpha1.HarborCluster) { c.Spec.LogLevel = "debug" })
	s.reconcile()
	slices.Sort(kinds)
	// Those that cannot be changed are left out.
	same(t, []string{"Harbor", "RedisFailover", "Tenant", "postgresql"}, kinds)
	kinds = nil
	s.client.upgrade(operatortest.Offering(t, operatortest.Latest(t)[0], "15", "99"))
	s.reconcile()
	same(t, 4, len(kinds))
}

// An answer that says nothing about the child stops nothing: its part finds out.
func TestRehearsal_noVerdictStopsNothing(t *testing.T) {
	for name, err := range map[string]error{
		"a broken connection": errors.New("connection refused"),
		"a webhook that is down": apierrors.NewInternalError(
			errors.New(`failed calling webhook "harbor.example.com": no endpoints available for service "webhook-service"`)),
		"a webhook that takes no part": apierrors.NewBadRequest(`admission webhook "harbor.example.com" does not support dry run`),
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t)
			asked := 0
			s.intercept(rehearsals(func(string) error {
				asked++
				return err
			}))
			s.add()
			s.reconcile()
			s.expect(v1alpha1.HarborCreating, "DatabaseReady", "Unknown", "Starting", "")
			first := asked
			s.reconcile()
			if first == 0 || asked == first {
				t.Errorf("asked %d times, then %d times: without an answer it is asked again", first, asked-first)
			}
		})
	}
}

// A kind that is defined and not served keeps its part, and no other.
func TestRehearsal_aKindThatIsNotServed(t *testing.T) {
	s := newSuite(t)
	s.add(externalCache)
	s.secret("redis", "redis-password")
	var mu sync.Mutex
	watched := map[string]bool{}
	s.r.watch = func(k schema.GroupVersionKind) error {
		mu.Lock()
		defer mu.Unlock()
		watched[k.Kind] = true
		if k == harbor.TenantKind {
			return &meta.NoKindMatchError{GroupKind: k.GroupKind(), SearchedVersions: []string{k.Version}}
		}
		return nil
	}
	if _, err := s.try(); err == nil {
		t.Error("no error: nobody would look again")
	}
	s.expect(v1alpha1.HarborUnhealthy, "StorageReady", "False", "OperatorMissing", "The kind is not served")
	s.expect(v1alpha1.HarborUnhealthy, "DatabaseReady", "Unknown", "Starting", "")
	same(t, map[string]bool{"Harbor": true, "HarborConfiguration": true, "Tenant": true, "postgresql": true}, watched)
}

func TestRehearsal_aWebhooksVerdictCounts(t *testing.T) {
	s := newSuite(t)
	s.intercept(rehearsals(func(kind string) error {
		if kind != "Harbor" {
			return nil
		}
		return apierrors.NewForbidden(harbor.HarborKind.GroupVersion().WithResource("harbors").GroupResource(), "sample-harbor",
			errors.New("exceeded quota: few, requested: count/harbors.goharbor.io=1, used: 1, limited: 1"))
	}))
	s.add()
	s.reconcile()
	s.expect(v1alpha1.HarborUnhealthy, "ServiceReady", "False", v1alpha1.ReasonHarborChildRefused, "exceeded quota")
	same(t, nothing, s.children())
	s.plain()
	s.reconcile()
	s.expect(v1alpha1.HarborCreating, "DatabaseReady", "Unknown", "Starting", "")
}

func TestRehearsal_noPostgreSQLInCommon(t *testing.T) {
	s := newSuite(t)
	s.client.upgrade(operatortest.Offering(t, operatortest.Latest(t)[0], "16", "17"))
	s.add()
	s.reconcile()
	s.expect(v1alpha1.HarborUnhealthy, "DatabaseReady", "False", "InvalidSpec", "spec.database.spec.zlandoPostgreSql.version")
	same(t, nothing, s.children())
	s.edit(func(c *v1alpha1.HarborCluster) { c.Spec.Database.Spec.ZlandoPostgreSQL.Version = "16" })
	await(t, "16 is made", func() string {
		s.reconcile()
		if s.child(harbor.PostgresqlKind, s.database()) == nil {
			return "no database"
		}
		return ""
	})
}

// Operators are upgraded under a HarborCluster: the database stays what it is, and the credentials move to where they are read.
func TestReconcile_operatorsAreUpgraded(t *testing.T) {
	databases, stores := operatortest.Postgresqls(t), operatortest.Tenants(t)
	s := newSuite(t)
	s.client.install(operatortest.Offering(t, databases[0], "12", "13"), stores[1])
	s.healthy()
	version := func() any {
		v, _, _ := nested(s.child(harbor.PostgresqlKind, s.database()), "spec", "postgresql", "version")
		return v
	}
	credentials := func(field string) any {
		v, _, _ := nested(s.child(harbor.TenantKind, "minio-sample"), "spec", field, "name")
		return v
	}
	if version() != "13" || credentials("credsSecret") != "minio-sample-creds" || credentials("configuration") != nil {
		t.Fatalf("PostgreSQL %v, credentials in %v and %v", version(), credentials("credsSecret"), credentials("configuration"))
	}
	s.client.upgrade(databases[len(databases)-1])
	s.client.upgrade(stores[len(stores)-1])
	await(t, "the credentials move", func() string {
		// The API server takes a moment to learn the new schema.
		if _, err := s.try(); err != nil {
			return err.Error()
		}
		if credentials("configuration") != "minio-sample-configuration" || credentials("credsSecret") != nil {
			return "not yet"
		}
		return ""
	})
	s.reconcile()
	s.expect(v1alpha1.HarborHealthy, "DatabaseReady", "True", "Running", "")
	if version() != "13" {
		t.Errorf("an upgrade of the operator ordered an upgrade of the data to %v", version())
	}
}
