package harborcluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"quarry.storage/quarry/controller/internal/decide/harbor"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/test/operatortest"
)

// nothing is what is made when nothing is made.
var nothing []string

func same(t *testing.T, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func nested(o *unstructured.Unstructured, path ...string) (any, bool, error) {
	return unstructured.NestedFieldNoCopy(o.Object, path...)
}

func unstructuredSet(o *unstructured.Unstructured, value any, path ...string) error {
	return unstructured.SetNestedField(o.Object, value, path...)
}

// forbid answers as an API server does to somebody without the right to read some kinds.
func forbid(kinds ...string) interceptor.Funcs {
	return interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		kind := o.GetObjectKind().GroupVersionKind().Kind
		if gvk, err := c.GroupVersionKindFor(o); err == nil {
			kind = gvk.Kind
		}
		if slices.Contains(kinds, kind) {
			resource := strings.ToLower(kind) + "s"
			return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, key.Name,
				fmt.Errorf("User %q cannot get resource %q in API group %q in the namespace %q", "quarry", resource, "", key.Namespace))
		}
		return c.Get(ctx, key, o, opts...)
	}}
}

// rehearsal reports whether nothing is to be stored.
func rehearsal(opts []client.ApplyOption) bool {
	return len((&client.ApplyOptions{}).ApplyOptions(opts).DryRun) > 0
}

// applies reports the kind of everything that is applied, and fails for some.
func applies(fail func(kind string) error) interceptor.Funcs {
	return interceptor.Funcs{Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
		kind := ""
		if k, ok := o.(interface{ GetKind() string }); ok {
			kind = k.GetKind()
		}
		if err := fail(kind); err != nil {
			return err
		}
		return c.Apply(ctx, o, opts...)
	}}
}

func TestReconcile_driftIsRepaired(t *testing.T) {
	s := newSuite(t)
	s.healthy()
	kinds := map[string]schema.GroupVersionKind{
		s.database(): harbor.PostgresqlKind, "sample-redis": harbor.RedisFailoverKind, "minio-sample": harbor.TenantKind, "sample-harbor": harbor.HarborKind,
	}
	drifts := map[string]struct {
		value any
		path  []string
	}{
		s.database():    {int64(9), []string{"spec", "numberOfInstances"}},
		"sample-redis":  {int64(9), []string{"spec", "redis", "replicas"}},
		"minio-sample":  {"OrderedReady", []string{"spec", "podManagementPolicy"}},
		"sample-harbor": {"9.9.9", []string{"spec", "version"}},
	}
	want := map[string]map[string]any{}
	for name, kind := range kinds {
		o := s.child(kind, name)
		want[name] = o.DeepCopy().Object["spec"].(map[string]any)
		must(t, unstructuredSet(o, drifts[name].value, drifts[name].path...))
		// What others add stays, what is ours comes back: owner, label and annotation too.
		o.SetOwnerReferences(nil)
		o.SetAnnotations(map[string]string{"other": "kept"})
		must(t, s.client.Update(t.Context(), o))
	}
	s.reconcile()
	for name, kind := range kinds {
		o := s.child(kind, name)
		same(t, want[name], o.Object["spec"])
		holdsData := kind == harbor.PostgresqlKind || kind == harbor.TenantKind
		if owner := metav1.GetControllerOf(o); holdsData != (owner == nil) || owner != nil && owner.UID != s.get().UID {
			t.Errorf("%s has the owner %v", name, owner)
		}
		same(t, map[string]string{"other": "kept", v1alpha1.AnnotationGeneration: "1"}, o.GetAnnotations())
	}
	if lines := s.log.take(); !slices.Contains(lines, "Changed child kind=postgresql name="+s.database()) {
		t.Errorf("nothing is told of the repair: %v", lines)
	}
}

// TestReconcile_appliesOnlyChanges: a child that is as it was left is not written again, and one that anybody changed is.
func TestReconcile_appliesOnlyChanges(t *testing.T) {
	s := newSuite(t)
	s.healthy()
	s.reconcile()
	var mu sync.Mutex
	var applied []string
	s.intercept(applies(func(kind string) error {
		mu.Lock()
		defer mu.Unlock()
		applied = append(applied, kind)
		return nil
	}))
	s.reconcile()
	same(t, nothing, applied)
	db := s.child(harbor.PostgresqlKind, s.database())
	must(t, unstructuredSet(db, int64(9), "spec", "numberOfInstances"))
	must(t, s.client.Update(t.Context(), db))
	s.reconcile()
	same(t, []string{"postgresql"}, applied)
	if n, _, _ := nested(s.child(harbor.PostgresqlKind, s.database()), "spec", "numberOfInstances"); n == int64(9) {
		t.Error("the change is left")
	}
	// A definition that changed may keep what it dropped before.
	applied = nil
	s.client.upgrade(operatortest.Offering(t, operatortest.Latest(t)[0], "15", "99"))
	s.reconcile()
	for _, kind := range []string{"Harbor", "RedisFailover", "Tenant", "postgresql"} {
		if !slices.Contains(applied, kind) {
			t.Errorf("%s is not applied: %v", kind, applied)
		}
	}
	applied = nil
	s.reconcile()
	same(t, nothing, applied)
	// Who begins anew does not know what was applied.
	applied = nil
	s.r.applied.Clear()
	s.reconcile()
	if !slices.Contains(applied, "Tenant") || !slices.Contains(applied, "Secret") {
		t.Errorf("applied: %v", applied)
	}
}

func TestReconcile_newSpecReachesTheChildren(t *testing.T) {
	s := newSuite(t)
	s.healthy()
	s.edit(func(c *v1alpha1.HarborCluster) {
		c.Spec.Database.Spec.ZlandoPostgreSQL.Replicas = 5
		c.Spec.Version = "2.6.0"
		c.Spec.Storage.Spec.Redirect = &v1alpha1.HarborRedirect{Expose: &v1alpha1.HarborRedirectExpose{
			Ingress: &v1alpha1.HarborIngress{Host: "minio.example.com"},
		}}
	})
	s.reconcile()
	db, h := s.child(harbor.PostgresqlKind, s.database()), s.child(harbor.HarborKind, "sample-harbor")
	if n, _, _ := nested(db, "spec", "numberOfInstances"); n != int64(5) || db.GetAnnotations()[v1alpha1.AnnotationGeneration] != "2" {
		t.Errorf("the database has %v replicas, of generation %s", n, db.GetAnnotations()[v1alpha1.AnnotationGeneration])
	}
	if v, _, _ := nested(h, "spec", "version"); v != "2.6.0" {
		t.Errorf("Harbor has version %v", v)
	}
	if e, _, _ := nested(h, "spec", "imageChartStorage", "s3", "regionendpoint"); e != "http://minio.example.com" || s.child(harbor.IngressKind, "minio-sample") == nil {
		t.Errorf("clients are sent to %v", e)
	}
	// Its operator has not seen the change: what it said before is of no worth.
	s.expect(v1alpha1.HarborCreating, "ServiceReady", "Unknown", "Starting", "has not seen its last change")
	s.edit(func(c *v1alpha1.HarborCluster) { c.Spec.Storage.Spec.Redirect = nil })
	s.reconcile()
	if s.child(harbor.IngressKind, "minio-sample") != nil {
		t.Error("the Ingress stays, and clients are not redirected any more")
	}
}

func TestReconcile_allPartsToTheEnd(t *testing.T) {
	s := newSuite(t)
	broken := map[string]bool{"postgresql": true, "Tenant": true}
	s.intercept(applies(func(kind string) error {
		if broken[kind] {
			return errors.New("no luck with " + kind)
		}
		return nil
	}))
	s.add()
	_, err := s.try()
	if err == nil || !strings.Contains(err.Error(), "no luck with postgresql") || !strings.Contains(err.Error(), "no luck with Tenant") {
		t.Fatalf("not every failure is reported: %v", err)
	}
	s.expect(v1alpha1.HarborUnhealthy, "DatabaseReady", "False", "ApplyFailed", "no luck with postgresql")
	s.expect(v1alpha1.HarborUnhealthy, "StorageReady", "False", "ApplyFailed", "no luck with Tenant")
	s.expect(v1alpha1.HarborUnhealthy, "CacheReady", "Unknown", "Starting", "just made")
	s.expect(v1alpha1.HarborUnhealthy, "ServiceReady", "Unknown", "Waiting", "")
	clear(broken)
	s.reconcile()
	s.expect(v1alpha1.HarborCreating, "DatabaseReady", "Unknown", "Starting", "")
}

func TestReconcile_aFailureLeavesHarborAlone(t *testing.T) {
	s := newSuite(t)
	s.healthy()
	s.edit(func(c *v1alpha1.HarborCluster) { c.Spec.Version = "2.6.0" })
	s.intercept(applies(func(kind string) error {
		if kind == "postgresql" {
			return errors.New("no luck")
		}
		return nil
	}))
	if _, err := s.try(); err == nil {
		t.Fatal("no error")
	}
	if v, _, _ := nested(s.child(harbor.HarborKind, "sample-harbor"), "spec", "version"); v != "2.5.0" {
		t.Errorf("Harbor was changed to %v", v)
	}
	s.plain()
	s.intercept(applies(func(kind string) error {
		if kind == "Harbor" {
			return errors.New("refused")
		}
		return nil
	}))
	if _, err := s.try(); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Fatalf("got %v", err)
	}
	s.expect(v1alpha1.HarborUnhealthy, "ServiceReady", "False", "ApplyFailed", "refused")
}

func TestReconcile_statusConflictIsTriedAgain(t *testing.T) {
	s := newSuite(t)
	s.add()
	conflicts := 1
	s.intercept(interceptor.Funcs{SubResourcePatch: func(
		ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption,
	) error {
		if conflicts > 0 {
			conflicts--
			// Somebody changes the object between reading and writing.
			other := &v1alpha1.HarborCluster{}
			if err := c.Get(ctx, client.ObjectKeyFromObject(o), other); err != nil {
				return err
			}
			other.Labels = map[string]string{"touched": "yes"}
			if err := c.Update(ctx, other); err != nil {
				return err
			}
		}
		return c.SubResource(sub).Patch(ctx, o, p, opts...)
	}})
	result, err := s.try()
	must(t, err)
	if result.RequeueAfter == 0 || len(s.get().Status.Conditions) > 0 || len(s.told()) > 0 {
		t.Errorf("after a conflict: %+v, %+v", result, s.get().Status)
	}
	s.reconcile()
	s.expect(v1alpha1.HarborCreating, "DatabaseReady", "Unknown", "Starting", "")
}

// uninstall removes the definition of a kind, and everything of that kind with it.
func uninstall(s *suite, kind schema.GroupVersionKind) {
	s.t.Helper()
	for _, d := range operatortest.Latest(s.t) {
		if d.Kind == kind {
			operatortest.Remove(s.t, s.client.WithWatch, d)
			s.client.await(d.CRD.GetName(), "")
			return
		}
	}
	s.t.Fatalf("no definition of %s", kind.Kind)
}

func TestReconcile_missingOperatorIsPickedUp(t *testing.T) {
	s := newSuite(t)
	uninstall(s, harbor.TenantKind)
	s.add()
	// The parts ask side by side.
	var mu sync.Mutex
	var watched []string
	s.r.watch = func(k schema.GroupVersionKind) error {
		mu.Lock()
		defer mu.Unlock()
		watched = append(watched, k.Kind)
		return nil
	}
	s.reconcile()
	s.expect(v1alpha1.HarborUnhealthy, "StorageReady", "False", "OperatorMissing", "tenants.minio.min.io is not installed")
	s.expect(v1alpha1.HarborUnhealthy, "DatabaseReady", "Unknown", "Starting", "")
	if slices.Contains(s.children(), "Secret minio-sample-creds") || slices.Contains(watched, "Tenant") {
		t.Errorf("something was made or watched for a missing operator: %v, %v", s.children(), watched)
	}
	s.client.install(operatortest.Latest(t)...)
	await(t, "the tenant is made", func() string {
		if _, err := s.try(); err != nil {
			return err.Error()
		}
		return ""
	})
	s.expect(v1alpha1.HarborCreating, "StorageReady", "Unknown", "Starting", "not taken up")
	if !slices.Contains(watched, "Tenant") {
		t.Errorf("the new kind is not watched: %v", watched)
	}
}

func TestReconcile_foreignChildIsLeftAlone(t *testing.T) {
	s := newSuite(t)
	theirs := map[string]any{"labelWhitelist": []any{"mine"}}
	foreign := &unstructured.Unstructured{Object: map[string]any{"spec": theirs}}
	foreign.SetGroupVersionKind(harbor.RedisFailoverKind)
	foreign.SetNamespace(s.namespace)
	foreign.SetName("sample-redis")
	must(t, s.client.Create(t.Context(), foreign))
	s.add()
	s.reconcile()
	s.expect(v1alpha1.HarborUnhealthy, "CacheReady", "False", v1alpha1.ReasonNameConflict, "was not made for this HarborCluster")
	same(t, theirs, s.child(harbor.RedisFailoverKind, "sample-redis").Object["spec"])
}

func TestReconcile_childBeingDeletedIsMadeAgain(t *testing.T) {
	s := newSuite(t)
	s.healthy()
	db := s.child(harbor.PostgresqlKind, s.database())
	db.SetFinalizers([]string{"example.com/hold"})
	must(t, s.client.Update(t.Context(), db))
	must(t, s.client.Delete(t.Context(), db))
	s.reconcile()
	s.expect(v1alpha1.HarborCreating, "DatabaseReady", "Unknown", "ChildDeleting", "made again")
	db = s.child(harbor.PostgresqlKind, s.database())
	db.SetFinalizers(nil)
	must(t, s.client.Update(t.Context(), db))
	s.reconcile()
	s.expect(v1alpha1.HarborCreating, "DatabaseReady", "Unknown", "Starting", "not taken up")
}
