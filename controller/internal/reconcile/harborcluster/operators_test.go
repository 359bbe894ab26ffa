package harborcluster

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/harbor"
)

// operators stand in for those of the children: they move status as the real ones do, one step at a time.
type operators struct {
	t         *testing.T
	client    client.Client
	namespace string
	// told are the moves since they were last taken.
	told []string
}

// step moves every child one step on.
func (o *operators) step() {
	o.t.Helper()
	o.stepDatabase()
	o.stepCache()
	o.stepStorage()
	o.stepBucket()
	o.stepHarbor()
}

func (o *operators) tell(format string, args ...any) {
	o.told = append(o.told, fmt.Sprintf(format, args...))
}

func (o *operators) database() string { return "postgresql-" + o.namespace + "-sample" }

// find returns a child and a string of its status; nil when it does not exist.
func (o *operators) find(kind schema.GroupVersionKind, name string, path ...string) (*unstructured.Unstructured, string) {
	o.t.Helper()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	err := o.client.Get(context.Background(), types.NamespacedName{Namespace: o.namespace, Name: name}, u)
	if apierrors.IsNotFound(err) {
		return nil, ""
	}
	must(o.t, err)
	state, _, _ := unstructured.NestedString(u.Object, append([]string{"status"}, path...)...)
	return u, state
}

// set writes a status.
func (o *operators) set(kind schema.GroupVersionKind, name, status string) {
	o.t.Helper()
	u, _ := o.find(kind, name)
	if u == nil {
		o.t.Fatalf("no %s %s", kind.Kind, name)
	}
	var value any
	must(o.t, json.Unmarshal([]byte(status), &value))
	u.Object["status"] = value
	must(o.t, o.client.Status().Update(context.Background(), u))
}

func (o *operators) setDatabase(state string) {
	o.t.Helper()
	o.set(harbor.PostgresqlKind, o.database(), `{"PostgresClusterStatus":"`+state+`"}`)
	o.tell("postgresql is %s", state)
}

// setCredentials makes the Secret of Harbor's user, or gives it another password.
func (o *operators) setCredentials(password string) {
	o.t.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: o.namespace, Name: "harbor." + o.database() + ".credentials.postgresql.acid.zalan.do",
	}}
	s.StringData = map[string]string{"username": "harbor", "password": password}
	err := o.client.Create(context.Background(), s)
	if apierrors.IsAlreadyExists(err) {
		err = o.client.Update(context.Background(), s)
	}
	must(o.t, err)
}

// setMaster makes the EndpointSlice of the master's Service, or lets it lead nowhere.
func (o *operators) setMaster(addresses ...string) {
	o.t.Helper()
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: o.namespace, Name: o.database(), Labels: map[string]string{
			harbor.LabelService: o.database(), harbor.LabelApplication: harbor.ApplicationSpilo,
		}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{},
	}
	if len(addresses) > 0 {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: addresses})
	}
	err := o.client.Create(context.Background(), s)
	if apierrors.IsAlreadyExists(err) {
		err = o.client.Update(context.Background(), s)
	}
	must(o.t, err)
}

func (o *operators) stepDatabase() {
	o.t.Helper()
	switch u, state := o.find(harbor.PostgresqlKind, o.database(), "PostgresClusterStatus"); {
	case u == nil:
	case state == "":
		o.setDatabase("Creating")
	case state == "Creating":
		o.setCredentials("from the operator")
		o.setMaster("10.0.0.1")
		o.setDatabase("Running")
	}
}

func (o *operators) stepCache() {
	o.t.Helper()
	if u, _ := o.find(harbor.RedisFailoverKind, "sample-redis"); u == nil {
		return
	}
	servers := &appsv1.StatefulSet{}
	err := o.client.Get(context.Background(), types.NamespacedName{Namespace: o.namespace, Name: "rfr-sample-redis"}, servers)
	switch {
	case apierrors.IsNotFound(err):
		o.makeRedis()
		o.tell("redis makes its StatefulSet and Deployment")
	case err != nil:
		o.t.Fatal(err)
	case servers.Status.ReadyReplicas == 0:
		o.setRedis(3, 3)
	}
}

func (o *operators) makeRedis() {
	o.t.Helper()
	labels := map[string]string{"app.kubernetes.io/name": "sample-redis", harbor.LabelPartOf: harbor.PartOfRedis}
	pod := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "redis", Image: "redis"}}},
	}
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: o.namespace, Name: name, Labels: labels}
	}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	must(o.t, o.client.Create(context.Background(), &appsv1.StatefulSet{
		ObjectMeta: meta("rfr-sample-redis"), Spec: appsv1.StatefulSetSpec{Replicas: new(int32(3)), Selector: selector, Template: pod},
	}))
	must(o.t, o.client.Create(context.Background(), &appsv1.Deployment{
		ObjectMeta: meta("rfs-sample-redis"), Spec: appsv1.DeploymentSpec{Replicas: new(int32(3)), Selector: selector, Template: pod},
	}))
}

func (o *operators) setRedis(servers, sentinels int32) {
	o.t.Helper()
	s, d := &appsv1.StatefulSet{}, &appsv1.Deployment{}
	must(o.t, o.client.Get(context.Background(), types.NamespacedName{Namespace: o.namespace, Name: "rfr-sample-redis"}, s))
	must(o.t, o.client.Get(context.Background(), types.NamespacedName{Namespace: o.namespace, Name: "rfs-sample-redis"}, d))
	s.Status.ObservedGeneration, s.Status.Replicas, s.Status.ReadyReplicas = s.Generation, 3, servers
	d.Status.ObservedGeneration, d.Status.Replicas, d.Status.ReadyReplicas = d.Generation, 3, sentinels
	must(o.t, o.client.Status().Update(context.Background(), s))
	must(o.t, o.client.Status().Update(context.Background(), d))
	o.tell("redis has %d servers and %d sentinels", servers, sentinels)
}

func (o *operators) setTenant(state string, available int, poolState string) {
	o.t.Helper()
	o.set(harbor.TenantKind, "minio-sample", fmt.Sprintf(
		`{"currentState":%q,"availableReplicas":%d,"pools":[{"ssName":"minio-sample-zone-harbor","state":%q}],`+
			`"revision":0,"syncVersion":"","certificates":{}}`, state, available, poolState))
	o.tell("tenant is %q with %d servers, its pool is %s", state, available, poolState)
}

func (o *operators) stepStorage() {
	o.t.Helper()
	switch u, state := o.find(harbor.TenantKind, "minio-sample", "currentState"); {
	case u == nil:
	case state == "":
		o.setTenant("Provisioning MinIO Statefulset", 0, "PoolCreated")
	case state == "Provisioning MinIO Statefulset":
		o.setTenant("Initialized", 2, "PoolInitialized")
	}
}

func (o *operators) setBucket(kind batchv1.JobConditionType, message string) {
	o.t.Helper()
	j := &batchv1.Job{}
	must(o.t, o.client.Get(context.Background(), types.NamespacedName{Namespace: o.namespace, Name: "minio-sample"}, j))
	now := metav1.Now()
	before := batchv1.JobSuccessCriteriaMet
	if kind == batchv1.JobFailed {
		before = batchv1.JobFailureTarget
	}
	j.Status.StartTime = &now
	j.Status.Conditions = []batchv1.JobCondition{
		{Type: before, Status: corev1.ConditionTrue, LastTransitionTime: now},
		{Type: kind, Status: corev1.ConditionTrue, Message: message, LastTransitionTime: now},
	}
	if kind == batchv1.JobComplete {
		j.Status.CompletionTime, j.Status.Succeeded = &now, 1
	}
	must(o.t, o.client.Status().Update(context.Background(), j))
	o.tell("job is %s", kind)
}

func (o *operators) stepBucket() {
	o.t.Helper()
	u, _ := o.find(harbor.JobKind, "minio-sample")
	if u == nil {
		return
	}
	if conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions"); len(conditions) == 0 {
		o.setBucket(batchv1.JobComplete, "")
	}
}

func (o *operators) setHarbor(working, failed, message string) {
	o.t.Helper()
	u, _ := o.find(harbor.HarborKind, "sample-harbor")
	o.set(harbor.HarborKind, "sample-harbor", fmt.Sprintf(
		`{"observedGeneration":%d,"conditions":[{"type":"InProgress","status":%q,"message":%q},{"type":"Failed","status":%q,"message":%q}]}`,
		u.GetGeneration(), working, message, failed, message))
	o.tell("harbor is in progress: %s, failed: %s", working, failed)
}

func (o *operators) stepHarbor() {
	o.t.Helper()
	u, _ := o.find(harbor.HarborKind, "sample-harbor")
	if u == nil {
		return
	}
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	if len(conditions) == 0 {
		o.setHarbor("True", "False", "waiting for core")
		return
	}
	if first, ok := conditions[0].(map[string]any); ok && first["status"] == "True" {
		o.setHarbor("False", "False", "")
	}
}
