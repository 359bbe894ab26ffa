//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/test/operatortest"
)

// harborNamespace is where the HarborClusters are.
const harborNamespace = "registry"

// Kinds of what is looked at.
var (
	postgresqlKind  = schema.GroupVersionKind{Group: "acid.zalan.do", Version: "v1", Kind: "postgresql"}
	redisKind       = schema.GroupVersionKind{Group: "databases.spotahome.com", Version: "v1", Kind: "RedisFailover"}
	tenantKind      = schema.GroupVersionKind{Group: "minio.min.io", Version: "v2", Kind: "Tenant"}
	harborKind      = schema.GroupVersionKind{Group: "goharbor.io", Version: "v1beta1", Kind: "Harbor"}
	coreKind        = schema.GroupVersionKind{Group: "goharbor.io", Version: "v1beta1", Kind: "Core"}
	statefulSetKind = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "StatefulSet"}
	secretKind      = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	witnessKind     = v1alpha1.GroupVersion.WithKind("HarborWitness")
)

// harborJourney is what the steps share.
type harborJourney struct {
	// images of the operators, by the name of the program.
	images map[string]string
	// installed is what has to go at the end.
	installed []*unstructured.Unstructured
	// certificate and key are what cert-manager issues here, and what Harbor's operator serves its webhooks with. Nobody calls those.
	certificate, key []byte
	// played is what those that stand in for programs complained about last.
	played atomic.Pointer[error]
}

// TestHarborClusterOnRealOperators runs HarborClusters on the published operators of PostgreSQL, Redis and Harbor. These are installed late, upgraded, and
// removed, while a HarborCluster exists; each takes its child up and makes what it makes. No PostgreSQL, MinIO and Harbor runs in the pods. At the end the
// garbage collector of a real Kubernetes orphans one HarborCluster, and another one is removed with its data.
func TestHarborClusterOnRealOperators(t *testing.T) {
	turn(t, 2, 20)
	h := &harborJourney{images: map[string]string{}}
	for _, name := range []string{"postgres-v1.9.0", "postgres-v1.15.0", "redis-v1.2.4", "harbor-v1.3.0"} {
		h.images[name] = loadOperator(t, name)
	}
	loadImage(t, "Dockerfile", harborStandIn, repoRoot()+"/test/harbor")
	create(t, newCluster("registry", nodes...))
	waitReady(t, "registry", limitPod)
	for _, name := range []string{operatorNamespace, harborNamespace} {
		createObject(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	t.Cleanup(func() { h.uninstallAll(t) })
	createObject(t, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: harborNamespace, Name: "quarry-harbor"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "quarry-harbor"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "quarry-controller", Namespace: controllerNamespace}},
	})
	for name, key := range map[string]string{"admin": "secret", "redis": "redis-password", "s3": "secret"} {
		createObject(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: harborNamespace, Name: name}, StringData: map[string]string{key: "example"}})
	}
	go h.play(t.Context())

	h.comesBeforeItsOperators(t)
	uid := h.runs(t)
	h.isUpgraded(t, uid)
	h.losesAnOperator(t)
	h.isOrphaned(t)
	h.isRemoved(t)
}

// harborCluster makes one on the stand-ins' image and the lab's volumes, and sees to it that it is gone at the end, and its data with it.
func (h *harborJourney) harborCluster(t *testing.T, name string, change ...func(*v1alpha1.HarborCluster)) *v1alpha1.HarborCluster {
	t.Helper()
	raw := func(text string) runtime.RawExtension { return runtime.RawExtension{Raw: []byte(text)} }
	image := v1alpha1.HarborImage{Image: harborStandIn, ImagePullPolicy: corev1.PullNever}
	size := resource.MustParse("100Mi")
	c := &v1alpha1.HarborCluster{ObjectMeta: metav1.ObjectMeta{Namespace: harborNamespace, Name: name}}
	c.Spec.DeletionPolicy, c.Spec.StorageClassName = v1alpha1.HarborDelete, "registry"
	c.Spec.HarborApplication = v1alpha1.HarborApplication{
		Expose:      v1alpha1.HarborExpose{Core: raw(`{"ingress":{"host":"harbor.example.com"}}`)},
		ExternalURL: "https://harbor.example.com", HarborAdminPasswordRef: "admin", Version: "2.5.0",
		Core: raw(`{"tokenIssuer":{"kind":"Issuer","name":"example"}}`),
	}
	c.Spec.Database.Kind = v1alpha1.DatabaseKindZlando
	c.Spec.Database.Spec.ZlandoPostgreSQL = &v1alpha1.HarborZlandoPostgreSQL{Replicas: 1, Storage: &size, SslConfig: "require"}
	c.Spec.Cache.Kind = v1alpha1.CacheKindRedisFailover
	c.Spec.Cache.Spec.RedisFailover = &v1alpha1.HarborRedisFailover{
		HarborImage: image, Server: &v1alpha1.HarborRedisServer{Replicas: 1, Storage: &size}, Sentinel: &v1alpha1.HarborRedisSentinel{Replicas: 1},
	}
	c.Spec.Storage.Kind = v1alpha1.StorageKindMinIO
	c.Spec.Storage.Spec.MinIO = &v1alpha1.HarborMinIO{Replicas: 4, VolumesPerServer: 1, MC: &image}
	for _, f := range change {
		f(c)
	}
	if err := kube.Create(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			h.dump(t)
		}
		remove(t, c)
	})
	return c
}

func (h *harborJourney) dump(t *testing.T) {
	t.Helper()
	for _, args := range [][]string{
		{"-n", harborNamespace, "get", "harborclusters.quarry.storage", "-o", "yaml"},
		{"-n", harborNamespace, "get", "all,endpointslices,persistentvolumeclaims,secrets", "-o", "wide"},
		{"-n", harborNamespace, "get", "events", "--sort-by=.lastTimestamp"},
		{"-n", operatorNamespace, "get", "pods", "-o", "wide"},
	} {
		out, err := tryLab(append([]string{"kubectl"}, args...)...)
		t.Log(strings.Join(args, " "), out, err)
	}
	if err := h.played.Load(); err != nil {
		t.Logf("the stand-ins say: %v", *err)
	}
}

// harborObject returns an object of the HarborClusters' namespace; nil when there is none.
func harborObject(ctx context.Context, kind schema.GroupVersionKind, name string) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	err := kube.Get(ctx, client.ObjectKey{Namespace: harborNamespace, Name: name}, o)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil, nil
	}
	return o, err
}

// waitObject waits until an object is there, or until it is not.
func waitObject(t *testing.T, kind schema.GroupVersionKind, name string, there bool) (found *unstructured.Unstructured) {
	t.Helper()
	eventually(t, limitOperator, fmt.Sprintf("%s %s is there: %t", kind.Kind, name, there), func(ctx context.Context) (err error) {
		if found, err = harborObject(ctx, kind, name); err != nil {
			return err
		}
		if (found != nil) != there {
			return fmt.Errorf("it is there: %t", found != nil)
		}
		return nil
	})
	return found
}

// waitPart waits until a condition of the HarborCluster has a status and a reason.
func waitPart(t *testing.T, c *v1alpha1.HarborCluster, condition string, status metav1.ConditionStatus, reason string) {
	t.Helper()
	eventually(t, limitOperator, fmt.Sprintf("%s of %s is %s, %s", condition, c.Name, status, reason), func(ctx context.Context) error {
		if err := kube.Get(ctx, client.ObjectKeyFromObject(c), c); err != nil {
			return err
		}
		is := meta.FindStatusCondition(c.Status.Conditions, condition)
		if is == nil || is.Status != status || is.Reason != reason {
			return fmt.Errorf("it is %+v", is)
		}
		return nil
	})
}

func databaseOf(c *v1alpha1.HarborCluster) string {
	return "postgresql-" + harborNamespace + "-" + c.Name
}

// comesBeforeItsOperators makes a HarborCluster while nothing is installed, and then the operators: it tells what is missing, and takes up what comes.
func (h *harborJourney) comesBeforeItsOperators(t *testing.T) {
	t.Helper()
	c := h.harborCluster(t, "sample")
	for _, condition := range []string{v1alpha1.ConditionDatabaseReady, v1alpha1.ConditionCacheReady, v1alpha1.ConditionStorageReady} {
		waitPart(t, c, condition, metav1.ConditionFalse, v1alpha1.ReasonHarborOperatorMissing)
	}
	tenants := operatortest.Tenants(t)
	tenant := tenants[len(tenants)-1].CRD
	applyAs(t, tenant)
	h.installed = append(h.installed, tenant)
	waitObject(t, tenantKind, "minio-"+c.Name, true)
	h.install(t, operatortest.PostgresOperator(t, "v1.9.0"))
	h.install(t, operatortest.RedisOperator(t))
	h.certManager(t)
	h.install(t, operatortest.HarborOperator(t))
}

// runs waits until every operator has taken up its child and made what it makes, and returns the UID of PostgreSQL's StatefulSet.
func (h *harborJourney) runs(t *testing.T) types.UID {
	t.Helper()
	c := &v1alpha1.HarborCluster{ObjectMeta: metav1.ObjectMeta{Namespace: harborNamespace, Name: "sample"}}
	set := waitObject(t, statefulSetKind, databaseOf(c), true)
	waitObject(t, secretKind, "harbor."+databaseOf(c)+".credentials.postgresql.acid.zalan.do", true)
	waitPart(t, c, v1alpha1.ConditionDatabaseReady, metav1.ConditionTrue, v1alpha1.ReasonHarborRunning)
	waitObject(t, statefulSetKind, "rfr-sample-redis", true)
	waitPart(t, c, v1alpha1.ConditionCacheReady, metav1.ConditionTrue, v1alpha1.ReasonHarborRunning)
	waitPart(t, c, v1alpha1.ConditionStorageReady, metav1.ConditionTrue, v1alpha1.ReasonHarborRunning)
	// Harbor's operator makes the parts of a Harbor one after the other; none of them runs here.
	waitObject(t, harborKind, "sample-harbor", true)
	waitObject(t, coreKind, "sample-harbor-harbor", true)
	waitPart(t, c, v1alpha1.ConditionServiceReady, metav1.ConditionUnknown, v1alpha1.ReasonHarborStarting)
	return set.GetUID()
}

// isUpgraded installs a later postgres-operator over the one that runs: the database stays what it is, also its version of PostgreSQL.
func (h *harborJourney) isUpgraded(t *testing.T, uid types.UID) {
	t.Helper()
	c := &v1alpha1.HarborCluster{ObjectMeta: metav1.ObjectMeta{Namespace: harborNamespace, Name: "sample"}}
	version := func() string {
		o := waitObject(t, postgresqlKind, databaseOf(c), true)
		v, _, _ := unstructured.NestedString(o.Object, "spec", "postgresql", "version")
		return v
	}
	before := version()
	claims := h.claims(t)
	h.install(t, operatortest.PostgresOperator(t, "v1.15.0"))
	waitPart(t, c, v1alpha1.ConditionDatabaseReady, metav1.ConditionTrue, v1alpha1.ReasonHarborRunning)
	// A change of the spec reaches the later operator, and the database.
	patch := client.MergeFrom(c.DeepCopy())
	c.Spec.Database.Spec.ZlandoPostgreSQL.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("11m")}
	if err := kube.Patch(t.Context(), c, patch); err != nil {
		t.Fatal(err)
	}
	eventually(t, limitOperator, "the later operator has changed the StatefulSet", func(ctx context.Context) error {
		o, err := harborObject(ctx, statefulSetKind, databaseOf(c))
		if err != nil || o == nil {
			return errors.Join(err, errors.New("there is none"))
		}
		containers, _, err := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
		if err != nil || len(containers) == 0 {
			return errors.Join(err, errors.New("it has no containers"))
		}
		cpu, _, err := unstructured.NestedString(containers[0].(map[string]any), "resources", "requests", "cpu")
		if err != nil || cpu != "11m" {
			return errors.Join(err, fmt.Errorf("it asks for %s", cpu))
		}
		return nil
	})
	waitPart(t, c, v1alpha1.ConditionDatabaseReady, metav1.ConditionTrue, v1alpha1.ReasonHarborRunning)
	if set := waitObject(t, statefulSetKind, databaseOf(c), true); set.GetUID() != uid {
		t.Error("the StatefulSet of PostgreSQL was made anew")
	}
	if after := version(); after != before {
		t.Errorf("PostgreSQL was %s and is to be %s", before, after)
	}
	for name, id := range claims {
		if h.claims(t)[name] != id {
			t.Errorf("the volume %s is another one, or gone", name)
		}
	}
}

// claims returns the UIDs of the claims by their names.
func (h *harborJourney) claims(t *testing.T) map[string]types.UID {
	t.Helper()
	l := &corev1.PersistentVolumeClaimList{}
	if err := kube.List(t.Context(), l, client.InNamespace(harborNamespace)); err != nil {
		t.Fatal(err)
	}
	out := map[string]types.UID{}
	for _, c := range l.Items {
		out[c.Name] = c.UID
	}
	return out
}

// losesAnOperator removes the definition of the cache, which removes the cache; it is told, no other part is touched, and it comes back.
func (h *harborJourney) losesAnOperator(t *testing.T) {
	t.Helper()
	c := &v1alpha1.HarborCluster{ObjectMeta: metav1.ObjectMeta{Namespace: harborNamespace, Name: "sample"}}
	database := waitObject(t, postgresqlKind, databaseOf(c), true)
	lab(t, "kubectl", "-n", operatorNamespace, "delete", "deployment", "redisoperator")
	lab(t, "kubectl", "delete", "crd", "redisfailovers.databases.spotahome.com", "--timeout=60s")
	waitPart(t, c, v1alpha1.ConditionCacheReady, metav1.ConditionFalse, v1alpha1.ReasonHarborOperatorMissing)
	waitObject(t, statefulSetKind, "rfr-sample-redis", false)
	if now := waitObject(t, postgresqlKind, databaseOf(c), true); now.GetUID() != database.GetUID() {
		t.Error("the database was made anew")
	}
	h.install(t, operatortest.RedisOperator(t))
	waitObject(t, redisKind, "sample-redis", true)
	waitPart(t, c, v1alpha1.ConditionCacheReady, metav1.ConditionTrue, v1alpha1.ReasonHarborRunning)
}

// isOrphaned deletes a HarborCluster of which no child has an owner, with --cascade=orphan: its database stays, although deletionPolicy is Delete.
func (h *harborJourney) isOrphaned(t *testing.T) {
	t.Helper()
	external := func(c *v1alpha1.HarborCluster) {
		c.Spec.Cache.Kind = v1alpha1.CacheKindRedis
		c.Spec.Cache.Spec = v1alpha1.HarborCacheSpec{Redis: &v1alpha1.HarborRedis{Host: "redis.example.com", PasswordRef: "redis"}}
		c.Spec.Storage.Kind = v1alpha1.StorageKindS3
		c.Spec.Storage.Spec = v1alpha1.HarborStorageSpec{S3: &runtime.RawExtension{Raw: []byte(`{"bucket":"b","region":"r","secretkeyRef":"s3"}`)}}
	}
	c := h.harborCluster(t, "orphaned", external)
	database := waitObject(t, postgresqlKind, databaseOf(c), true)
	waitObject(t, witnessKind, c.Name, true)
	eventually(t, limitOperator, "it has its finalizer", func(ctx context.Context) error {
		if err := kube.Get(ctx, client.ObjectKeyFromObject(c), c); err != nil {
			return err
		}
		if len(c.Finalizers) == 0 {
			return errors.New("it has none")
		}
		return nil
	})
	first := c.UID
	lab(t, "kubectl", "-n", harborNamespace, "delete", "harborcluster.quarry.storage", c.Name, "--cascade=orphan", "--timeout=60s")
	waitObject(t, witnessKind, c.Name, false)
	if now := waitObject(t, postgresqlKind, databaseOf(c), true); now.GetUID() != database.GetUID() || now.GetDeletionTimestamp() != nil {
		t.Error("the database is removed")
	}
	// Made again, it takes the database back, and removes it when it is told to.
	c = h.harborCluster(t, "orphaned", external)
	eventually(t, limitOperator, "the new one has its own witness", func(ctx context.Context) error {
		if err := kube.Get(ctx, client.ObjectKeyFromObject(c), c); err != nil {
			return err
		}
		if len(c.Finalizers) == 0 || c.UID == first || c.Status.Witness == "" {
			return fmt.Errorf("finalizers %v, witness %s", c.Finalizers, c.Status.Witness)
		}
		return nil
	})
	h.isDeletedWhileNobodyLooks(t, c)
}

// isDeletedWhileNobodyLooks deletes a HarborCluster with --cascade=foreground while the controller is away: Kubernetes' garbage collector removes all that has
// an owner, but the witness waits for the controller, which removes the data.
func (h *harborJourney) isDeletedWhileNobodyLooks(t *testing.T, c *v1alpha1.HarborCluster) {
	t.Helper()
	stopController(t)
	lab(t, "kubectl", "-n", harborNamespace, "delete", "harborcluster.quarry.storage", c.Name, "--cascade=foreground", "--wait=false")
	eventually(t, limitOperator, "the garbage collector has begun", func(ctx context.Context) error {
		w := &v1alpha1.HarborWitness{}
		if err := kube.Get(ctx, client.ObjectKeyFromObject(c), w); err != nil {
			return err
		}
		if w.DeletionTimestamp.IsZero() {
			return errors.New("the witness is not being deleted")
		}
		return nil
	})
	waitObject(t, postgresqlKind, databaseOf(c), true)
	startController(t)
	lab(t, "kubectl", "-n", harborNamespace, "wait", "--for=delete", "harborcluster.quarry.storage/"+c.Name, "--timeout=180s")
	waitObject(t, postgresqlKind, databaseOf(c), false)
	waitObject(t, witnessKind, c.Name, false)
}

// isRemoved deletes the HarborCluster with its data: nothing of it is left, and the operators have removed what they made.
func (h *harborJourney) isRemoved(t *testing.T) {
	t.Helper()
	c := &v1alpha1.HarborCluster{ObjectMeta: metav1.ObjectMeta{Namespace: harborNamespace, Name: "sample"}}
	if len(h.claims(t)) == 0 {
		t.Error("there is no volume to remove")
	}
	remove(t, c)
	for kind, name := range map[schema.GroupVersionKind]string{
		postgresqlKind: databaseOf(c), redisKind: "sample-redis", tenantKind: "minio-sample", harborKind: "sample-harbor", statefulSetKind: databaseOf(c),
	} {
		waitObject(t, kind, name, false)
	}
	for _, name := range []string{"sample-database-password", "minio-sample-creds", "minio-sample-configuration", "minio-sample", "sample-redis"} {
		waitObject(t, secretKind, name, false)
	}
	if left := h.claims(t); len(left) > 0 {
		t.Errorf("volumes are left: %v", left)
	}
}
