package kube

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// store is an API server whose answers can be lost, and that can be away.
type store struct {
	client.WithWatch
	away, deaf bool
}

func newStore(objects ...client.Object) *store {
	s := &store{}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "pod-uid"}}
	s.WithWatch = interceptor.NewClient(fake.NewClientBuilder().WithObjects(append(objects, pod)...).Build(), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if s.away {
				return errors.New("connection refused")
			}
			return c.Get(ctx, key, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if s.away {
				return errors.New("connection refused")
			}
			err := c.Update(ctx, o, opts...)
			if s.deaf {
				return errors.New("timeout")
			}
			return err
		},
	})
	return s
}

func (s *store) lease(t *testing.T) *coordinationv1.Lease {
	t.Helper()
	l := &coordinationv1.Lease{}
	if err := s.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "process-p"}, l); err != nil {
		t.Fatal(err)
	}
	return l
}

// restored returns a store that is as another one was when the Lease was saved, and went on without this process since.
func restored(saved *coordinationv1.Lease) *store {
	if saved == nil {
		return newStore()
	}
	saved = saved.DeepCopy()
	saved.ResourceVersion = "100000"
	return newStore(saved)
}

// TestRewind: a process ends when the store lacks what the process wrote, however far the store has come since, and for nothing else.
func TestRewind(t *testing.T) {
	type world struct {
		r *Rewind
		s *store
	}
	for name, c := range map[string]struct {
		happens func(t *testing.T, w *world)
		want    string
	}{
		"nothing":             {happens: func(*testing.T, *world) {}},
		"away for a while":    {happens: func(_ *testing.T, w *world) { w.s.away = true }},
		"a lost confirmation": {happens: func(_ *testing.T, w *world) { w.s.deaf = true }},
		"restored from before the last renewal": {
			happens: func(t *testing.T, w *world) {
				saved := w.s.lease(t)
				look(t, w.r)
				w.r.Live = restored(saved)
			},
			want: "which is not in it",
		},
		"restored after a lost confirmation": {
			happens: func(t *testing.T, w *world) {
				saved := w.s.lease(t)
				look(t, w.r)
				w.s.deaf = true
				_ = w.r.look(t.Context())
				w.r.Live = restored(saved)
			},
			want: "which is not in it",
		},
		"restored from before this process": {
			happens: func(t *testing.T, w *world) {
				saved := w.s.lease(t)
				saved.Spec.HolderIdentity = ptr.To("an earlier process")
				w.r.Live = restored(saved)
			},
			want: "which is not in it",
		},
		"restored from before the Lease": {
			happens: func(_ *testing.T, w *world) { w.r.Live = restored(nil) },
			want:    "is not there",
		},
		"restored while the API server was away": {
			happens: func(t *testing.T, w *world) {
				saved := w.s.lease(t)
				look(t, w.r)
				w.s.away = true
				if err := w.r.look(t.Context()); err == nil || errors.Is(err, ErrRewound) {
					t.Fatal(err)
				}
				w.r.Live = restored(saved)
			},
			want: "which is not in it",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{s: newStore()}
			w.r = &Rewind{Live: w.s, Namespace: "ns", Pod: "p", identity: "this process"}
			look(t, w.r)
			look(t, w.r)
			c.happens(t, w)
			if err := w.r.look(t.Context()); errors.Is(err, ErrRewound) != (c.want != "") || (err != nil && !strings.Contains(err.Error(), c.want)) {
				t.Fatalf("%v, want %q", err, c.want)
			}
			if c.want != "" {
				return
			}
			w.s.away, w.s.deaf = false, false
			look(t, w.r)
			look(t, w.r)
		})
	}
}

func look(t *testing.T, r *Rewind) {
	t.Helper()
	if err := r.look(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestRewind_start: a process takes over the Lease of an earlier one of its pod, renews it, and ends with the error.
func TestRewind_start(t *testing.T) {
	s := newStore()
	first := &Rewind{Live: s, Namespace: "ns", Pod: "p", identity: "first"}
	look(t, first)
	before := s.lease(t)
	if o := before.OwnerReferences; len(o) != 1 || o[0].UID != "pod-uid" {
		t.Fatalf("the Lease does not go with its pod: %v", o)
	}
	r := &Rewind{Live: s, Namespace: "ns", Pod: "p", pause: time.Millisecond, retry: time.Millisecond}
	ended := make(chan error, 1)
	go func() { ended <- r.Start(t.Context()) }()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if l := s.lease(t); *l.Spec.HolderIdentity != "first" && before.Spec.RenewTime.Before(l.Spec.RenewTime) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it does not take over")
		}
	}
	if err := s.Delete(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, ErrRewound) {
		t.Fatal(err)
	}
}

// TestRewind_clock: a clock that is set back makes no renewal look older than the last one.
func TestRewind_clock(t *testing.T) {
	s := newStore()
	r := &Rewind{Live: s, Namespace: "ns", Pod: "p", identity: "this process"}
	look(t, r)
	ahead := metav1.NewMicroTime(time.Now().Add(time.Hour).Truncate(time.Microsecond))
	r.written.Spec.RenewTime = &ahead
	look(t, r)
	if got := s.lease(t).Spec.RenewTime; !ahead.Before(got) {
		t.Errorf("renewed at %s, after %s", got, ahead)
	}
}

// TestRewind_late: a process whose Lease could be made only after a while begins anew, since nobody looked meanwhile. One whose Lease was refused goes on.
func TestRewind_late(t *testing.T) {
	leases := schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	for name, c := range map[string]struct {
		err  error
		anew bool
	}{
		"the API server was away": {errors.New("connection refused"), true},
		"no right to make it":     {apierrors.NewForbidden(leases, "process-p", errors.New("no")), false},
		"a policy of before":      {apierrors.NewInvalid(schema.GroupKind{Kind: "Lease"}, "process-p", nil), false},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var creates, updates atomic.Int32
			live := interceptor.NewClient(newStore().WithWatch, interceptor.Funcs{
				Create: func(ctx context.Context, next client.WithWatch, o client.Object, opts ...client.CreateOption) error {
					if creates.Add(1) < 3 {
						return c.err
					}
					return next.Create(ctx, o, opts...)
				},
				Update: func(ctx context.Context, next client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
					if updates.Add(1) == 3 {
						cancel()
					}
					return next.Update(ctx, o, opts...)
				},
			})
			err := (&Rewind{Live: live, Namespace: "ns", Pod: "p", pause: time.Millisecond, retry: time.Millisecond}).Start(ctx)
			if errors.Is(err, ErrRewound) != c.anew || !c.anew && (err != nil || updates.Load() < 3) {
				t.Errorf("%v, %d attempts, %d renewals", err, creates.Load(), updates.Load())
			}
		})
	}
}
