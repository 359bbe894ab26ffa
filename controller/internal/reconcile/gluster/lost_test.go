package gluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"quarry.storage/quarry/controller/internal/decide/gluster/workload"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/test/gd2/cluster"
	"quarry.storage/quarry/test/gd2/volume"
)

func quantity(s string) *resource.Quantity { return new(resource.MustParse(s)) }

func (s *suite) claim(name string) *corev1.PersistentVolumeClaim {
	s.t.Helper()
	c := &corev1.PersistentVolumeClaim{}
	err := s.client.Get(s.t.Context(), types.NamespacedName{Namespace: s.namespace, Name: name}, c)
	if apierrors.IsNotFound(err) {
		return nil
	}
	must(s.t, err)
	return c
}

func (s *suite) dropVolume(name string) {
	s.t.Helper()
	c := s.world.Begin(s.anyone("").Node)
	defer c.End()
	if _, f := volume.Stop(c, name); f != nil {
		s.t.Fatal(f.Errors)
	}
	if f := volume.Delete(c, name); f != nil {
		s.t.Fatal(f.Errors)
	}
}

func each(list client.ObjectList, do func(client.Object)) error {
	return meta.EachListItem(list, func(o runtime.Object) error {
		if one, ok := o.(client.Object); ok {
			do(one)
		}
		return nil
	})
}

var errKilled = errors.New("killed")

// killed makes passes until something is so, each of which is ended at a write: before it was done and after, in turns, and three times in each way for a kind of
// write. It returns at which, and how often.
func (s *suite) killed(what string, done func() bool) (kills map[string]int) {
	s.t.Helper()
	kills = map[string]int{}
	for range 600 {
		if done() {
			s.restart()
			return kills
		}
		s.restart()
		dead := false
		end := func(verb string, o client.Object, do func() error) error {
			if dead {
				return errKilled
			}
			write := fmt.Sprintf("%s %T", verb, o)
			when := "before "
			if kills["after "+write] < kills["before "+write] {
				when = "after "
			}
			if kills[when+write] == 3 {
				return do()
			}
			if when == "after " {
				if err := do(); err != nil {
					return err
				}
			}
			dead = true
			kills[when+write]++
			s.die()
			return errKilled
		}
		s.intercept(interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				return end("patch", o, func() error { return c.Patch(ctx, o, p, opts...) })
			},
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				return end("delete", o, func() error { return c.Delete(ctx, o, opts...) })
			},
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				return end("create", o, func() error { return c.Create(ctx, o, opts...) })
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				return end("status", o, func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
			},
		})
		_ = s.pass()
		time.Sleep(3 * time.Millisecond)
	}
	s.t.Fatalf("never: %s", what)
	return kills
}

// TestNode_lost: a node dies for good with bricks. It stays failed until a person says that it is lost, and then goes.
func TestNode_lost(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.pool(4)
	s.until("it runs", s.running(4))
	s.volume()
	n := s.full()
	// The word does not count while the server is there.
	s.edit(n, func(n *v1alpha1.GlusterNode) { n.Spec.Lost = string(n.UID) })
	s.passes(3)
	if got := s.node(n); got.DeletionTimestamp != nil || !strings.Contains(got.Status.Message, "spec.lost does not count") {
		t.Errorf("%v %s", got.DeletionTimestamp, got.Status.Message)
	}
	s.edit(n, func(n *v1alpha1.GlusterNode) { n.Spec.Lost = "" })
	s.halt(n)
	s.until("it is offline", s.in(n, "offline"))
	s.remove(n)
	s.until("it is failed", s.in(n, "failed"))
	s.passes(30)
	if c := s.condition(n, v1alpha1.ConditionDrained); s.state(n) != "failed" || c.Reason != v1alpha1.ReasonPeerDown || s.claim(n) == nil {
		t.Errorf("%s: %+v", s.state(n), c)
	}
	if !s.seen["offline to failed"] {
		t.Error("never seen: offline to failed")
	}
	s.edit(n, func(n *v1alpha1.GlusterNode) { n.Spec.Lost = string(n.UID) })
	s.until("it is gone", s.in(n, "gone"))
	if !s.seen["failed to abandoned"] {
		t.Error("never seen: failed to abandoned")
	}
	if s.claim(n) != nil || s.claim(workload.StateClaim(n)) != nil {
		t.Error("its claims are left")
	}
	s.until("another one is there, and serves", func() bool { return len(s.nodes()) == 4 && s.state(s.inZone("z0")) == "online" })
}

// TestNode_lostWhileMoving: a node dies after its brick was replaced, and before the successor has the data. Its record stays until it has (G14).
func TestNode_lostWhileMoving(t *testing.T) {
	t.Parallel()
	s := newSuite(t, func(c *cluster.Config) { c.HealTime = time.Hour })
	s.pool(4)
	s.until("it runs", s.running(4))
	s.volume()
	n := s.full()
	s.remove(n)
	s.until("its brick was replaced", func() bool { m := s.node(n).Spec.Move; return m != nil && m.Successor != "" })
	s.halt(n)
	s.passes(10)
	s.edit(n, func(n *v1alpha1.GlusterNode) { n.Spec.Lost = string(n.UID) })
	s.passes(40)
	if c := s.condition(n, v1alpha1.ConditionRemoved); s.state(n) == "gone" || !strings.Contains(c.Message, "its record stays") {
		t.Fatalf("%s: %+v", s.state(n), c)
	}
	func() {
		c := s.world.Begin(s.anyone(n).Node)
		defer c.End()
		v := c.C.Volumes["v"]
		v.Pending, v.Unmarked = map[string][]cluster.File{}, map[string][]cluster.File{}
	}()
	s.until("it is gone", s.in(n, "gone"))
}

// TestNode_restored: a GlusterNode that is made anew has another UID, and its server and its bricks are the same (G16).
func TestNode_restored(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.pool(4)
	s.until("it runs", s.running(4))
	s.volume()
	n := s.full()
	old := s.node(n)
	s.edit(n, func(n *v1alpha1.GlusterNode) { n.Finalizers = nil })
	s.remove(n)
	again := &v1alpha1.GlusterNode{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: n, Annotations: old.Annotations}, Spec: old.Spec}
	again.Spec.Peer, again.Spec.Pool = "", ""
	must(t, s.client.Create(t.Context(), again))
	s.until("it is looked at", func() bool { return s.node(n).Spec.Pool != "" && s.running(4)() })
	got := s.node(n)
	if got.UID == old.UID || got.Spec.Peer != old.Spec.Peer || got.Spec.Pool != old.Spec.Pool || got.Status.Bricks == 0 || !got.Status.Flags.HasData {
		t.Errorf("%s %s %s, %+v", got.UID, got.Spec.Peer, got.Spec.Pool, got.Status)
	}
	// A second one that says it is the same server: nobody can say whose the bricks are, and nothing is done about either.
	twin := &v1alpha1.GlusterNode{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "twin"}, Spec: v1alpha1.GlusterNodeSpec{
		Cluster: "pool", Zone: "z9", Storage: []v1alpha1.GlusterStorage{{PVCName: "other"}}, Peer: got.Spec.Peer,
	}}
	must(t, s.client.Create(t.Context(), twin))
	s.passes(2)
	s.remove(n)
	s.passes(20)
	if c := s.condition(n, v1alpha1.ConditionRemoved); s.claim(n).DeletionTimestamp != nil || c.Reason != v1alpha1.ReasonPeerConflict || s.bricksOn(n) == 0 {
		t.Errorf("%+v", c)
	}
	if c := s.condition("twin", v1alpha1.ConditionSpecValid); c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, n) {
		t.Errorf("%+v", c)
	}
	s.edit("twin", func(n *v1alpha1.GlusterNode) { n.Finalizers = nil })
	s.remove("twin")
	s.until("it is emptied, and gone", s.in(n, "gone"))
}

// TestNode_takenOutByHand: somebody took the server out of the pool. It is not joined again, and before it goes it has to say itself that it has nothing.
func TestNode_takenOutByHand(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.pool(4)
	s.until("it runs", s.running(4))
	s.volume()
	n := s.bare()
	at, err := s.dial([]byte(secret), nil)
	must(t, err)
	other, err := at(s.servers[s.full()].client)
	must(t, err)
	must(t, other.RemovePeer(t.Context(), s.node(n).Spec.Peer))
	s.until("it is said", func() bool { return s.condition(n, v1alpha1.ConditionPeerJoined).Reason == v1alpha1.ReasonPeerMissing })
	s.servers[n].Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.URL.Path, "/v1/volumes") {
			w.WriteHeader(http.StatusInternalServerError)
			return true
		}
		return false
	})
	s.remove(n)
	s.passes(10)
	if c := s.claim(n); s.state(n) != "failed" || c == nil || c.DeletionTimestamp != nil {
		t.Errorf("it is %s, and nobody knows what it has", s.state(n))
	}
	s.servers[n].Intercept(nil)
	s.until("it is gone", s.in(n, "gone"))
}
