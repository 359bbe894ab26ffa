package member

import (
	"context"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"quarry.storage/quarry/controller/internal/apitest"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func TestMain(m *testing.M) { apitest.Main(m) }

func newCluster(t *testing.T, c client.Client, name string) *v1alpha1.Cluster {
	t.Helper()
	o := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	o.Spec.StorageType, o.Spec.Hosts = v1alpha1.StorageTypeLVM, []v1alpha1.HostName{"n1"}
	if err := c.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Delete(context.Background(), o); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
	return o
}

func newMember(t *testing.T, c client.Client, owner string, uid types.UID) *v1alpha1.Member {
	t.Helper()
	m := &v1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: owner + ".n1", Finalizers: []string{v1alpha1.FinalizerMember}}}
	m.Spec.Of, m.Spec.Node = v1alpha1.MemberOwner{Kind: v1alpha1.KindCluster, Name: owner, UID: uid}, "n1"
	m.Spec.Group = &v1alpha1.MemberGroup{UUID: "A", Name: "quarry-" + owner}
	if err := c.Create(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.Background()
		if err := c.Get(ctx, client.ObjectKeyFromObject(m), m); err != nil {
			t.Fatal(err)
		}
		if len(m.Finalizers) != 1 || !m.DeletionTimestamp.IsZero() || m.Spec.Group.UUID != "A" {
			t.Errorf("more than the status was touched: %+v", m)
		}
		m.Finalizers = nil
		if err := errors.Join(c.Update(ctx, m), c.Delete(ctx, m)); err != nil {
			t.Error(err)
		}
	})
	return m
}

// look reconciles a Member and returns the message of the condition Ready; empty when there is none.
func look(t *testing.T, r *Reconciler, m *v1alpha1.Member) string {
	t.Helper()
	key := client.ObjectKeyFromObject(m)
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
		t.Fatal(err)
	}
	if err := r.Client.Get(t.Context(), key, m); err != nil {
		t.Fatal(err)
	}
	ready := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil {
		return ""
	}
	if ready.Status != metav1.ConditionFalse || ready.Reason != v1alpha1.ReasonOwnerMissing || ready.Message != m.Status.Message {
		t.Errorf("condition %+v, message %q", ready, m.Status.Message)
	}
	return ready.Message
}

func TestReconcile_ownerExists(t *testing.T) {
	c := apitest.Client(t)
	m := newMember(t, c, "there", newCluster(t, c, "there").UID)
	if got := look(t, &Reconciler{Client: c, Live: c}, m); got != "" {
		t.Errorf("said %q", got)
	}
}

func TestReconcile_ownerIsGone(t *testing.T) {
	c := apitest.Client(t)
	m := newMember(t, c, "gone", "uid-before")
	r := &Reconciler{Client: c, Live: c}
	got := look(t, r, m)
	if want := "belongs to a Cluster with UID uid-before, which does not exist any more"; !strings.HasPrefix(got, want) || strings.Contains(got, "has UID") {
		t.Errorf("said %q", got)
	}
	version := m.ResourceVersion
	if look(t, r, m); m.ResourceVersion != version {
		t.Error("the same status was written twice")
	}
	o := newCluster(t, c, "gone")
	if got := look(t, r, m); !strings.Contains(got, "Cluster gone has UID "+string(o.UID)) {
		t.Errorf("it does not name the Cluster of that name: %q", got)
	}
}

// TestReconcile_cacheIsBehind: a Member may be seen before its owner.
func TestReconcile_cacheIsBehind(t *testing.T) {
	c := apitest.Client(t)
	m := newMember(t, c, "new", newCluster(t, c, "new").UID)
	behind := interceptor.NewClient(c, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			return nil
		},
	})
	if got := look(t, &Reconciler{Client: behind, Live: c}, m); got != "" {
		t.Errorf("said %q", got)
	}
}

func TestReconcile_unknownIsNotMissing(t *testing.T) {
	c := apitest.Client(t)
	m := newMember(t, c, "unknown", "uid-before")
	down := interceptor.NewClient(c, interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("cut off")
		},
	})
	r := &Reconciler{Client: c, Live: down}
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(m)}); err == nil {
		t.Error("no error")
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(m), m); err != nil || len(m.Status.Conditions) > 0 {
		t.Errorf("%v, conditions %+v", err, m.Status.Conditions)
	}
}

func TestNamed(t *testing.T) {
	c := apitest.Client(t)
	newMember(t, c, "one", "uid-1")
	newMember(t, c, "two", "uid-2")
	got := (&Reconciler{Client: c}).named(t.Context(), &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "two"}})
	if len(got) != 1 || got[0].Name != "two.n1" {
		t.Errorf("requests %v", got)
	}
}
