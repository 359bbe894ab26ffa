package driver

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"quarry.storage/quarry/controller/internal/apitest"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// snapshotKinds are the kinds of the snapshot API that matter, by their resources.
var snapshotKinds = map[string]schema.GroupVersionKind{"volumesnapshotclasses": classKind, "volumesnapshotcontents": contentKind}

// installSnapshots makes the snapshot API available, until the end of the test.
func installSnapshots(t *testing.T, c client.Client) {
	t.Helper()
	for resource, kind := range snapshotKinds {
		apitest.Define(t, c, resource, kind)
	}
}

func list(ctx context.Context, c client.Client, kind schema.GroupVersionKind) ([]unstructured.Unstructured, error) {
	l := &unstructured.UnstructuredList{}
	l.SetGroupVersionKind(kind)
	err := c.List(ctx, l)
	return l.Items, err
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// classes returns the names of the snapshot classes, with the drivers.
func classes(t *testing.T, c client.Client) map[string]string {
	t.Helper()
	items, err := list(t.Context(), c, classKind)
	must(t, err)
	names := map[string]string{}
	for _, o := range items {
		names[o.GetName()], _, _ = unstructured.NestedString(o.Object, "driver")
	}
	return names
}

// leave deletes a Cluster at once and lets the reconciler tidy up.
func leave(t *testing.T, r *Reconciler, c *v1alpha1.Cluster) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(c), c); !apierrors.IsNotFound(err) {
		must(t, err)
		remove(t, r, c)
	}
	_, err := r.Reconcile(ctx, ctrl.Request{NamespacedName: types.NamespacedName{Name: v1alpha1.DriverLVM}})
	must(t, err)
}

func newThinCluster() *v1alpha1.Cluster {
	c := newCluster("thin")
	c.Spec.LVM = &v1alpha1.LVMSpec{ThinPool: &v1alpha1.ThinPoolSpec{}}
	return c
}

func TestReconcile_snapshotClassesOfThinClusters(t *testing.T) {
	r := reconciler(t)
	installSnapshots(t, r.Client)
	foreign := snapshotClass("other.example", v1alpha1.KindCluster, "foreign", true)
	foreign.SetLabels(nil)
	must(t, r.Client.Create(t.Context(), foreign))
	thin, linear := newThinCluster(), newCluster("linear")
	for _, c := range []*v1alpha1.Cluster{thin, linear} {
		must(t, r.Client.Create(t.Context(), c))
		t.Cleanup(func() { leave(t, r, c) })
	}
	run(t, r)
	if got := classes(t, r.Client); len(got) != 2 || got["thin"] != v1alpha1.DriverLVM || got["foreign"] != "other.example" {
		t.Errorf("classes: %v", got)
	}
	items, err := list(t.Context(), r.Client, classKind)
	must(t, err)
	run(t, r)
	again, err := list(t.Context(), r.Client, classKind)
	must(t, err)
	for i := range items {
		if items[i].GetResourceVersion() != again[i].GetResourceVersion() {
			t.Errorf("class %s was written, and nothing changed", items[i].GetName())
		}
	}
	items, err = list(t.Context(), r.Client, classKind)
	must(t, err)
	for _, o := range items {
		if o.GetName() == "thin" && o.GetLabels()[v1alpha1.LabelOf(v1alpha1.KindCluster)] != "thin" {
			t.Errorf("labels: %v", o.GetLabels())
		}
		// One of another driver is none of this one's.
		if o.GetName() == "thin" && o.GetAnnotations()[annotationDefault] != "true" {
			t.Errorf("the only class of the driver is not its default: %v", o.GetAnnotations())
		}
	}
	leave(t, r, thin)
	if got := classes(t, r.Client); len(got) != 1 || got["foreign"] == "" {
		t.Errorf("classes after the thin Cluster has gone: %v", got)
	}
}

func TestReconcile_snapshotAPIComesAndGoes(t *testing.T) {
	r := reconciler(t)
	c := newThinCluster()
	must(t, r.Client.Create(t.Context(), c))
	t.Cleanup(func() { leave(t, r, c) })
	run(t, r)
	if d, _ := deployed(t, r); d == nil {
		t.Fatal("the driver waits for the snapshot API")
	}
	t.Run("installed", func(t *testing.T) {
		installSnapshots(t, r.Client)
		run(t, r)
		if got := classes(t, r.Client); len(got) != 1 {
			t.Errorf("classes: %v", got)
		}
	})
	// Nothing is left of it by now, while the client still believes in it.
	run(t, r)
	must(t, r.Client.Delete(t.Context(), c))
	run(t, r)
	if d, _ := deployed(t, r); d != nil {
		t.Error("the driver stays because nobody can say whether there are snapshots")
	}
}

// TestManager_snapshotAPIAppearsLater runs the reconciler as the controller does: nobody restarts it.
func TestManager_snapshotAPIAppearsLater(t *testing.T) {
	admin := apitest.Client(t)
	mgr, err := ctrl.NewManager(apitest.Config(t), ctrl.Options{
		Scheme: apitest.Scheme(t), Metrics: server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	must(t, err)
	r := reconciler(t)
	r.Client = mgr.GetClient()
	must(t, r.SetupWithManager(mgr))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	direct := reconciler(t)
	c := newThinCluster()
	t.Cleanup(func() {
		cancel()
		must(t, <-ended)
		leave(t, direct, c)
	})

	must(t, admin.Create(ctx, c))
	await(t, "the driver is deployed", func() bool { d, _ := deployed(t, direct); return d != nil })
	if _, err := list(ctx, admin, classKind); !meta.IsNoMatchError(err) {
		t.Fatalf("the snapshot API is there already: %v", err)
	}
	installSnapshots(t, admin)
	await(t, "the class is made", func() bool { return classes(t, admin)["thin"] == v1alpha1.DriverLVM })

	must(t, admin.Delete(ctx, c))
	await(t, "the class is deleted", func() bool { return len(classes(t, admin)) == 0 })
	await(t, "the driver is removed", func() bool { d, _ := deployed(t, direct); return d == nil })
}

func TestReconcile_snapshotsHoldTheDriver(t *testing.T) {
	for policy, want := range map[string]bool{"Delete": true, "Retain": false} {
		t.Run(policy, func(t *testing.T) {
			r := reconciler(t)
			installSnapshots(t, r.Client)
			c := newThinCluster()
			must(t, r.Client.Create(t.Context(), c))
			t.Cleanup(func() { leave(t, r, c) })
			run(t, r)
			for name, driver := range map[string]string{"ours": v1alpha1.DriverLVM, "foreign": "other.example"} {
				content := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
					"driver": driver, "deletionPolicy": policy, "source": map[string]any{"volumeHandle": "x"},
				}}}
				content.SetGroupVersionKind(contentKind)
				content.SetName(name)
				must(t, r.Client.Create(t.Context(), content))
			}
			must(t, r.Client.Delete(t.Context(), c))
			result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: v1alpha1.DriverLVM}})
			must(t, err)
			if d, _ := deployed(t, r); (d != nil) != want {
				t.Fatalf("the driver is there: %t, want %t", d != nil, want)
			}
			// Contents are not watched, so it is looked again.
			if (result.RequeueAfter > 0) != want {
				t.Errorf("looks again after %v", result.RequeueAfter)
			}
			content := &unstructured.Unstructured{}
			content.SetGroupVersionKind(contentKind)
			content.SetName("ours")
			must(t, r.Client.Delete(t.Context(), content))
			run(t, r)
			if d, _ := deployed(t, r); d != nil {
				t.Error("the driver outlives the last snapshot")
			}
		})
	}
}

func TestDefaultClass(t *testing.T) {
	const driver = v1alpha1.DriverLVM
	of := func(name string, isDefault bool) unstructured.Unstructured {
		return *snapshotClass(driver, v1alpha1.KindCluster, name, isDefault)
	}
	theirs := of("theirs", true)
	theirs.SetLabels(nil)
	plain := of("plain", false)
	plain.SetLabels(nil)
	for name, c := range map[string]struct {
		have   []unstructured.Unstructured
		wanted []string
		want   string
	}{
		"none wanted":                   {nil, nil, ""},
		"the first by name":             {nil, []string{"b", "a"}, "a"},
		"the one that is it stays":      {[]unstructured.Unstructured{of("b", true), of("a", false)}, []string{"a", "b"}, "b"},
		"the one that was it goes":      {[]unstructured.Unstructured{of("b", true)}, []string{"c"}, "c"},
		"a person chose another":        {[]unstructured.Unstructured{theirs, of("a", true)}, []string{"a"}, ""},
		"a person made one, not chosen": {[]unstructured.Unstructured{plain}, []string{"a"}, "a"},
		"the default of another driver": {[]unstructured.Unstructured{*snapshotClass("other.example", v1alpha1.KindCluster, "x", true)}, []string{"a"}, "a"},
	} {
		if got := defaultClass(driver, c.have, c.wanted); got != c.want {
			t.Errorf("%s: %q, not %q", name, got, c.want)
		}
	}
}
