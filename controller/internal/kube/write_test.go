package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"quarry.storage/quarry/controller/internal/apitest"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func newQueue(t *testing.T) workqueue.TypedRateLimitingInterface[ctrl.Request] {
	t.Helper()
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
	t.Cleanup(q.ShutDown)
	return q
}

func requests(names ...string) []ctrl.Request {
	var out []ctrl.Request
	for _, n := range names {
		out = append(out, ctrl.Request{NamespacedName: client.ObjectKey{Name: n}})
	}
	return out
}

// stored makes a StorageNode on the API server.
func stored(t *testing.T, c client.Client) *v1alpha1.StorageNode {
	t.Helper()
	o := &v1alpha1.StorageNode{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	must(t, c.Create(t.Context(), o))
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		have := read(t, c)
		if have == nil {
			return
		}
		have.Finalizers = nil
		must(t, c.Update(ctx, have))
		must(t, client.IgnoreNotFound(c.Delete(ctx, have)))
	})
	return o
}

func read(t *testing.T, c client.Client) *v1alpha1.StorageNode {
	t.Helper()
	o := &v1alpha1.StorageNode{}
	err := c.Get(context.WithoutCancel(t.Context()), client.ObjectKey{Name: "n1"}, o)
	if apierrors.IsNotFound(err) {
		return nil
	}
	must(t, err)
	return o
}

func TestWriteStatus(t *testing.T) {
	c := apitest.Client(t)
	before := stored(t, c)

	after := before.DeepCopy()
	after.Status.Devices = []v1alpha1.NodeDevice{}
	if wrote, err := WriteStatus(t.Context(), c, before, after); wrote || err != nil {
		t.Errorf("wrote a status that is the same: %t, %v", wrote, err)
	}

	after.Status.Message, after.Status.DeviceCount = "all is well", 3
	wrote, err := WriteStatus(t.Context(), c, before, after)
	if !wrote || err != nil {
		t.Fatalf("%t, %v", wrote, err)
	}
	have := read(t, c)
	if have.Status.Message != "all is well" || have.Status.DeviceCount != 3 || have.ResourceVersion != after.ResourceVersion {
		t.Errorf("%+v, version %s", have, after.ResourceVersion)
	}
	if m := have.ManagedFields[len(have.ManagedFields)-1]; m.Manager != string(FieldOwner) {
		t.Errorf("written by %s", m.Manager)
	}

	// A second write from what was read first comes too late.
	late := before.DeepCopy()
	late.Status.Message = "late"
	wrote, err = WriteStatus(t.Context(), c, before, late)
	if wrote || !apierrors.IsConflict(err) {
		t.Errorf("%t, %v", wrote, err)
	}

	must(t, c.Delete(t.Context(), have))
	have.Status.Message = "gone"
	wrote, err = WriteStatus(t.Context(), c, after, have)
	if wrote || err != nil {
		t.Errorf("an object that is gone: %t, %v", wrote, err)
	}
}

func TestWriteStatus_afterAChangeOfThisReconcile(t *testing.T) {
	c := apitest.Client(t)
	before := stored(t, c)
	after := before.DeepCopy()
	after.Status.Message = "computed"
	added, err := AddFinalizer(t.Context(), c, after, v1alpha1.FinalizerInUse)
	if !added || err != nil || after.Status.Message != "computed" {
		t.Fatalf("%t, %v, %+v", added, err, after)
	}
	if wrote, err := WriteStatus(t.Context(), c, before, after); !wrote || err != nil {
		t.Fatalf("%t, %v", wrote, err)
	}
	have := read(t, c)
	if have.Status.Message != "computed" || len(have.Finalizers) != 1 || have.ResourceVersion != after.ResourceVersion {
		t.Errorf("%+v", have)
	}
}

func TestWriteStatus_refusesWhatHasNone(t *testing.T) {
	c := interceptor.NewClient(nil, interceptor.Funcs{})
	for name, pair := range map[string][2]client.Object{
		"no status":   {&corev1.ConfigMap{}, &corev1.ConfigMap{}},
		"two types":   {&corev1.Pod{}, &corev1.Node{}},
		"nil":         {(*corev1.Pod)(nil), &corev1.Pod{}},
		"unspecified": {&unstructured.Unstructured{}, &unstructured.Unstructured{}},
	} {
		if _, err := WriteStatus(t.Context(), c, pair[0], pair[1]); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestFinalizers(t *testing.T) {
	c := apitest.Client(t)
	o := stored(t, c)
	for _, want := range []bool{true, false} {
		added, err := AddFinalizer(t.Context(), c, o, v1alpha1.FinalizerTeardown)
		if added != want || err != nil {
			t.Fatalf("added: %t, %v, want %t", added, err, want)
		}
	}
	if have := read(t, c); len(have.Finalizers) != 1 || have.ResourceVersion != o.ResourceVersion {
		t.Errorf("%+v", have)
	}
	stale := o.DeepCopy()
	if _, err := AddFinalizer(t.Context(), c, o, v1alpha1.FinalizerInUse); err != nil {
		t.Fatal(err)
	}
	// A list in a merge patch would take the other finalizer off.
	if err := RemoveFinalizer(t.Context(), c, stale, v1alpha1.FinalizerTeardown); !apierrors.IsConflict(err) {
		t.Errorf("removed from an object that changed meanwhile: %v", err)
	}
	must(t, RemoveFinalizer(t.Context(), c, o, v1alpha1.FinalizerTeardown))
	must(t, RemoveFinalizer(t.Context(), c, o, v1alpha1.FinalizerTeardown))
	if have := read(t, c); len(have.Finalizers) != 1 || have.Finalizers[0] != v1alpha1.FinalizerInUse {
		t.Errorf("finalizers: %v", have.Finalizers)
	}
	must(t, c.Delete(t.Context(), o))
	must(t, c.Get(t.Context(), client.ObjectKeyFromObject(o), o))
	must(t, RemoveFinalizer(t.Context(), c, o, v1alpha1.FinalizerInUse))
	if have := read(t, c); have != nil {
		t.Fatalf("it is still there: %+v", have)
	}
	if added, err := AddFinalizer(t.Context(), c, stale, v1alpha1.FinalizerInUse); added || err != nil {
		t.Errorf("an object that is gone: %t, %v", added, err)
	}
	must(t, RemoveFinalizer(t.Context(), c, stale, v1alpha1.FinalizerTeardown))
}

func TestDelete(t *testing.T) {
	c := apitest.Client(t)
	o := stored(t, c)
	other := o.DeepCopy()
	other.UID = "another"
	if err := Delete(t.Context(), c, other); !apierrors.IsConflict(err) {
		t.Errorf("another object of the name was deleted: %v", err)
	}
	stale := o.DeepCopy()
	o.Spec.Maintenance = true
	must(t, c.Update(t.Context(), o))
	if err := DeleteUnchanged(t.Context(), c, stale); !apierrors.IsConflict(err) {
		t.Errorf("an object that changed was deleted: %v", err)
	}
	must(t, DeleteUnchanged(t.Context(), c, o))
	must(t, DeleteUnchanged(t.Context(), c, o))
	must(t, Delete(t.Context(), c, o))
	if read(t, c) != nil {
		t.Error("it is still there")
	}
}

func TestApplyChild(t *testing.T) {
	c := apitest.Client(t)
	want := func(value string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"key": value}}}
		o.SetAPIVersion("v1")
		o.SetKind("ConfigMap")
		o.SetNamespace("default")
		o.SetName("child")
		return o
	}
	made := want("a")
	must(t, ApplyChild(t.Context(), c, made, nil))
	t.Cleanup(func() { must(t, c.Delete(context.WithoutCancel(t.Context()), made)) })
	same := want("a")
	must(t, ApplyChild(t.Context(), c, same, made))
	if same.GetResourceVersion() != made.GetResourceVersion() || same.GetUID() == "" {
		t.Errorf("written, and nothing changed: %v, then %v", made, same)
	}
	changed := want("b")
	must(t, ApplyChild(t.Context(), c, changed, same))
	have := &corev1.ConfigMap{}
	must(t, c.Get(t.Context(), client.ObjectKeyFromObject(changed), have))
	if have.Data["key"] != "b" || have.ManagedFields[0].Manager != string(FieldOwner) {
		t.Errorf("%+v", have)
	}
	broken := want("c")
	broken.SetName("Not A Name")
	if err := ApplyChild(t.Context(), c, broken, nil); !apierrors.IsInvalid(err) {
		t.Errorf("error: %v", err)
	}
}

func TestEveryone(t *testing.T) {
	c := apitest.Client(t)
	stored(t, c)
	got := Everyone(c, func() client.ObjectList { return &v1alpha1.StorageNodeList{} })(t.Context(), nil)
	if len(got) != 1 || got[0].Name != "n1" {
		t.Errorf("requests: %v", got)
	}
}

func TestStorages(t *testing.T) {
	c := apitest.Client(t)
	cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
	cluster.Spec.StorageType, cluster.Spec.Hosts = v1alpha1.StorageTypeLVM, []v1alpha1.HostName{"n1"}
	share := &v1alpha1.Nfs{ObjectMeta: metav1.ObjectMeta{Name: "one"}, Spec: v1alpha1.NfsSpec{Server: "files.example", Path: "/export"}}
	lun := &v1alpha1.Iscsi{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
	lun.Spec.Targets, lun.Spec.IQN = []v1alpha1.PortalAddress{"10.0.0.1"}, "iqn.2026-01.org.example:one"
	lun.Spec.Initiators = []v1alpha1.HostName{"n1"}
	for _, o := range []client.Object{cluster, share, lun} {
		must(t, c.Create(t.Context(), o))
		t.Cleanup(func() { must(t, c.Delete(context.WithoutCancel(t.Context()), o)) })
	}
	all, err := Storages(t.Context(), c)
	must(t, err)
	kinds := map[string]string{}
	for _, s := range all {
		kinds[s.StorageKind()] = s.GetName()
	}
	if len(all) != 3 || kinds[v1alpha1.KindCluster] != "one" || kinds[v1alpha1.KindNfs] != "one" || kinds[v1alpha1.KindIscsi] != "one" {
		t.Errorf("storages: %v", kinds)
	}

	empty, err := StorageKinds(apitest.Scheme(t))
	must(t, err)
	for _, o := range empty {
		s, ok := o.(v1alpha1.Storage)
		if !ok {
			t.Fatalf("%T is no storage", o)
		}
		delete(kinds, s.StorageKind())
	}
	if len(empty) != 3 || len(kinds) != 0 {
		t.Errorf("kinds: %v, without %v", empty, kinds)
	}
	if _, err := StorageKinds(runtime.NewScheme()); err == nil {
		t.Error("kinds of a scheme that has none")
	}
}

// TestGlusterNodes: an API server that has no definition of them has none. One that does not say has nobody knows which, whether it has the definition and does not serve it, or does not answer.
func TestGlusterNodes(t *testing.T) {
	s := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(s).WithObjects(&v1alpha1.GlusterNode{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"}}).Build()
	kind := schema.GroupResource{Group: v1alpha1.Group, Resource: "glusternodes"}
	missing, forbidden := apierrors.NewNotFound(kind, ""), apierrors.NewForbidden(kind, "", errors.New("no"))
	for name, row := range map[string]struct {
		definition, err error
		nodes           int
		fails           string
		lists           int
	}{
		"there is one":                          {nil, nil, 1, "", 1},
		"there is no definition":                {missing, nil, 0, "", 0},
		"the definition is not served":          {nil, missing, 0, "deploy/crd", 1},
		"this process does not know it yet":     {nil, fmt.Errorf("list: %w", &meta.NoKindMatchError{}), 0, "deploy/crd", 1},
		"nobody knows of the definition":        {errors.New("no answer"), nil, 0, "no answer", 0},
		"this process knows no definitions":     {&meta.NoKindMatchError{}, nil, 0, "deploy/crd", 0},
		"the definition may not be read":        {forbidden, nil, 0, "has no right to read the definition of glusternodes, apply deploy/base again", 0},
		"they may not be read":                  {nil, forbidden, 0, "has no right to list glusternodes, apply deploy/base again", 1},
		"the API server is quiet in between":    {nil, errors.New("no answer"), 0, "no answer", 1},
		"it takes too long to say how they are": {nil, context.DeadlineExceeded, 0, "deadline", 1},
	} {
		lists := 0
		r := interceptor.NewClient(c, interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				lists++
				if row.err != nil {
					return row.err
				}
				return c.List(ctx, list, opts...)
			},
			Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				return row.definition
			},
		})
		nodes, err := new(GlusterNodeReader).Fresh(t.Context(), r)
		if len(nodes) != row.nodes || (err != nil) != (row.fails != "") || err != nil && !strings.Contains(err.Error(), row.fails) || lists != row.lists {
			t.Errorf("%s: %d, %v, after %d lists", name, len(nodes), err, lists)
		}
	}
	if _, err := new(GlusterNodeReader).Fresh(t.Context(), nil); err == nil {
		t.Error("without an API server there are none")
	}
}

// TestNewGlusterNodeAPI: it reads GlusterNodes and their definition, asks for no other thing, and waits for no API server that does not answer.
func TestNewGlusterNodeAPI(t *testing.T) {
	s := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var asked []string
	gone := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.URL.Path)
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/glusternodes") {
			fmt.Fprintf(w, `{"kind":"GlusterNodeList","apiVersion":%q,"items":[{"metadata":{"name":"a","namespace":"b"}}]}`, v1alpha1.GroupVersion)
			return
		}
		fmt.Fprint(w, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"glusternodes.quarry.storage"}}`)
	}))
	defer server.Close()
	api, err := NewGlusterNodeAPI(&rest.Config{Host: server.URL}, s)
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := new(GlusterNodeReader).Fresh(t.Context(), api)
	want := []string{"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/glusternodes.quarry.storage", "/apis/quarry.storage/v1alpha1/glusternodes"}
	if err != nil || len(nodes) != 1 || !slices.Equal(asked, want) {
		t.Errorf("%d, %v, asked for %q", len(nodes), err, asked)
	}
	hung := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-gone }))
	defer hung.Close()
	defer close(gone)
	api, err = newGlusterNodeAPI(&rest.Config{Host: hung.URL}, s, 50*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := new(GlusterNodeReader).Fresh(context.Background(), api); err == nil {
		t.Error("an API server that does not answer has none")
	}
}

// reads is a reader whose lists, and whose definitions, come to an end by a function, and that counts them.
type reads struct {
	client.Reader
	list func(ctx context.Context, into *v1alpha1.GlusterNodeList) error
	// undefined: the definition is not found.
	undefined bool
	n         int
}

func (r *reads) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	if r.undefined {
		r.n++
		return apierrors.NewNotFound(schema.GroupResource{Resource: "customresourcedefinitions"}, "")
	}
	return nil
}

func (r *reads) List(ctx context.Context, into client.ObjectList, _ ...client.ListOption) error {
	r.n++
	list, ok := into.(*v1alpha1.GlusterNodeList)
	if !ok {
		return errors.New("another kind")
	}
	return r.list(ctx, list)
}

// TestGlusterNodeReader: a cache that never comes to an end keeps nobody waiting, and what the API server says is asked once in a while where there is no such kind, or no right.
func TestGlusterNodeReader(t *testing.T) {
	one := func(ctx context.Context, l *v1alpha1.GlusterNodeList) error {
		l.Items = make([]v1alpha1.GlusterNode, 1)
		return ctx.Err()
	}
	forbidden := func(context.Context, *v1alpha1.GlusterNodeList) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "glusternodes"}, "", errors.New("no"))
	}
	hangs := func(ctx context.Context, _ *v1alpha1.GlusterNodeList) error {
		<-ctx.Done()
		return apierrors.NewTimeoutError("failed waiting for the informer to sync", 0)
	}
	for name, row := range map[string]struct {
		cached, api *reads
		nodes       int
		fails       string
		// ofCache and ofAPI are the reads of either in ten passes at one moment, after the given time in one more, and how long the ten took.
		ofCache, ofAPI int
		again          time.Duration
		then           [2]int
		took           time.Duration
	}{
		"the cache has it":           {&reads{list: one}, &reads{list: one}, 1, "", 9, 1, time.Hour, [2]int{10, 1}, 0},
		"there is no such kind":      {&reads{list: hangs}, &reads{undefined: true}, 0, "", 0, 1, untilServed - time.Second, [2]int{0, 1}, 0},
		"nor a while later":          {&reads{list: hangs}, &reads{undefined: true}, 0, "", 0, 1, untilServed, [2]int{0, 2}, 0},
		"the cache is not there":     {&reads{list: hangs}, &reads{list: one}, 1, "", 1, 2, untilServed, [2]int{2, 3}, patience},
		"there is no right":          {&reads{list: hangs}, &reads{list: forbidden}, 0, "has no right to list glusternodes", 0, 1, UntilBlind - time.Second, [2]int{0, 1}, 0},
		"nor seconds later":          {&reads{list: hangs}, &reads{list: forbidden}, 0, "has no right to list glusternodes", 0, 1, UntilBlind, [2]int{0, 2}, 0},
		"the API server hangs":       {&reads{list: hangs}, &reads{list: hangs}, 0, "failed waiting", 0, 1, UntilBlind, [2]int{0, 2}, liveLimit},
		"nobody asks the API server": {&reads{list: hangs}, nil, 0, "failed waiting", 1, 0, UntilBlind, [2]int{2, 0}, patience},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var g GlusterNodeReader
				var api client.Reader
				counts := row.api
				if api = counts; counts == nil {
					api, counts = nil, &reads{}
				}
				list := func() {
					t.Helper()
					nodes, err := g.List(t.Context(), row.cached, api)
					if len(nodes) != row.nodes || (err != nil) != (row.fails != "") || err != nil && !strings.Contains(err.Error(), row.fails) {
						t.Fatalf("%d, %v", len(nodes), err)
					}
				}
				began := time.Now()
				for range 10 {
					list()
				}
				if row.cached.n != row.ofCache || counts.n != row.ofAPI || time.Since(began) != row.took {
					t.Errorf("the cache was read %d times, the API server %d, in %v", row.cached.n, counts.n, time.Since(began))
				}
				time.Sleep(row.again)
				list()
				if got := [2]int{row.cached.n, counts.n}; got != row.then {
					t.Errorf("%v later the cache and the API server were read %v times in all, want %v", row.again, got, row.then)
				}
				if api == nil {
					return
				}
				g.Forget()
				if nodes, err := g.List(t.Context(), &reads{list: one}, &reads{list: one}); err != nil || len(nodes) != 1 {
					t.Errorf("it was forgotten: %d, %v", len(nodes), err)
				}
			})
		})
	}
}

// TestGlusterNodeReader_undecodable: a GlusterNode that cannot be decoded has nobody know which there are, and is no reason for anybody to wait. The API server is asked once in a while.
func TestGlusterNodeReader_undecodable(t *testing.T) {
	s := runtime.NewScheme()
	must(t, v1alpha1.AddToScheme(s))
	var lists atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/glusternodes") {
			lists.Add(1)
			fmt.Fprintf(w, `{"kind":"GlusterNodeList","apiVersion":%q,"items":[{"metadata":{"name":"a","namespace":"b"},"spec":{"devices":[{"recorded":"2026-11-27t08:00:00z"}]}}]}`, v1alpha1.GroupVersion)
			return
		}
		fmt.Fprint(w, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"glusternodes.quarry.storage"}}`)
	}))
	defer server.Close()
	api, err := NewGlusterNodeAPI(&rest.Config{Host: server.URL}, s)
	must(t, err)
	cached, err := NewGlusterNodeCache(&rest.Config{Host: server.URL}, s)
	must(t, err)
	go func() { _ = cached.Start(t.Context()) }()
	var g GlusterNodeReader
	for range 3 {
		if nodes, err := g.List(t.Context(), cached, api); err == nil || len(nodes) > 0 || Unread(err) != "glusternodes, of deploy/crd, cannot be read: the log of the controller says why" {
			t.Errorf("%d, %v", len(nodes), err)
		}
	}
	if n := lists.Load(); n != 1 {
		t.Errorf("the API server was asked %d times", n)
	}
}

// TestGlusterNodeReader_outlived: records that a cache has count no more once their definition is gone, whether the cache sees that or not.
func TestGlusterNodeReader_outlived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := func(_ context.Context, l *v1alpha1.GlusterNodeList) error {
			l.Items = make([]v1alpha1.GlusterNode, 1)
			return nil
		}
		cached, api := &reads{list: one}, &reads{list: one}
		var g GlusterNodeReader
		nodes := func() int {
			t.Helper()
			all, err := g.List(t.Context(), cached, api)
			must(t, err)
			return len(all)
		}
		nodes()
		api.undefined, api.n = true, 0
		time.Sleep(untilServed - time.Second)
		if n := nodes(); n != 1 || api.n != 0 {
			t.Errorf("%d, after %d questions", n, api.n)
		}
		time.Sleep(time.Second)
		for range 5 {
			if n := nodes(); n != 0 || api.n != 1 {
				t.Errorf("%d, after %d questions", n, api.n)
			}
		}
		time.Sleep(untilServed)
		if n := nodes(); n != 0 || api.n != 2 {
			t.Errorf("a while later: %d, after %d questions", n, api.n)
		}
		api.undefined = false
		time.Sleep(untilServed)
		if n := nodes(); n != 1 {
			t.Errorf("the definition is there again: %d", n)
		}
	})
}

// TestGlusterNodeReader_fresh: all who ask before the API server is asked share what it says, and nobody gets what it said before.
func TestGlusterNodeReader_fresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := 0
		api := &reads{list: func(_ context.Context, l *v1alpha1.GlusterNodeList) error {
			began++
			l.Items = make([]v1alpha1.GlusterNode, began)
			time.Sleep(time.Second)
			return nil
		}}
		var g GlusterNodeReader
		var wg sync.WaitGroup
		ask := func(want int) {
			wg.Go(func() {
				if nodes, err := g.Fresh(t.Context(), api); err != nil || len(nodes) != want {
					t.Errorf("%d, %v, want %d", len(nodes), err, want)
				}
			})
		}
		ask(1)
		synctest.Wait()
		for range 64 {
			ask(2)
		}
		wg.Wait()
		ask(3)
		wg.Wait()
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := g.Fresh(gone, api); err == nil {
			t.Error("it waits for longer than it was told to")
		}
		time.Sleep(2 * time.Second)
	})
}
