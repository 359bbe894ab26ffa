package driver

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"quarry.storage/quarry/controller/internal/apitest"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestState_saysWhyTheDriverCannotBeWritten lets the API server refuse every write until the test ends it.
func TestState_saysWhyTheDriverCannotBeWritten(t *testing.T) {
	r := reconciler(t)
	refused := errors.New("admission webhook says no")
	well := r.Client
	r.Client = interceptor.NewClient(apitest.Client(t), interceptor.Funcs{
		Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
			return refused
		},
	})
	c := newCluster("one")
	must(t, well.Create(t.Context(), c))
	t.Cleanup(func() {
		r.Client = well
		remove(t, r, c)
		_, _ = r.Reconcile(context.WithoutCancel(t.Context()), ctrl.Request{NamespacedName: types.NamespacedName{Name: v1alpha1.DriverLVM}})
	})
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: v1alpha1.DriverLVM}}); !errors.Is(err, refused) {
		t.Fatal(err)
	}
	if got, err := r.State(t.Context(), v1alpha1.DriverLVM); err != nil || got.Ready || got.Exists || !strings.Contains(got.Failed, refused.Error()) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := r.State(t.Context(), v1alpha1.DriverNFS); err != nil || got.Failed != "" {
		t.Errorf("the other driver: %+v, %v", got, err)
	}
	r.Client = well
	run(t, r)
	if got, err := r.State(t.Context(), v1alpha1.DriverLVM); err != nil || !got.Exists || got.Failed != "" {
		t.Errorf("after it was written: %+v, %v", got, err)
	}
}

// TestReconcile_attachingIsNeverChanged: a version whose driver attaches comes after one whose driver did not. What serves goes on as it
// is, and somebody is told; the driver is made anew once nothing uses it.
func TestReconcile_attachingIsNeverChanged(t *testing.T) {
	r := reconciler(t)
	before := withCluster(t, r)
	attaching := lvm
	attaching.Profile.Driver.Attach = true
	next := reconciler(t)
	next.Entries = []Entry{attaching}
	_, err := next.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: v1alpha1.DriverLVM}})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "made anew once no storage") {
		t.Fatalf("error %v", err)
	}
	if s, err := next.State(t.Context(), v1alpha1.DriverLVM); err != nil || !strings.Contains(s.Failed, "field is immutable") {
		t.Errorf("%+v, %v", s, err)
	}
	if d, c := deployed(t, next); d == nil || d.ResourceVersion != before.ResourceVersion || *c.Spec.AttachRequired {
		t.Errorf("deployed is %+v beside %+v", d, c)
	}

	remove(t, next, newCluster("one"))
	run(t, next)
	if d, c := deployed(t, next); d != nil || c != nil {
		t.Fatal("the driver outlives the last Cluster")
	}
	d := withCluster(t, next)
	if _, c := deployed(t, next); !*c.Spec.AttachRequired || containerOf(t, d, Attacher).Image == "" {
		t.Errorf("csi driver: %+v", c.Spec)
	}
}
