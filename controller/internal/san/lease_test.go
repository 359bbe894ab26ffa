package san

import (
	"context"
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/apitest"
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/writer"
)

// TestSan_waiterGivesUp: what a turn kept for the next one of its process is given back if that one does not wait for it any more.
func TestSan_waiterGivesUp(t *testing.T) {
	f := newFleet("n1", "n2")
	s := f.san("csi/1")
	m := s.join(ref.OwnerUID)
	if _, err := s.Attach(t.Context(), ref, "a", "n2"); err != nil || f.record.Taken != "csi/1" {
		t.Fatalf("%v, %+v: the turn was not kept", err, f.record)
	}
	s.part(m)
	m.turn <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantFault(t, s.Detach(ctx, ref, "a", "n2"), decide.FaultUnavailable, "waiting for an earlier change")
	<-m.turn
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		r, _, err := f.Load(t.Context(), ref.OwnerUID)
		if err == nil && r.Taken == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%v, the turn is kept for nobody: %+v", err, r)
		}
	}
}

func TestMain(m *testing.M) { apitest.Main(m) }

// TestKubernetesLeases: a record comes back as it was written, and two processes never both replace one version.
func TestKubernetesLeases(t *testing.T) {
	c := apitest.Client(t)
	ctx := t.Context()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "leases-"}}
	if err := c.Create(ctx, ns); err != nil {
		t.Fatal(err)
	}
	k := KubernetesLeases{Client: c, Namespace: ns.Name, Now: time.Now}
	if r, version, err := k.Load(ctx, "uid"); err != nil || !r.Zero() || version != "" {
		t.Fatalf("%+v, %q, %v", r, version, err)
	}
	first := writer.Record{Epoch: 1, Writer: "n1", Taken: "csi/1", Pending: []string{"n1", "n2.example"}, Noted: writer.Mark{Group: "group", Sequence: 1 << 40}}
	version, err := k.Store(ctx, "uid", first, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Store(ctx, "uid", first, ""); !errors.Is(err, ErrConflict) {
		t.Errorf("made twice: %v", err)
	}
	if r, v, err := k.Load(ctx, "uid"); err != nil || !r.Equal(first) || v != version {
		t.Errorf("%+v, %q, %v", r, v, err)
	}
	idle := writer.Record{Epoch: 2, Writer: "n2"}
	after, err := k.Store(ctx, "uid", idle, version)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Store(ctx, "uid", first, version); !errors.Is(err, ErrConflict) {
		t.Errorf("an old version was replaced: %v", err)
	}
	if r, v, err := k.Load(ctx, "uid"); err != nil || !r.Equal(idle) || v != after {
		t.Errorf("%+v, %q, %v", r, v, err)
	}

	unusable(t, c, k, after, idle)
}

// unusable looks at a Lease that somebody changed, and at one that somebody deleted.
func unusable(t *testing.T, c client.Client, k KubernetesLeases, after string, idle writer.Record) {
	t.Helper()
	ctx := t.Context()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: LeasePrefix + "uid"}}
	if err := c.Get(ctx, client.ObjectKeyFromObject(lease), lease); err != nil {
		t.Fatal(err)
	}
	lease.Annotations[annotationEpoch] = "many"
	if err := c.Update(ctx, lease); err != nil {
		t.Fatal(err)
	}
	if r, _, err := k.Load(ctx, "uid"); err == nil || !r.Zero() {
		t.Errorf("a record that cannot be read: %+v, %v", r, err)
	}
	lease.Annotations[annotationEpoch], lease.Annotations[annotationSequence] = "2", "-1"
	if err := c.Update(ctx, lease); err != nil {
		t.Fatal(err)
	}
	if r, _, err := k.Load(ctx, "uid"); err == nil || !r.Zero() {
		t.Errorf("a sequence number that cannot be read: %+v, %v", r, err)
	}
	// As an earlier version writes it.
	delete(lease.Annotations, annotationSequence)
	if err := c.Update(ctx, lease); err != nil {
		t.Fatal(err)
	}
	if r, _, err := k.Load(ctx, "uid"); err != nil || !r.Equal(idle) {
		t.Errorf("without a sequence number: %+v, %v", r, err)
	}
	if err := c.Delete(ctx, lease); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Store(ctx, "uid", idle, after); !errors.Is(err, ErrConflict) {
		t.Errorf("a record that is gone was replaced: %v", err)
	}
}

// still is an API server that takes a write for none.
type still struct{ client.Client }

func (still) Update(context.Context, client.Object, ...client.UpdateOption) error { return nil }

// TestKubernetesLeases_everyWriteIsAnother: a write that left the version what it was would let a late one over the same version arrive.
func TestKubernetesLeases_everyWriteIsAnother(t *testing.T) {
	k := KubernetesLeases{Client: still{}, Namespace: "ns", Now: time.Now}
	if version, err := k.Store(t.Context(), "uid", writer.Record{Epoch: 1, Writer: "n1"}, "lease-uid/7"); err == nil || errors.Is(err, ErrConflict) {
		t.Errorf("%q, %v", version, err)
	}
}
