package setup

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
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

// registry is a namespace with a HarborCluster, between a controller with its own rights and operators that are as the test says.
type registry struct {
	t     *testing.T
	admin client.Client
	name  string
}

func newRegistry(t *testing.T, admin client.Client, bound bool) *registry {
	t.Helper()
	ctx := context.Background()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "registry-"}}
	if err := admin.Create(ctx, ns); err != nil {
		t.Fatal(err)
	}
	r := &registry{t: t, admin: admin, name: ns.Name}
	if bound {
		bind(t, admin, r.name, "quarry-harbor")
	}
	c := &v1alpha1.HarborCluster{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "sample"}}
	c.Spec.HarborApplication = v1alpha1.HarborApplication{
		Expose:      v1alpha1.HarborExpose{Core: runtime.RawExtension{Raw: []byte(`{"ingress":{"host":"harbor.example.com"}}`)}},
		ExternalURL: "https://harbor.example.com", HarborAdminPasswordRef: "admin", Version: "2.5.0",
		Core: runtime.RawExtension{Raw: []byte(`{}`)},
	}
	c.Spec.Database.Kind, c.Spec.Database.Spec.ZlandoPostgreSQL = v1alpha1.DatabaseKindZlando, &v1alpha1.HarborZlandoPostgreSQL{}
	c.Spec.Cache.Kind, c.Spec.Cache.Spec.RedisFailover = v1alpha1.CacheKindRedisFailover, &v1alpha1.HarborRedisFailover{}
	c.Spec.Storage.Kind = v1alpha1.StorageKindMinIO
	c.Spec.Storage.Spec.MinIO = &v1alpha1.HarborMinIO{Replicas: 2, VolumesPerServer: 2}
	for _, o := range []client.Object{r.secretOf("admin", "secret"), c} {
		if err := admin.Create(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func (r *registry) secretOf(name, key string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: r.name, Name: name}, StringData: map[string]string{key: "x"}}
}

// bind does what the samples do: it lets the controller write in a namespace.
func bind(t *testing.T, admin client.Client, in, role string) {
	t.Helper()
	if err := admin.Create(context.Background(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: role},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "quarry-controller", Namespace: namespace}},
	}); err != nil {
		t.Fatal(err)
	}
}

// expect waits for a condition with one of some reasons. An empty status is any.
func (r *registry) expect(condition string, status metav1.ConditionStatus, reasons ...string) {
	r.t.Helper()
	await(r.t, condition+" "+string(status)+" "+strings.Join(reasons, " or "), func() string {
		c := &v1alpha1.HarborCluster{}
		if err := r.admin.Get(context.Background(), types.NamespacedName{Namespace: r.name, Name: "sample"}, c); err != nil {
			return err.Error()
		}
		got := meta.FindStatusCondition(c.Status.Conditions, condition)
		if got == nil || status != "" && got.Status != status || !slices.Contains(reasons, got.Reason) {
			return "not yet: " + fmtCondition(got)
		}
		return ""
	})
}

func fmtCondition(c *metav1.Condition) string {
	if c == nil {
		return "no condition"
	}
	return string(c.Status) + " " + c.Reason + " " + c.Message
}

// set gives a child a status, as its operator would.
func (r *registry) set(apiVersion, kind, name string, status map[string]any) {
	r.t.Helper()
	await(r.t, kind+" "+name, func() string {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(schema.FromAPIVersionAndKind(apiVersion, kind))
		if err := r.admin.Get(context.Background(), types.NamespacedName{Namespace: r.name, Name: name}, o); err != nil {
			return err.Error()
		}
		o.Object["status"] = status
		if err := r.admin.Status().Update(context.Background(), o); err != nil {
			return err.Error()
		}
		return ""
	})
}

// redis makes what the operator of Redis makes, already running.
func (r *registry) redis() {
	r.t.Helper()
	ctx := context.Background()
	labels := map[string]string{"app.kubernetes.io/part-of": "redis-failover", "app.kubernetes.io/name": "sample-redis"}
	pod := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "redis", Image: "redis"}}},
	}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	s := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.name, Name: "rfr-sample-redis", Labels: labels},
		Spec:       appsv1.StatefulSetSpec{Selector: selector, Template: pod},
	}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.name, Name: "rfs-sample-redis", Labels: labels},
		Spec:       appsv1.DeploymentSpec{Selector: selector, Template: pod},
	}
	for _, o := range []client.Object{s, d} {
		if err := r.admin.Create(ctx, o); err != nil {
			r.t.Fatal(err)
		}
	}
	s.Status = appsv1.StatefulSetStatus{ObservedGeneration: s.Generation, Replicas: 1, ReadyReplicas: 1}
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: 1, ReadyReplicas: 1}
	for _, o := range []client.Object{s, d} {
		if err := r.admin.Status().Update(ctx, o); err != nil {
			r.t.Fatal(err)
		}
	}
}

// bucket lets the Job succeed.
func (r *registry) bucket() {
	r.t.Helper()
	await(r.t, "the bucket", func() string {
		j := &batchv1.Job{}
		if err := r.admin.Get(context.Background(), types.NamespacedName{Namespace: r.name, Name: "minio-sample"}, j); err != nil {
			return err.Error()
		}
		now := metav1.Now()
		j.Status.StartTime, j.Status.CompletionTime, j.Status.Succeeded = &now, &now, 1
		for _, k := range []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete} {
			j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{Type: k, Status: corev1.ConditionTrue, LastTransitionTime: now})
		}
		if err := r.admin.Status().Update(context.Background(), j); err != nil {
			return err.Error()
		}
		return ""
	})
}

// followOperators is a part of the test of the running controller, because a process can have one only. The controller learns of everything by
// watches: of definitions that appear while it runs, of children, and of what their operators make.
func followOperators(t *testing.T, admin client.Client) {
	denied := newRegistry(t, admin, false)
	r := newRegistry(t, admin, true)
	denied.expect("ServiceReady", metav1.ConditionFalse, v1alpha1.ReasonAccessDenied)
	for _, condition := range []string{"StorageReady", "DatabaseReady", "CacheReady", "ServiceReady"} {
		r.expect(condition, metav1.ConditionFalse, v1alpha1.ReasonHarborOperatorMissing)
	}
	operatortest.Install(t, admin, operatortest.Latest(t)...)
	r.expect("CacheReady", metav1.ConditionUnknown, v1alpha1.ReasonHarborStarting)
	r.redis()
	r.expect("CacheReady", metav1.ConditionTrue, v1alpha1.ReasonHarborRunning)

	database := "postgresql-" + r.name + "-sample"
	if err := admin.Create(context.Background(), r.secretOf("harbor."+database+".credentials.postgresql.acid.zalan.do", "password")); err != nil {
		t.Fatal(err)
	}
	r.set("acid.zalan.do/v1", "postgresql", database, map[string]any{"PostgresClusterStatus": "Running"})
	r.expect("DatabaseReady", metav1.ConditionUnknown, v1alpha1.ReasonHarborStarting)
	if err := admin.Create(context.Background(), &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.name, Name: database, Labels: map[string]string{
			"kubernetes.io/service-name": database, "application": "spilo",
		}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}},
	}); err != nil {
		t.Fatal(err)
	}
	r.expect("DatabaseReady", metav1.ConditionTrue, v1alpha1.ReasonHarborRunning)
	r.set("minio.min.io/v2", "Tenant", "minio-sample", map[string]any{
		"currentState": "Initialized", "availableReplicas": int64(2), "revision": int64(1), "syncVersion": "v5", "certificates": map[string]any{},
		"pools": []any{map[string]any{"ssName": "minio-sample-zone-harbor", "state": "PoolInitialized"}},
	})
	r.bucket()
	r.expect("StorageReady", metav1.ConditionTrue, v1alpha1.ReasonHarborRunning)
	r.set("goharbor.io/v1beta1", "Harbor", "sample-harbor", map[string]any{"conditions": []any{
		map[string]any{"type": "InProgress", "status": "False"}, map[string]any{"type": "Failed", "status": "False"},
	}})
	r.expect("Ready", metav1.ConditionTrue, v1alpha1.ReasonHarborHealthy)
	r.set("acid.zalan.do/v1", "postgresql", database, map[string]any{"PostgresClusterStatus": "SyncFailed"})
	r.expect("Ready", metav1.ConditionFalse, v1alpha1.ReasonHarborUnhealthy)

	c := &v1alpha1.HarborCluster{}
	if err := admin.Get(context.Background(), types.NamespacedName{Namespace: r.name, Name: "sample"}, c); err != nil {
		t.Fatal(err)
	}
	c.Spec.StorageClassName = "later"
	if err := admin.Update(context.Background(), c); err != nil {
		t.Fatal(err)
	}
	r.expect("CacheReady", metav1.ConditionFalse, v1alpha1.ReasonHarborStorageClassMissing)
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "later"}, Provisioner: v1alpha1.DriverLVM}
	if err := admin.Create(context.Background(), class); err != nil {
		t.Fatal(err)
	}
	r.expect("CacheReady", metav1.ConditionTrue, v1alpha1.ReasonHarborRunning)

	// What is not bound stays closed.
	controller := clientOf(t, as(t, "quarry-controller"))
	err := controller.Get(context.Background(), types.NamespacedName{Namespace: denied.name, Name: "admin"}, &corev1.Secret{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("the controller may read Secrets where nobody allowed it: %v", err)
	}
	bind(t, admin, denied.name, "quarry-harbor")
	denied.expect("DatabaseReady", metav1.ConditionUnknown, v1alpha1.ReasonHarborStarting)
	r.configure()
	r.end(database)
}

// configure makes settings that Harbor's operator applies; of those, too, the controller learns by a watch.
func (r *registry) configure() {
	r.t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"harborClusterRef": "sample", "configuration": map[string]any{"authMode": "db_auth"},
	}}}
	o.SetGroupVersionKind(schema.FromAPIVersionAndKind("goharbor.io/v1beta1", "HarborConfiguration"))
	o.SetNamespace(r.name)
	o.SetName("settings")
	if err := r.admin.Create(context.Background(), o); err != nil {
		r.t.Fatal(err)
	}
	r.expect(v1alpha1.ConditionConfigurationReady, metav1.ConditionUnknown, v1alpha1.ReasonHarborStarting)
	r.set("goharbor.io/v1beta1", "HarborConfiguration", "settings", map[string]any{"status": "Success"})
	r.expect(v1alpha1.ConditionConfigurationReady, metav1.ConditionTrue, v1alpha1.ReasonHarborApplied)
}

// end deletes the HarborCluster with its data, by the rights that the controller has.
func (r *registry) end(database string) {
	r.t.Helper()
	ctx := context.Background()
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: r.name, Name: "pgdata-" + database + "-0", Labels: map[string]string{"cluster-name": database},
	}}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	c := &v1alpha1.HarborCluster{}
	steps := []error{r.admin.Create(ctx, claim), r.admin.Get(ctx, types.NamespacedName{Namespace: r.name, Name: "sample"}, c)}
	c.Spec.DeletionPolicy = v1alpha1.HarborDelete
	steps = append(steps, r.admin.Update(ctx, c), r.admin.Delete(ctx, c),
		r.admin.Delete(ctx, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: r.name, Name: "rfr-sample-redis"}}))
	if err := errors.Join(steps...); err != nil {
		r.t.Fatal(err)
	}
	await(r.t, "the HarborCluster is gone with its data", func() string {
		// No controller of Kubernetes protects claims here, nor lets them go.
		if r.admin.Get(ctx, client.ObjectKeyFromObject(claim), claim) == nil && claim.DeletionTimestamp != nil {
			claim.Finalizers = nil
			if err := r.admin.Update(ctx, claim); err != nil {
				return err.Error()
			}
		}
		if err := r.admin.Get(ctx, client.ObjectKeyFromObject(c), c); !apierrors.IsNotFound(err) {
			return "it is there: " + fmtCondition(meta.FindStatusCondition(c.Status.Conditions, "Ready"))
		}
		err := r.admin.Get(ctx, types.NamespacedName{Namespace: r.name, Name: "minio-sample-creds"}, &corev1.Secret{})
		if !apierrors.IsNotFound(err) {
			return "the credentials are left"
		}
		return ""
	})
}
