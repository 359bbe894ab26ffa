package harborcluster

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
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

// dealWith does what Kubernetes' garbage collector does with the dependents of a HarborCluster that has a mark of it: it takes the owner off all of them, or
// deletes them, and takes its mark off when it is done. Of a HarborCluster that is gone it deletes what is left.
func (s *suite) dealWith(owner *v1alpha1.HarborCluster) {
	s.t.Helper()
	orphan := slices.Contains(owner.Finalizers, metav1.FinalizerOrphanDependents)
	foreground := slices.Contains(owner.Finalizers, metav1.FinalizerDeleteDependents)
	if !orphan && !foreground && !s.gone() {
		return
	}
	for _, k := range append(slices.Clone(childKinds), v1alpha1.GroupVersion.WithKind("HarborWitness")) {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(k)
		must(s.t, s.client.List(s.t.Context(), list, client.InNamespace(s.namespace)))
		for _, o := range list.Items {
			rest, owned := harbor.Disowned(owner, &o)
			switch {
			case !owned:
			case orphan:
				o.SetOwnerReferences(rest)
				must(s.t, s.client.Update(s.t.Context(), &o))
			default:
				must(s.t, s.client.Delete(s.t.Context(), &o, client.PropagationPolicy(metav1.DeletePropagationBackground)))
			}
		}
	}
	if !s.gone() && (orphan || !s.blocked(owner)) {
		c := s.get()
		c.Finalizers = slices.DeleteFunc(c.Finalizers, func(f string) bool {
			return f == metav1.FinalizerOrphanDependents || f == metav1.FinalizerDeleteDependents
		})
		must(s.t, s.client.Update(s.t.Context(), c))
	}
}

// blocked reports whether a dependent is left that blocks the deletion of its owner, which keeps Kubernetes' mark for a deletion in the foreground.
func (s *suite) blocked(owner *v1alpha1.HarborCluster) bool {
	w := s.witness()
	return w != nil && slices.ContainsFunc(w.OwnerReferences, func(r metav1.OwnerReference) bool {
		return r.UID == owner.UID && r.BlockOwnerDeletion != nil && *r.BlockOwnerDeletion
	})
}

// witness returns the witness; nil if there is none.
func (s *suite) witness() *v1alpha1.HarborWitness {
	s.t.Helper()
	w := &v1alpha1.HarborWitness{}
	err := s.client.Get(s.t.Context(), types.NamespacedName{Namespace: s.namespace, Name: "sample"}, w)
	if apierrors.IsNotFound(err) {
		return nil
	}
	must(s.t, err)
	return w
}

// unwitnessed removes the witness by force, as nobody but a person would.
func (s *suite) unwitnessed() {
	s.t.Helper()
	w := s.witness()
	must(s.t, s.client.Delete(s.t.Context(), w))
	w = s.witness()
	w.Finalizers = nil
	must(s.t, s.client.Update(s.t.Context(), w))
}

// deleted deletes the HarborCluster, and lets Kubernetes be quicker than the controller, or not.
func (s *suite) deleted(policy metav1.DeletionPropagation, quicker bool) {
	s.t.Helper()
	s.ask(client.PropagationPolicy(policy))
	owner := s.get()
	if quicker {
		s.dealWith(owner)
	}
	for range 8 {
		_, err := s.try()
		must(s.t, err)
		if s.gone() {
			break
		}
		s.volumes()
		s.removeRedis()
	}
	s.dealWith(owner)
}

// onlyDatabase leaves no child with an owner but the witness, while Harbor does not exist.
func onlyDatabase(c *v1alpha1.HarborCluster) {
	externalCache(c)
	externalStorage(c)
}

func TestDeletion_orphansKeepTheirData(t *testing.T) {
	for name, quicker := range map[string]bool{"the mark is there": false, "Kubernetes was quicker": true} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t)
			s.healthy(deletes)
			s.deleted(metav1.DeletePropagationOrphan, quicker)
			s.withoutOwners()
			if s.child(harbor.HarborKind, "sample-harbor") == nil {
				t.Error("Harbor is removed")
			}
			if !s.gone() {
				t.Errorf("it is held: %+v", s.get().Finalizers)
			}
		})
		t.Run(name+", and no other child has an owner", func(t *testing.T) {
			s := newSuite(t)
			s.secret("redis", "redis-password")
			s.secret("s3", "secret")
			s.add(deletes, onlyDatabase)
			s.reconcile()
			s.claim("pgdata-"+s.database()+"-0", map[string]string{"cluster-name": s.database()})
			s.deleted(metav1.DeletePropagationOrphan, quicker)
			if s.child(harbor.PostgresqlKind, s.database()) == nil || len(s.volumes()) != 1 || !s.gone() {
				t.Errorf("the database is gone, or its volumes, or it is held: %v", s.volumes())
			}
		})
	}
}

// Whatever is on record, Kubernetes' word that it orphans counts.
func TestDeletion_orphansCountAfterARemovalIsOnRecord(t *testing.T) {
	for name, quicker := range map[string]bool{"the mark is there": false, "Kubernetes was quicker": true} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t)
			s.healthy(deletes)
			c := s.get()
			c.Status.Removal = &v1alpha1.HarborRemoval{Kinds: []string{"postgresql", "Tenant", "RedisFailover"}}
			must(t, s.client.Status().Update(t.Context(), c))
			s.deleted(metav1.DeletePropagationOrphan, quicker)
			s.withoutOwners()
		})
	}
}

// A completed Job, and a child of a part that is external by now, get no owner again: that says nothing of a later deletion.
func TestDeletion_deletesWhatWasOrphanedBefore(t *testing.T) {
	s := newSuite(t)
	s.healthy(deletes)
	first := s.witness()
	s.deleted(metav1.DeletePropagationOrphan, true)
	if w := s.witness(); w != nil {
		t.Errorf("the witness is left: %+v", w)
	}
	s.secret("redis", "redis-password")
	s.add(deletes, externalCache)
	s.reconcile()
	if again := s.witness(); again.GetUID() == first.GetUID() || s.get().Status.Witness != again.GetUID() {
		t.Errorf("the witness of before is taken: %v", again)
	}
	s.deleted(metav1.DeletePropagationBackground, false)
	if holders, secrets := s.data(); !s.gone() || len(holders)+len(secrets) > 0 {
		t.Errorf("left: %v, %v", holders, secrets)
	}
}

// asTheMessageSays does what the message of a deletion without the witness says, first to keep all, and then to remove all.
func (s *suite) asTheMessageSays() {
	s.t.Helper()
	s.expect(v1alpha1.HarborHealthy, "Ready", "Unknown", "Deleting", "Set spec.deletionPolicy to Retain, and it ends and keeps all")
	s.expect(v1alpha1.HarborHealthy, "Ready", "Unknown", "Deleting",
		"with spec.deletionPolicy Delete, wait until its conditions DatabaseReady, CacheReady and StorageReady are True, and delete it")
	s.claim("sample-rfr-sample-redis-0", map[string]string{"app.kubernetes.io/name": "sample-redis", "app.kubernetes.io/part-of": "redis-failover"})
	s.edit(func(c *v1alpha1.HarborCluster) { c.Spec.DeletionPolicy = v1alpha1.HarborRetain })
	owner := s.get()
	_, err := s.try()
	must(s.t, err)
	s.withoutOwners()
	if !s.gone() {
		s.t.Fatalf("it is held: %+v", s.get().Status.Conditions)
	}
	s.dealWith(owner)
	s.removeRedis()
	s.add(deletes)
	ready := func() bool {
		return !slices.ContainsFunc([]string{"DatabaseReady", "CacheReady", "StorageReady"}, func(of string) bool {
			return !meta.IsStatusConditionTrue(s.get().Status.Conditions, of)
		})
	}
	for range 12 {
		if s.reconcile(); ready() {
			break
		}
		s.operators.step()
	}
	if !ready() {
		s.t.Fatalf("not ready: %+v", s.get().Status.Conditions)
	}
	s.deleted(metav1.DeletePropagationBackground, false)
	if holders, secrets := s.data(); !s.gone() || len(holders)+len(secrets)+len(s.volumes()) > 0 {
		s.t.Errorf("gone: %v; left: %v, %v, %v", s.gone(), holders, secrets, s.volumes())
	}
}

// Kubernetes deletes the witness with everything that has an owner, but the witness stays, and its mark with it: also when nobody saw how it began.
func TestDeletion_deleteInTheForeground(t *testing.T) {
	for name, quicker := range map[string]bool{"the mark was seen at once": false, "nobody saw how it began": true} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t)
			s.healthy(deletes)
			s.deleted(metav1.DeletePropagationForeground, quicker)
			holders, secrets := s.data()
			if !s.gone() || len(holders)+len(secrets) > 0 || s.witness() != nil {
				t.Errorf("gone: %v; left: %v, %v, %v", s.gone(), holders, secrets, s.witness())
			}
		})
	}
}

// A HarborCluster that an earlier version vouched for is deleted before a pass of this version. In the foreground Kubernetes removes the Secret first, as it always did: a person is asked.
func TestDeletion_ofAnEarlierVersion(t *testing.T) {
	for name, tt := range map[string]struct {
		policy        metav1.DeletionPropagation
		gone, removed bool
	}{
		"in the background": {metav1.DeletePropagationBackground, true, true},
		"orphaned":          {metav1.DeletePropagationOrphan, true, false},
		"in the foreground": {metav1.DeletePropagationForeground, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t)
			s.healthy(deletes)
			s.earlier()
			s.deleted(tt.policy, true)
			if holders, _ := s.data(); s.gone() != tt.gone || tt.removed != (len(holders) == 0) {
				t.Errorf("gone: %v; left: %v", s.gone(), holders)
			}
			if !tt.gone {
				s.expect(v1alpha1.HarborHealthy, "Ready", "Unknown", "Deleting", "nothing is removed")
			}
		})
	}
	t.Run("this version takes over", func(t *testing.T) {
		s := newSuite(t)
		s.healthy(deletes)
		s.earlier()
		s.reconcile()
		if w := s.witness(); w == nil || s.get().Status.Witness != w.UID || s.child(harbor.SecretKind, "sample-witness") != nil {
			t.Errorf("the witness is %+v, and %s is on record", w, s.get().Status.Witness)
		}
	})
}

// For some seconds after its definition was made Kubernetes' garbage collector does not know the kind of the witness, and leaves it its owner in a deletion with --cascade=orphan.
func TestDeletion_ofANewKind(t *testing.T) {
	s := newSuite(t)
	s.healthy(deletes)
	s.r.Settled = time.Hour
	s.deleted(metav1.DeletePropagationBackground, false)
	s.withoutOwners()
	s.expect(v1alpha1.HarborHealthy, "Ready", "Unknown", "Deleting", "or Kubernetes did not know its kind yet: nothing is removed")
	s.edit(func(c *v1alpha1.HarborCluster) { c.Spec.DeletionPolicy = v1alpha1.HarborRetain })
	_, err := s.try()
	must(t, err)
	if !s.gone() {
		t.Error("it is held")
	}
}

// earlier puts a Secret into the place of the witness, as earlier versions did.
func (s *suite) earlier() {
	s.t.Helper()
	s.unwitnessed()
	c := s.get()
	w := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.namespace, Name: "sample-witness", Labels: map[string]string{v1alpha1.LabelHarborCluster: c.Name},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(c, v1alpha1.GroupVersion.WithKind("HarborCluster"))},
	}}
	must(s.t, s.client.Create(s.t.Context(), w))
	c.Status.Witness = w.UID
	must(s.t, s.client.Status().Update(s.t.Context(), c))
}

// A process may end between the last write to a HarborCluster and the removal of its witness. The next one removes it, and it keeps no namespace.
func TestDeletion_witnessOfNobody(t *testing.T) {
	for name, policy := range map[string]metav1.DeletionPropagation{
		"orphaned": metav1.DeletePropagationOrphan, "in the background": metav1.DeletePropagationBackground, "in the foreground": metav1.DeletePropagationForeground,
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t)
			s.healthy()
			s.ask(client.PropagationPolicy(policy))
			s.dealWith(s.get())
			s.intercept(interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				if _, ok := o.(*v1alpha1.HarborWitness); ok {
					return context.Canceled
				}
				return c.Delete(ctx, o, opts...)
			}})
			if _, err := s.try(); err == nil {
				t.Error("the process did not end")
			}
			if s.witness() == nil {
				t.Fatal("the witness went first")
			}
			s.plain()
			_, err := s.try()
			must(t, err)
			if w := s.witness(); w != nil {
				t.Errorf("it is left: %+v", w)
			}
			if policy == metav1.DeletePropagationForeground {
				s.dealWith(s.get())
			}
			if !s.gone() {
				t.Errorf("it is held: %v", s.get().Finalizers)
			}
		})
	}
}

func TestDeletion_withoutTheWitnessNothingIsRemoved(t *testing.T) {
	for name, change := range map[string]func(s *suite, witness *v1alpha1.HarborWitness){
		"it is gone": func(*suite, *v1alpha1.HarborWitness) {},
		"another one is in its place": func(s *suite, witness *v1alpha1.HarborWitness) {
			witness.UID, witness.ResourceVersion = "", ""
			must(s.t, s.client.Create(s.t.Context(), witness))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t)
			s.healthy(deletes)
			witness := s.witness()
			s.unwitnessed()
			change(s, witness)
			s.deleted(metav1.DeletePropagationBackground, false)
			s.withoutOwners()
			s.expect(v1alpha1.HarborHealthy, "Ready", "Unknown", "Deleting", "HarborWitness sample is not there as it was made, or Kubernetes did not know its kind yet: nothing is removed")
			s.asTheMessageSays()
		})
	}
	t.Run("the next pass makes it again", func(t *testing.T) {
		s := newSuite(t)
		s.healthy(deletes)
		s.unwitnessed()
		s.reconcile()
		s.deleted(metav1.DeletePropagationBackground, false)
		if holders, secrets := s.data(); !s.gone() || len(holders)+len(secrets) > 0 {
			t.Errorf("left: %v, %v", holders, secrets)
		}
	})
}

// A pass that read the HarborCluster before it was deleted gives the witness no owner back.
func TestDeletion_latePassDoesNotVouch(t *testing.T) {
	for name, change := range map[string]func(*suite){
		"orphaned": func(*suite) {},
		"and without any": func(s *suite) {
			s.unwitnessed()
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t)
			s.healthy(deletes)
			before := s.get()
			s.ask(client.PropagationPolicy(metav1.DeletePropagationOrphan))
			s.dealWith(s.get())
			change(s)
			if err := s.r.settle(t.Context(), newScope(before)); !apierrors.IsConflict(err) {
				t.Errorf("got %v", err)
			}
			for range 4 {
				_, err := s.try()
				must(t, err)
			}
			s.withoutOwners()
		})
	}
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
