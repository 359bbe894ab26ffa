package harborcluster

import (
	"context"
	"errors"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"quarry.storage/quarry/controller/internal/decide/harbor"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Every way in which a child can leave its good state, from a HarborCluster that was healthy, and back.
func TestReconcile_lossAndReturn(t *testing.T) {
	type move func(*operators)
	tenantRuns := func(o *operators) { o.setTenant("Initialized", 2, "PoolInitialized") }
	databaseRuns := func(o *operators) { o.setDatabase("Running") }
	harborRuns := func(o *operators) { o.setHarbor("False", "False", "") }
	redisRuns := func(o *operators) { o.setRedis(3, 3) }
	database := func(state string) move { return func(o *operators) { o.setDatabase(state) } }
	s := newSuite(t)
	s.healthy()
	for name, tt := range map[string]struct {
		lose, regain move
		condition    string
		status       metav1.ConditionStatus
		overall      v1alpha1.HarborStatus
		reason, says string
	}{
		"database: CreateFailed": {database("CreateFailed"), databaseRuns, "DatabaseReady", "False", "unhealthy", "ChildFailed", "CreateFailed"},
		"database: UpdateFailed": {database("UpdateFailed"), databaseRuns, "DatabaseReady", "False", "unhealthy", "ChildFailed", "UpdateFailed"},
		"database: SyncFailed":   {database("SyncFailed"), databaseRuns, "DatabaseReady", "False", "unhealthy", "ChildFailed", "SyncFailed"},
		"database: Invalid":      {database("Invalid"), databaseRuns, "DatabaseReady", "False", "unhealthy", "ChildFailed", "Invalid"},
		"database: Updating":     {database("Updating"), databaseRuns, "DatabaseReady", "Unknown", "creating", "Starting", "Updating"},
		"database: its master": {
			func(o *operators) { o.setMaster() },
			func(o *operators) { o.setMaster("10.0.0.2") }, "DatabaseReady", "Unknown", "creating", "Starting", "has no master",
		},
		"storage: an error in its operator's words": {
			func(o *operators) { o.setTenant("empty tenant credentials", 2, "PoolInitialized") },
			tenantRuns, "StorageReady", "False", "unhealthy", "ChildFailed", "empty tenant credentials",
		},
		"cache: a server":       {func(o *operators) { o.setRedis(2, 3) }, redisRuns, "CacheReady", "Unknown", "creating", "Starting", "2 of 3 servers"},
		"cache: every sentinel": {func(o *operators) { o.setRedis(3, 0) }, redisRuns, "CacheReady", "Unknown", "creating", "Starting", "0 of 3 sentinels"},
		"storage: a server": {
			func(o *operators) { o.setTenant("Initialized", 1, "PoolInitialized") },
			tenantRuns, "StorageReady", "Unknown", "creating", "Starting", "1 of 2 servers",
		},
		"storage: its pool": {
			func(o *operators) { o.setTenant("Initialized", 2, "PoolCreated") },
			tenantRuns, "StorageReady", "Unknown", "creating", "Starting", "not initialized",
		},
		"storage: a failure": {
			func(o *operators) { o.setTenant("Different versions across MinIO Pools", 2, "PoolInitialized") },
			tenantRuns, "StorageReady", "False", "unhealthy", "ChildFailed", "Different versions",
		},
		"service: at work": {
			func(o *operators) { o.setHarbor("True", "False", "rolling out") },
			harborRuns, "ServiceReady", "Unknown", "creating", "Starting", "rolling out",
		},
		"service: failed": {
			func(o *operators) { o.setHarbor("False", "True", "no certificate") },
			harborRuns, "ServiceReady", "False", "unhealthy", "ChildFailed", "no certificate",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s.t, s.operators.t = t, t
			before := s.child(harbor.HarborKind, "sample-harbor").GetGeneration()
			tt.lose(s.operators)
			s.reconcile()
			s.expect(tt.overall, tt.condition, tt.status, tt.reason, tt.says)
			if tt.condition != "ServiceReady" {
				s.expect(tt.overall, "ServiceReady", "True", "Running", "runs")
			}
			if after := s.child(harbor.HarborKind, "sample-harbor").GetGeneration(); after != before {
				t.Error("Harbor was touched, and it is not its turn")
			}
			tt.regain(s.operators)
			s.reconcile()
			s.expect(v1alpha1.HarborHealthy, tt.condition, "True", "Running", "")
		})
	}
	s.t, s.operators.t = t, t
}

func TestReconcile_bucketFailsAndIsTriedAgainWithAnotherSpec(t *testing.T) {
	s := newSuite(t)
	s.add()
	for range 3 {
		s.reconcile()
		s.operators.stepStorage()
		s.operators.stepDatabase()
		s.operators.stepCache()
	}
	s.operators.setBucket(batchv1.JobFailed, "no such host")
	s.reconcile()
	s.expect(v1alpha1.HarborUnhealthy, "StorageReady", "False", "ChildFailed", "no such host")
	if s.child(harbor.HarborKind, "sample-harbor") != nil {
		t.Error("Harbor was made, and it has no bucket")
	}
	first := s.child(harbor.JobKind, "minio-sample")
	s.edit(func(c *v1alpha1.HarborCluster) {
		c.Spec.Storage.Spec.MinIO.MC = &v1alpha1.HarborImage{Image: "example.com/mc:2"}
	})
	s.reconcile()
	s.collect()
	s.reconcile()
	second := s.child(harbor.JobKind, "minio-sample")
	if second == nil || second.GetUID() == first.GetUID() {
		t.Fatal("the Job was not made again")
	}
	s.operators.stepBucket()
	s.reconcile()
	s.expect(v1alpha1.HarborCreating, "StorageReady", "True", "Running", "bucket")
}

// A Job that failed gets another chance without anybody's help.
func TestReconcile_bucketIsTriedAgainAfterAWhile(t *testing.T) {
	s := newSuite(t)
	s.add()
	for range 3 {
		s.reconcile()
		s.operators.stepStorage()
		s.operators.stepDatabase()
		s.operators.stepCache()
	}
	s.operators.setBucket(batchv1.JobFailed, "no such host")
	result, err := s.try()
	must(t, err)
	s.expect(v1alpha1.HarborUnhealthy, "StorageReady", "False", "ChildFailed", "no such host. It is made again at ")
	if result.RequeueAfter <= 0 || result.RequeueAfter > 2*time.Minute {
		t.Errorf("looked again after %s", result.RequeueAfter)
	}
	first := s.child(harbor.JobKind, "minio-sample")
	conditions, _, _ := unstructured.NestedSlice(first.Object, "status", "conditions")
	for _, c := range conditions {
		c.(map[string]any)["lastTransitionTime"] = time.Now().Add(-2 * time.Hour).UTC().Format(time.RFC3339)
	}
	must(t, unstructured.SetNestedSlice(first.Object, conditions, "status", "conditions"))
	must(t, s.client.Status().Update(t.Context(), first))
	s.reconcile()
	s.expect(v1alpha1.HarborCreating, "StorageReady", "Unknown", "ChildDeleting", "made again")
	s.collect()
	s.reconcile()
	if second := s.child(harbor.JobKind, "minio-sample"); second == nil || second.GetUID() == first.GetUID() {
		t.Fatal("the Job was not made again")
	}
	s.operators.stepBucket()
	s.reconcile()
	s.expect(v1alpha1.HarborCreating, "StorageReady", "True", "Running", "bucket")
}

// The bucket of a Tenant that was made anew is looked for again.
func TestReconcile_bucketOfANewTenant(t *testing.T) {
	s := newSuite(t)
	s.healthy()
	first := s.child(harbor.JobKind, "minio-sample")
	// Times in the API have seconds.
	time.Sleep(time.Until(first.GetCreationTimestamp().Add(1100 * time.Millisecond)))
	must(t, s.client.Delete(t.Context(), s.child(harbor.TenantKind, "minio-sample")))
	s.reconcile()
	s.operators.setTenant("Initialized", 2, "PoolInitialized")
	s.reconcile()
	s.expect(v1alpha1.HarborCreating, "StorageReady", "Unknown", "ChildDeleting", "made again")
	s.collect()
	s.reconcile()
	s.operators.stepBucket()
	s.reconcile()
	s.expect(v1alpha1.HarborHealthy, "StorageReady", "True", "Running", "bucket")
	if second := s.child(harbor.JobKind, "minio-sample"); second.GetUID() == first.GetUID() {
		t.Error("the bucket was not looked for in the new Tenant")
	}
}

// collect takes the finalizer of background deletion from the Job, as the garbage collector of a whole cluster does.
func (s *suite) collect() {
	s.t.Helper()
	if j := s.child(harbor.JobKind, "minio-sample"); j != nil {
		j.SetFinalizers(nil)
		must(s.t, s.client.Update(s.t.Context(), j))
	}
}

func TestReconcile_strictReadiness(t *testing.T) {
	s := newSuite(t)
	s.add(func(c *v1alpha1.HarborCluster) { c.Spec.StrictReadiness = true })
	s.reconcile()
	s.expect(v1alpha1.HarborCreating, "DatabaseReady", "Unknown", "Starting", "not taken up")
	s.reconcile()
	s.expect(v1alpha1.HarborUnhealthy, "DatabaseReady", "False", "Starting", "not taken up")
	for range 4 {
		s.operators.step()
		s.reconcile()
	}
	s.expect(v1alpha1.HarborUnhealthy, "ServiceReady", "False", "Starting", "at work")
	s.operators.step()
	s.reconcile()
	s.expect(v1alpha1.HarborHealthy, "Ready", "True", "Healthy", "")
}

func TestReconcile_mixed(t *testing.T) {
	for name, tt := range map[string]struct {
		edits []func(*v1alpha1.HarborCluster)
		want  []string
	}{
		"external database": {[]func(*v1alpha1.HarborCluster){externalDatabase}, []string{
			"RedisFailover sample-redis", "Secret minio-sample-configuration", "Secret minio-sample-creds", "Secret sample-redis", "Tenant minio-sample",
		}},
		"only the database in cluster":  {[]func(*v1alpha1.HarborCluster){externalCache, externalStorage}, []string{"postgresql DATABASE"}},
		"everything external, so ready": {[]func(*v1alpha1.HarborCluster){externalDatabase, externalCache, externalStorage}, []string{"Harbor sample-harbor"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t)
			s.secret("db", "postgres-password")
			s.secret("redis", "redis-password")
			s.secret("s3", "secret")
			s.add(tt.edits...)
			s.reconcile()
			for i, w := range tt.want {
				if w == "postgresql DATABASE" {
					tt.want[i] = "postgresql " + s.database()
				}
			}
			same(t, tt.want, s.children())
			s.expect(v1alpha1.HarborCreating, "Ready", "Unknown", "Creating", "")
			for range 6 {
				s.operators.step()
				s.reconcile()
			}
			s.expect(v1alpha1.HarborHealthy, "Ready", "True", "Healthy", "")
			h := s.child(harbor.HarborKind, "sample-harbor")
			if host, _, _ := nested(h, "spec", "redis", "host"); (host == "redis.example.com") != (s.get().Spec.Cache.Kind == "Redis") {
				t.Errorf("Harbor is told of the cache %v", host)
			}
		})
	}
}

func TestReconcile_deletion(t *testing.T) {
	s := newSuite(t)
	s.healthy(func(c *v1alpha1.HarborCluster) { c.Finalizers = []string{"example.com/hold"} })
	must(t, s.client.Delete(t.Context(), s.get()))
	// Even a child that has changed stays as it is: who deletes does not repair.
	db := s.child(harbor.PostgresqlKind, s.database())
	must(t, unstructuredSet(db, int64(9), "spec", "numberOfInstances"))
	must(t, s.client.Update(t.Context(), db))
	before := s.written()
	delete(before, "HarborCluster")
	c := s.reconcile()
	after := s.written()
	delete(after, "HarborCluster")
	same(t, before, after)
	same(t, []string{"example.com/hold"}, c.Finalizers)
	for _, o := range []client.Object{
		s.child(harbor.RedisFailoverKind, "sample-redis"), s.child(harbor.HarborKind, "sample-harbor"),
		s.child(harbor.JobKind, "minio-sample"), s.child(harbor.SecretKind, "sample-redis"),
	} {
		if owner := metav1.GetControllerOf(o); owner == nil || owner.UID != c.UID {
			t.Errorf("%s would outlive the HarborCluster: %v", o.GetName(), owner)
		}
	}
	s.withoutOwners()
	c.Finalizers = nil
	must(t, s.client.Update(t.Context(), c))
	if _, err := s.try(); err != nil {
		t.Errorf("reconciling one that is gone: %v", err)
	}
}

func TestReconcile_eventsOncePerTransition(t *testing.T) {
	s := newSuite(t)
	s.healthy()
	s.told()
	s.operators.setDatabase("SyncFailed")
	s.reconcile()
	s.reconcile()
	same(t, []string{
		"Warning ChildFailed database: The postgresql " + s.database() + " is SyncFailed.",
		"Warning Unhealthy The status is unhealthy. database: The postgresql " + s.database() + " is SyncFailed.",
	}, s.told())
	c := meta.FindStatusCondition(s.get().Status.Conditions, "DatabaseReady")
	s.operators.setDatabase("Running")
	s.reconcile()
	same(t, []string{
		"Normal Running database: The postgresql " + s.database() + " is Running.",
		"Normal Healthy The status is healthy. Harbor and its services run.",
	}, s.told())
	if c.ObservedGeneration != s.get().Generation {
		t.Errorf("condition of generation %d", c.ObservedGeneration)
	}
}

func TestReconcile_cacheThatMayNotBeLookedAt(t *testing.T) {
	s := newSuite(t)
	s.intercept(forbid("StatefulSet", "Deployment"))
	s.add()
	s.reconcile()
	s.expect(v1alpha1.HarborCreating, "CacheReady", "Unknown", "Starting", "just made")
	s.reconcile()
	s.expect(v1alpha1.HarborCreating, "CacheReady", "True", "Running", "may not look")
}

func TestReconcile_withoutRights(t *testing.T) {
	s := newSuite(t)
	s.intercept(forbid("Secret", ""))
	s.add()
	result, err := s.try()
	must(t, err)
	if result.RequeueAfter != retry {
		t.Errorf("looked again after %s", result.RequeueAfter)
	}
	s.expect(v1alpha1.HarborUnhealthy, "ServiceReady", "False", "AccessDenied", "spec.harborAdminPasswordRef: The API server forbids it. The controller needs the ClusterRole quarry-harbor")
	same(t, nothing, s.children())
	s.plain()
	s.reconcile()
	s.expect(v1alpha1.HarborCreating, "ServiceReady", "Unknown", "Waiting", "")
}

func TestReconcile_passwordsAreKeptAndFollowed(t *testing.T) {
	s := newSuite(t)
	s.healthy()
	read := func(name, key string) string {
		secret := &corev1.Secret{}
		must(t, s.client.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, secret))
		return string(secret.Data[key])
	}
	own := read("sample-redis", "password")
	if own == "" || own != read("sample-redis", "redis-password") || read("minio-sample", "secret") != read("minio-sample-creds", "secretkey") {
		t.Error("what Harbor is given is not what its services have")
	}
	s.operators.setCredentials("rotated")
	s.reconcile()
	if got := read("sample-database-password", "postgres-password"); got != "rotated" {
		t.Errorf("the database's new password is not followed: %q", got)
	}
	if got := read("sample-redis", "password"); got != own {
		t.Errorf("the cache's password went from %q to %q", own, got)
	}
}

func TestReconcile_waitsForTheDatabasesPassword(t *testing.T) {
	s := newSuite(t)
	s.add()
	s.reconcile()
	s.operators.setDatabase("Running")
	s.operators.setMaster("10.0.0.1")
	result, err := s.try()
	must(t, err)
	if result.RequeueAfter != retry {
		t.Errorf("looked again after %s: Secrets cannot be watched", result.RequeueAfter)
	}
	s.expect(v1alpha1.HarborCreating, "DatabaseReady", "Unknown", "Starting", "does not exist yet")
	s.operators.setCredentials("x")
	s.reconcile()
	s.expect(v1alpha1.HarborCreating, "DatabaseReady", "True", "Running", "")
}

func TestReconcile_gone(t *testing.T) {
	s := newSuite(t)
	if result, err := s.try(); err != nil || !result.IsZero() {
		t.Errorf("%+v, %v", result, err)
	}
	if err := s.client.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: "sample"}, &v1alpha1.HarborCluster{}); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}

func TestReconcile_ownCredentialsOfMinIO(t *testing.T) {
	s := newSuite(t)
	s.secret("own", "accesskey", "secretkey")
	s.healthy(func(c *v1alpha1.HarborCluster) { c.Spec.Storage.Spec.MinIO.SecretRef = "own" })
	if s.child(harbor.SecretKind, "minio-sample-creds") != nil {
		t.Error("credentials were made, and the user has given some")
	}
	name, _, _ := nested(s.child(harbor.TenantKind, "minio-sample"), "spec", "configuration", "name")
	secret := &corev1.Secret{}
	must(t, s.client.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: name.(string)}, secret))
	want := "export MINIO_ROOT_USER=\"value of accesskey\"\nexport MINIO_ROOT_PASSWORD=\"value of secretkey\"\n"
	if got := string(secret.Data["config.env"]); got != want {
		t.Errorf("MinIO has %q", got)
	}
	h := s.child(harbor.HarborKind, "sample-harbor")
	if key, _, _ := nested(h, "spec", "imageChartStorage", "s3", "accesskey"); key != "value of accesskey" {
		t.Errorf("Harbor uses the access key %v", key)
	}
}

func TestReconcile_blindTellsThatItIs(t *testing.T) {
	s := newSuite(t)
	s.healthy()
	before, parts := s.written(), s.get().Status
	s.told()
	broken := func(err error) interceptor.Funcs {
		return interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, secret := o.(*corev1.Secret); secret {
				return err
			}
			return c.Get(ctx, key, o, opts...)
		}}
	}
	s.intercept(broken(errors.New("the connection broke")))
	if _, err := s.try(); err == nil {
		t.Error("no error")
	}
	s.expect(v1alpha1.HarborHealthy, "Ready", "Unknown", "NotSeen", "the connection broke")
	for p := range harbor.Count {
		kind := harbor.Part(p).Condition()
		same(t, meta.FindStatusCondition(parts.Conditions, kind), meta.FindStatusCondition(s.get().Status.Conditions, kind))
	}
	after := s.written()
	delete(before, "HarborCluster")
	delete(after, "HarborCluster")
	same(t, before, after)
	same(t, nothing, s.told())
	s.plain()
	s.reconcile()
	s.expect(v1alpha1.HarborHealthy, "Ready", "True", "Healthy", "")
	// A conflict passes by itself.
	before = s.written()
	s.intercept(broken(apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, "admin", errors.New("it was changed"))))
	_, err := s.try()
	must(t, err)
	same(t, before, s.written())
}

func TestReconcile_blindFromTheBeginning(t *testing.T) {
	s := newSuite(t)
	s.add()
	s.intercept(interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		if _, secret := o.(*corev1.Secret); secret {
			return errors.New("the connection broke")
		}
		return c.Get(ctx, key, o, opts...)
	}})
	if _, err := s.try(); err == nil {
		t.Error("no error")
	}
	s.expect(v1alpha1.HarborCreating, "Ready", "Unknown", "NotSeen", "the connection broke")
	s.expect(v1alpha1.HarborCreating, "DatabaseReady", "Unknown", "Pending", "Not looked at yet")
	if made := s.children(); len(made) > 0 {
		t.Errorf("made: %v", made)
	}
}

func TestReconcile_looksAgainInAnyCase(t *testing.T) {
	s := newSuite(t)
	s.healthy()
	result, err := s.try()
	must(t, err)
	if result.RequeueAfter != 10*time.Minute {
		t.Errorf("looked again after %s", result.RequeueAfter)
	}
}

func TestReconcile_configuration(t *testing.T) {
	s := newSuite(t)
	s.healthy()
	condition := func() *metav1.Condition {
		return meta.FindStatusCondition(s.reconcile().Status.Conditions, v1alpha1.ConditionConfigurationReady)
	}
	if c := condition(); c != nil {
		t.Errorf("without settings: %+v", c)
	}
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"harborClusterRef": "sample", "configuration": map[string]any{"selfRegistration": false, "authMode": "db_auth"},
	}}}
	o.SetGroupVersionKind(harbor.ConfigurationKind)
	o.SetNamespace(s.namespace)
	o.SetName("day-two")
	must(t, s.client.Create(t.Context(), o))
	other := o.DeepCopy()
	other.SetName("other")
	other.SetResourceVersion("")
	other.Object["spec"].(map[string]any)["harborClusterRef"] = "another"
	must(t, s.client.Create(t.Context(), other))
	condition()
	s.expect(v1alpha1.HarborHealthy, "ConfigurationReady", "Unknown", "Starting", "day-two was not applied")
	s.operators.set(harbor.ConfigurationKind, "day-two", `{"status":"Fail","reason":"HarborClusterError","message":"no such Harbor"}`)
	condition()
	// It does not count for the status.
	s.expect(v1alpha1.HarborHealthy, "ConfigurationReady", "False", "ChildFailed", "HarborClusterError: no such Harbor")
	s.expect(v1alpha1.HarborHealthy, "Ready", "True", "Healthy", "")
	s.operators.set(harbor.ConfigurationKind, "day-two",
		`{"status":"Success","lastConfiguration":{"harborClusterRef":"sample","configuration":{"authMode":"db_auth"}}}`)
	condition()
	s.expect(v1alpha1.HarborHealthy, "ConfigurationReady", "True", "Applied", "day-two")
	have := s.child(harbor.ConfigurationKind, "day-two")
	must(t, unstructuredSet(have, "ldap_auth", "spec", "configuration", "authMode"))
	must(t, s.client.Update(t.Context(), have))
	condition()
	s.expect(v1alpha1.HarborHealthy, "ConfigurationReady", "Unknown", "Starting", "last change")
	s.intercept(interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
		if l.GetObjectKind().GroupVersionKind().Kind == "HarborConfiguration" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "harborconfigurations"}, "", errors.New("not for you"))
		}
		return c.List(ctx, l, opts...)
	}})
	condition()
	s.expect(v1alpha1.HarborHealthy, "ConfigurationReady", "Unknown", "NotSeen", "not for you")
	s.plain()
	must(t, s.client.Delete(t.Context(), have))
	if c := condition(); c != nil {
		t.Errorf("after the settings: %+v", c)
	}
}
