package harborcluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"quarry.storage/quarry/controller/internal/apitest"
	"quarry.storage/quarry/controller/internal/decide/harbor"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/test/operatortest"
)

func TestMain(m *testing.M) { apitest.Main(m) }

// suite is the reconciler in a namespace of a real API server, with the definitions of the children.
type suite struct {
	t         *testing.T
	client    *cachedClient
	r         *Reconciler
	events    *events.FakeRecorder
	namespace string
	log       *journal
	operators *operators
}

func newSuite(t *testing.T) *suite {
	t.Helper()
	c := newClient(t)
	c.install(operatortest.Latest(t)...)
	c.install(operatortest.CertManager(t)...)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "harbor-"}}
	must(t, c.Create(t.Context(), ns))
	c.mirror(ns.Name)
	s := &suite{t: t, client: c, events: events.NewFakeRecorder(1000), namespace: ns.Name, log: &journal{}}
	s.operators = &operators{t: t, client: c, namespace: ns.Name}
	var passwords atomic.Int32
	s.r = &Reconciler{Client: c, Live: c, Events: s.events, Password: func() string {
		return fmt.Sprintf("password-%d", passwords.Add(1))
	}}
	c.share(s.r)
	s.secret("admin", "secret")
	s.issuer("Issuer", "i", "True")
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// intercept lets calls of the reconciler fail, or be counted.
func (s *suite) intercept(f interceptor.Funcs) {
	c := interceptor.NewClient(s.client, f)
	s.r.Client, s.r.Live = c, c
}

// plain ends what intercept began.
func (s *suite) plain() { s.r.Client, s.r.Live = s.client, s.client }

func (s *suite) secret(name string, keys ...string) {
	s.t.Helper()
	o := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, StringData: map[string]string{}}
	for _, k := range keys {
		o.StringData[k] = "value of " + k
	}
	must(s.t, s.client.Create(s.t.Context(), o))
}

func raw(text string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(text)} }

// valid is a HarborCluster with all parts in the cluster.
func valid() *v1alpha1.HarborCluster {
	c := &v1alpha1.HarborCluster{ObjectMeta: metav1.ObjectMeta{Name: "sample"}}
	c.Spec.HarborApplication = v1alpha1.HarborApplication{
		Expose:      v1alpha1.HarborExpose{Core: *raw(`{"ingress":{"host":"harbor.example.com"}}`)},
		ExternalURL: "https://harbor.example.com", HarborAdminPasswordRef: "admin", Version: "2.5.0",
		Core: *raw(`{"tokenIssuer":{"kind":"Issuer","name":"i"}}`),
	}
	c.Spec.Database.Kind = v1alpha1.DatabaseKindZlando
	c.Spec.Database.Spec.ZlandoPostgreSQL = &v1alpha1.HarborZlandoPostgreSQL{}
	c.Spec.Cache.Kind = v1alpha1.CacheKindRedisFailover
	c.Spec.Cache.Spec.RedisFailover = &v1alpha1.HarborRedisFailover{}
	c.Spec.Storage.Kind = v1alpha1.StorageKindMinIO
	c.Spec.Storage.Spec.MinIO = &v1alpha1.HarborMinIO{Replicas: 2, VolumesPerServer: 2}
	return c
}

func externalDatabase(c *v1alpha1.HarborCluster) {
	c.Spec.Database.Kind = v1alpha1.DatabaseKindPostgreSQL
	c.Spec.Database.Spec = v1alpha1.HarborDatabaseSpec{PostgreSQL: &v1alpha1.HarborPostgreSQL{
		Hosts: []v1alpha1.HarborHost{{Host: "db.example.com"}}, Username: "u", PasswordRef: "db",
	}}
}

func externalCache(c *v1alpha1.HarborCluster) {
	c.Spec.Cache.Kind = v1alpha1.CacheKindRedis
	c.Spec.Cache.Spec = v1alpha1.HarborCacheSpec{Redis: &v1alpha1.HarborRedis{Host: "redis.example.com", PasswordRef: "redis"}}
}

func externalStorage(c *v1alpha1.HarborCluster) {
	c.Spec.Storage.Kind = v1alpha1.StorageKindS3
	c.Spec.Storage.Spec = v1alpha1.HarborStorageSpec{S3: raw(`{"bucket":"b","region":"r","secretkeyRef":"s3"}`)}
}

// add creates the HarborCluster "sample".
func (s *suite) add(edits ...func(*v1alpha1.HarborCluster)) {
	s.t.Helper()
	c := valid()
	c.Namespace = s.namespace
	for _, edit := range edits {
		edit(c)
	}
	must(s.t, s.client.Create(s.t.Context(), c))
}

func (s *suite) get() *v1alpha1.HarborCluster {
	s.t.Helper()
	c := &v1alpha1.HarborCluster{}
	must(s.t, s.client.Get(s.t.Context(), types.NamespacedName{Namespace: s.namespace, Name: "sample"}, c))
	return c
}

// edit changes the spec.
func (s *suite) edit(change func(*v1alpha1.HarborCluster)) {
	s.t.Helper()
	c := s.get()
	change(c)
	must(s.t, s.client.Update(s.t.Context(), c))
}

func (s *suite) try() (ctrl.Result, error) {
	ctx := logr.NewContext(context.WithoutCancel(s.t.Context()), logr.New(s.log))
	return s.r.Reconcile(ctx, ctrl.Request{NamespacedName: types.NamespacedName{Namespace: s.namespace, Name: "sample"}})
}

func (s *suite) reconcile() *v1alpha1.HarborCluster {
	s.t.Helper()
	_, err := s.try()
	must(s.t, err)
	return s.get()
}

// healthy brings a new HarborCluster to where everything runs.
func (s *suite) healthy(edits ...func(*v1alpha1.HarborCluster)) {
	s.t.Helper()
	s.add(edits...)
	for range 12 {
		if c := s.reconcile(); c.Status.Status == v1alpha1.HarborHealthy {
			return
		}
		s.operators.step()
	}
	s.t.Fatalf("never healthy: %+v", s.get().Status.Conditions)
}

// expect checks the overall status, and one condition.
func (s *suite) expect(overall v1alpha1.HarborStatus, condition string, status metav1.ConditionStatus, reason, says string) {
	s.t.Helper()
	c := s.get()
	got := meta.FindStatusCondition(c.Status.Conditions, condition)
	if c.Status.Status != overall || got == nil || got.Status != status || got.Reason != reason || !strings.Contains(got.Message, says) {
		s.t.Errorf("want %s, %s %s %s with %q\n got %s, %+v", overall, condition, status, reason, says, c.Status.Status, got)
	}
}

// child returns a child, nil when it does not exist.
func (s *suite) child(kind schema.GroupVersionKind, name string) *unstructured.Unstructured {
	s.t.Helper()
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	err := s.client.Get(s.t.Context(), types.NamespacedName{Namespace: s.namespace, Name: name}, o)
	if apierrors.IsNotFound(err) {
		return nil
	}
	must(s.t, err)
	return o
}

func (s *suite) database() string { return "postgresql-" + s.namespace + "-sample" }

// childKinds are the kinds of everything that is made for a HarborCluster.
var childKinds = []schema.GroupVersionKind{
	harbor.PostgresqlKind, harbor.RedisFailoverKind, harbor.TenantKind, harbor.HarborKind, harbor.SecretKind, harbor.JobKind, harbor.IngressKind,
}

// written returns the versions of everything in the namespace that was made for a HarborCluster.
func (s *suite) written() map[string]string {
	s.t.Helper()
	all := map[string]string{"HarborCluster": s.get().ResourceVersion}
	for _, k := range childKinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(k)
		err := s.client.List(s.t.Context(), list, client.InNamespace(s.namespace), client.HasLabels{v1alpha1.LabelHarborCluster})
		if apierrors.IsNotFound(err) {
			// Its operator is not installed.
			continue
		}
		must(s.t, err)
		for _, o := range list.Items {
			all[k.Kind+" "+o.GetName()] = o.GetResourceVersion()
		}
	}
	return all
}

// children returns what was made, without the HarborCluster itself.
func (s *suite) children() []string {
	s.t.Helper()
	var names []string
	for name := range s.written() {
		if name != "HarborCluster" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// told returns the events so far.
func (s *suite) told() []string {
	var out []string
	for {
		select {
		case e := <-s.events.Events:
			out = append(out, e)
		default:
			return out
		}
	}
}

func await(t *testing.T, what string, check func() string) {
	t.Helper()
	complaint := "never looked"
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if complaint = check(); complaint == "" {
			return
		}
	}
	t.Fatalf("%s: %s", what, complaint)
}

// journal keeps log lines.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) Init(logr.RuntimeInfo)               {}
func (j *journal) Enabled(level int) bool              { return level == 0 }
func (j *journal) WithValues(...any) logr.LogSink      { return j }
func (j *journal) WithName(string) logr.LogSink        { return j }
func (j *journal) Error(err error, m string, v ...any) { j.Info(0, m, append(v, "error", err)...) }

func (j *journal) Info(_ int, message string, values ...any) {
	for i := 0; i+1 < len(values); i += 2 {
		message += fmt.Sprintf(" %v=%v", values[i], values[i+1])
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, message)
}

// take returns the lines since the last call. What is done at the same time is put in order.
func (j *journal) take() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	lines := j.lines
	j.lines = nil
	slices.SortStableFunc(lines, func(a, b string) int {
		one, two := strings.Contains(a, " child "), strings.Contains(b, " child ")
		switch {
		case one && two:
			return strings.Compare(a, b)
		case one:
			return -1
		case two:
			return 1
		}
		return 0
	})
	return lines
}
