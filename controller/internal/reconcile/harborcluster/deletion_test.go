package harborcluster

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"quarry.storage/quarry/controller/internal/decide/harbor"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func deletes(c *v1alpha1.HarborCluster) { c.Spec.DeletionPolicy = v1alpha1.HarborDelete }

// gone reports whether the HarborCluster is gone.
func (s *suite) gone() bool {
	s.t.Helper()
	err := s.client.Get(s.t.Context(), types.NamespacedName{Namespace: s.namespace, Name: "sample"}, &v1alpha1.HarborCluster{})
	if client.IgnoreNotFound(err) != nil {
		s.t.Fatal(err)
	}
	return apierrors.IsNotFound(err)
}

// data returns what holds data, and what opens it.
func (s *suite) data() (holders, secrets []string) {
	s.t.Helper()
	c := valid()
	c.Namespace = s.namespace
	h, k := harbor.Data(c)
	there := func(refs []*unstructured.Unstructured) []string {
		var names []string
		for _, ref := range refs {
			if s.child(ref.GroupVersionKind(), ref.GetName()) != nil {
				names = append(names, ref.GetKind()+" "+ref.GetName())
			}
		}
		return names
	}
	return there(h), there(k)
}

// claim makes a volume as a StatefulSet of an operator does.
func (s *suite) claim(name string, labels map[string]string) {
	s.t.Helper()
	must(s.t, s.client.Create(s.t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name, Labels: labels},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}))
}

// statefulSet makes one as an operator does.
func (s *suite) statefulSet(name string) {
	s.t.Helper()
	labels := map[string]string{"app": name}
	must(s.t, s.client.Create(s.t.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec: appsv1.StatefulSetSpec{
			ServiceName: name, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			},
		},
	}))
}

// volumes returns the names of the claims. No controller of Kubernetes runs here that protects claims of pods.
func (s *suite) volumes() []string {
	s.t.Helper()
	l := &corev1.PersistentVolumeClaimList{}
	must(s.t, s.client.List(s.t.Context(), l, client.InNamespace(s.namespace)))
	var names []string
	for _, c := range l.Items {
		if c.DeletionTimestamp != nil {
			c.Finalizers = nil
			must(s.t, s.client.Update(s.t.Context(), &c))
			continue
		}
		names = append(names, c.Name)
	}
	slices.Sort(names)
	return names
}

// removeRedis does what Kubernetes does once a RedisFailover is gone.
func (s *suite) removeRedis() {
	s.t.Helper()
	for _, o := range []client.Object{
		&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "rfr-sample-redis"}},
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "rfs-sample-redis"}},
	} {
		must(s.t, client.IgnoreNotFound(s.client.Delete(s.t.Context(), o)))
	}
}

func (s *suite) ask(options ...client.DeleteOption) {
	s.t.Helper()
	must(s.t, s.client.Delete(s.t.Context(), s.get(), options...))
}

// withoutOwners checks that Kubernetes removes none of the data by itself.
func (s *suite) withoutOwners() {
	s.t.Helper()
	c := valid()
	c.Namespace = s.namespace
	holders, secrets := harbor.Data(c)
	for _, ref := range append(holders, secrets...) {
		if o := s.child(ref.GroupVersionKind(), ref.GetName()); o == nil || len(o.GetOwnerReferences()) > 0 {
			s.t.Errorf("%s %s is gone, or goes with its owner: %v", ref.GetKind(), ref.GetName(), o)
		}
	}
}

func TestDeletion_retainedDataIsTakenBack(t *testing.T) {
	s := newSuite(t)
	s.healthy()
	if p := s.get().Spec.DeletionPolicy; p != v1alpha1.HarborRetain {
		t.Errorf("the default is %q", p)
	}
	s.withoutOwners()
	credentials := s.child(harbor.SecretKind, "minio-sample-creds").Object["data"]
	database, tenant := s.child(harbor.PostgresqlKind, s.database()), s.child(harbor.TenantKind, "minio-sample")
	s.told()
	s.ask()
	_, err := s.try()
	must(t, err)
	if !s.gone() {
		t.Fatalf("it is held: %+v", s.get())
	}
	if told := s.told(); len(told) != 1 || !strings.Contains(told[0], "Normal DataKept") {
		t.Errorf("told: %v", told)
	}
	s.withoutOwners()

	// Kubernetes removes the others; what it has no controller for here is removed by the test.
	for kind, name := range map[schema.GroupVersionKind]string{
		harbor.HarborKind: "sample-harbor", harbor.RedisFailoverKind: "sample-redis", harbor.JobKind: "minio-sample", harbor.SecretKind: "sample-redis",
	} {
		o := s.child(kind, name)
		if owner := metav1.GetControllerOf(o); owner == nil || owner.Kind != "HarborCluster" {
			t.Errorf("%s %s does not go with its owner: %v", kind.Kind, name, o.GetOwnerReferences())
		}
		must(t, s.client.Delete(t.Context(), o, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	}
	s.healthy()
	same(t, credentials, s.child(harbor.SecretKind, "minio-sample-creds").Object["data"])
	if s.child(harbor.PostgresqlKind, s.database()).GetUID() != database.GetUID() || s.child(harbor.TenantKind, "minio-sample").GetUID() != tenant.GetUID() {
		t.Error("database or storage was made anew")
	}
	s.withoutOwners()
}

func TestDeletion_whatIsSomebodyElsesIsNotTakenBack(t *testing.T) {
	s := newSuite(t)
	c := valid()
	c.Namespace = s.namespace
	foreign := harbor.Postgresql(c, nil)
	foreign.SetLabels(map[string]string{v1alpha1.LabelHarborCluster: "other"})
	foreign.SetOwnerReferences(nil)
	must(t, s.client.Create(t.Context(), foreign))
	s.claim("pgdata-"+s.database()+"-0", map[string]string{"cluster-name": s.database(), "application": "spilo"})
	// Of a kind that this HarborCluster never had, and whose holder is not here.
	s.claim("sample-rfr-sample-redis-0", map[string]string{"app.kubernetes.io/name": "sample-redis", "app.kubernetes.io/part-of": "redis-failover"})
	s.statefulSet(s.database())
	s.statefulSet("rfr-sample-redis")
	s.add(deletes, externalCache)
	s.secret("redis", "redis-password")
	s.reconcile()
	s.expect(v1alpha1.HarborUnhealthy, "DatabaseReady", "False", "NameConflict", "left alone")
	s.ask()
	for range 5 {
		_, err := s.try()
		must(t, err)
	}
	if have := s.child(harbor.PostgresqlKind, s.database()); have == nil || have.GetDeletionTimestamp() != nil {
		t.Error("the database of somebody else is removed")
	}
	same(t, []string{"pgdata-" + s.database() + "-0", "sample-rfr-sample-redis-0"}, s.volumes())
	if !s.gone() {
		t.Errorf("it is held: %+v", s.get().Status.Conditions)
	}
}

// What earlier versions made has the HarborCluster as its owner, perhaps by the word of another program, too.
func TestDeletion_dataOfEarlierVersionsIsLetGoFirst(t *testing.T) {
	s := newSuite(t)
	s.healthy()
	c := s.get()
	_, err := kube.Patch(t.Context(), s.client, c, func(c *v1alpha1.HarborCluster) { c.Finalizers = nil })
	must(t, err)
	owner := *metav1.NewControllerRef(c, v1alpha1.GroupVersion.WithKind("HarborCluster"))
	holders, secrets := harbor.Data(c)
	for _, ref := range append(holders, secrets...) {
		o := s.child(ref.GroupVersionKind(), ref.GetName())
		o.SetOwnerReferences([]metav1.OwnerReference{owner})
		must(t, s.client.Update(t.Context(), o, client.FieldOwner("somebody")))
	}
	// Not even a fault of the spec keeps them in danger.
	s.edit(func(c *v1alpha1.HarborCluster) { c.Spec.HarborAdminPasswordRef = "nowhere" })
	s.r.Client = interceptor.NewClient(s.client, interceptor.Funcs{Patch: func(
		ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption,
	) error {
		if _, ok := o.(*v1alpha1.HarborCluster); ok {
			s.withoutOwners()
		}
		return c.Patch(ctx, o, p, opts...)
	}})
	if c := s.reconcile(); !slices.Contains(c.Finalizers, v1alpha1.FinalizerHarbor) {
		t.Errorf("it is not marked: %v", c.Finalizers)
	}
}

// owned gives an object the HarborCluster as its owner, as an earlier version does that runs in between.
func (s *suite) owned(kind schema.GroupVersionKind, name string) {
	s.t.Helper()
	o := s.child(kind, name)
	o.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(s.get(), v1alpha1.GroupVersion.WithKind("HarborCluster"))})
	must(s.t, s.client.Update(s.t.Context(), o))
}

func TestDeletion_retainLetsGoOnceMore(t *testing.T) {
	s := newSuite(t)
	s.healthy()
	s.owned(harbor.TenantKind, "minio-sample")
	s.ask()
	_, err := s.try()
	must(t, err)
	s.withoutOwners()
}

// The finalizer of before says nothing of the owners of today.
func TestDeletion_everyPassLetsGo(t *testing.T) {
	s := newSuite(t)
	s.healthy()
	s.owned(harbor.SecretKind, "minio-sample-creds")
	s.owned(harbor.TenantKind, "minio-sample")
	s.edit(func(c *v1alpha1.HarborCluster) { c.Spec.HarborAdminPasswordRef = "nowhere" })
	s.reconcile()
	s.withoutOwners()
}

// Without the right to take it off, what an earlier version made would go with the HarborCluster.
func TestDeletion_retainIsHeldWhileDataHasAnOwner(t *testing.T) {
	s := newSuite(t)
	s.healthy()
	s.owned(harbor.TenantKind, "minio-sample")
	s.ask()
	s.intercept(forbid("Secret"))
	_, err := s.try()
	must(t, err)
	s.expect(v1alpha1.HarborHealthy, "Ready", "Unknown", "Deleting", "cannot get resource")
	s.plain()
	_, err = s.try()
	must(t, err)
	s.withoutOwners()
	if !s.gone() {
		t.Error("it is held")
	}
}

// A Secret that cannot be read may have an owner, and would go with it. Only what this very process has seen since it began is known.
func TestDeletion_retainIsHeldWhileNobodyKnowsOfSecrets(t *testing.T) {
	s := newSuite(t)
	s.healthy()
	s.owned(harbor.SecretKind, "sample-database-password")
	s.ask()
	again := &Reconciler{Client: s.client, Live: s.client, Events: s.events, Password: s.r.Password}
	s.client.share(again)
	s.r = again
	s.intercept(forbid("Secret"))
	_, err := s.try()
	must(t, err)
	if s.gone() {
		t.Fatal("the Secret that opens the database goes with it")
	}
	s.expect(v1alpha1.HarborHealthy, "Ready", "Unknown", "Deleting", "ClusterRole quarry-harbor")
	s.plain()
	_, err = s.try()
	must(t, err)
	s.withoutOwners()
	if !s.gone() {
		t.Error("it is held")
	}
}

func TestDeletion_deleteRemovesAllAndSecretsLast(t *testing.T) {
	s := newSuite(t)
	s.healthy(deletes)
	redis := map[string]string{"app.kubernetes.io/name": "sample-redis", "app.kubernetes.io/part-of": "redis-failover"}
	s.claim("data0-minio-sample-zone-harbor-0", map[string]string{"v1.min.io/tenant": "minio-sample"})
	s.claim("pgdata-"+s.database()+"-10", map[string]string{"cluster-name": s.database(), "application": "spilo"})
	s.claim("sample-rfr-sample-redis-2", redis)
	// Somebody else's: another name, another number, other labels.
	s.claim("mine", map[string]string{"v1.min.io/tenant": "minio-sample"})
	s.claim("sample-rfr-sample-redis-02", redis)
	s.claim("sample-rfr-sample-redis-3", map[string]string{"app.kubernetes.io/name": "other"})
	others := []string{"mine", "sample-rfr-sample-redis-02", "sample-rfr-sample-redis-3"}
	s.ask()

	// The controller is killed before each of its writes in turn, and begins anew.
	for round := 0; !s.gone(); round++ {
		if round > 100 {
			t.Fatalf("it never ends: %+v", s.get().Status.Conditions)
		}
		allowed := round % 2
		killed := errors.New("killed")
		count := func() error {
			if allowed--; allowed < 0 {
				return killed
			}
			return nil
		}
		s.intercept(interceptor.Funcs{
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				if err := count(); err != nil {
					return err
				}
				return c.Delete(ctx, o, opts...)
			},
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				if err := count(); err != nil {
					return err
				}
				return c.Patch(ctx, o, p, opts...)
			},
		})
		_, _ = s.try()
		s.plain()
		holders, secrets := s.data()
		if len(holders)+len(s.volumes()) > len(others) && len(secrets) != 4 {
			t.Fatalf("data without what opens it: %v, %v, %v", holders, s.volumes(), secrets)
		}
		if s.child(harbor.RedisFailoverKind, "sample-redis") == nil {
			if round < 20 {
				if !slices.Contains(s.volumes(), "sample-rfr-sample-redis-2") {
					t.Fatal("volumes are removed while a StatefulSet could use them")
				}
				continue
			}
			s.removeRedis()
		}
	}
	if holders, secrets := s.data(); len(holders)+len(secrets) > 0 {
		t.Errorf("left: %v, %v", holders, secrets)
	}
	same(t, others, s.volumes())
	if s.child(harbor.SecretKind, "admin") == nil {
		t.Error("the user's own Secret is removed")
	}
	if told := s.told(); !slices.ContainsFunc(told, func(e string) bool { return strings.Contains(e, "DataRemoved") }) {
		t.Errorf("told: %v", told)
	}
}

func TestDeletion_tellsWhatItWaitsFor(t *testing.T) {
	s := newSuite(t)
	s.healthy(deletes)
	db := s.child(harbor.PostgresqlKind, s.database())
	db.SetFinalizers([]string{"example.com/hold"})
	must(t, s.client.Update(t.Context(), db))
	s.ask()
	for range 3 {
		result, err := s.try()
		must(t, err)
		if result.RequeueAfter != retry {
			t.Errorf("looked again after %s", result.RequeueAfter)
		}
	}
	s.expect(v1alpha1.HarborHealthy, "Ready", "Unknown", "Deleting", "postgresql "+s.database())
	if _, secrets := s.data(); len(secrets) != 4 {
		t.Errorf("Secrets are removed before the data: %v", secrets)
	}
	// Whoever changes their mind now keeps what is left.
	s.edit(func(c *v1alpha1.HarborCluster) { c.Spec.DeletionPolicy = v1alpha1.HarborRetain })
	_, err := s.try()
	must(t, err)
	if _, secrets := s.data(); !s.gone() || len(secrets) != 4 {
		t.Errorf("gone: %v; Secrets: %v", s.gone(), secrets)
	}
	// Nothing may stay that would hold the definition for the tests that follow.
	db = s.child(harbor.PostgresqlKind, s.database())
	db.SetFinalizers(nil)
	must(t, s.client.Update(t.Context(), db))
}

func TestDeletion_withoutRights(t *testing.T) {
	for name, tt := range map[string]struct {
		policy v1alpha1.HarborDeletionPolicy
		ending bool
		gone   bool
	}{
		"retained: nothing is to be done":         {v1alpha1.HarborRetain, false, true},
		"deleted: held, and told":                 {v1alpha1.HarborDelete, false, false},
		"deleted: everything goes with its place": {v1alpha1.HarborDelete, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t)
			s.healthy(func(c *v1alpha1.HarborCluster) { c.Spec.DeletionPolicy = tt.policy })
			s.ask()
			if tt.ending {
				must(t, s.client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}))
			}
			s.intercept(forbid("Secret"))
			if !tt.gone {
				s.intercept(interceptor.Funcs{Delete: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.DeleteOption) error {
					return apierrors.NewForbidden(schema.GroupResource{Resource: "harbors"}, o.GetName(), errors.New(`User "quarry" cannot delete resource`))
				}})
			}
			for range 4 {
				_, err := s.try()
				must(t, err)
				s.removeRedis()
			}
			if s.gone() != tt.gone {
				t.Errorf("gone: %v", s.gone())
			}
			if !tt.gone {
				s.expect(v1alpha1.HarborHealthy, "Ready", "Unknown", "Deleting", "cannot delete resource")
			}
		})
	}
}
