package storage

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"quarry.storage/quarry/controller/internal/backend/backendtest"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

const delay = backend.DefaultRemovalDelay

func TestLeave_waitsForTheDelayAndIsTakenBack(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	c := s.cluster("pool", "n1", "n2")
	uid := s.mustMember("pool", "n2").UID
	s.drain()
	s.list("pool", "n1")
	m := s.untilMember("n2", leaving(v1alpha1.ReasonHostNotListed, "does not list the node"), inState("quiesced", "does not list the node"))
	if !m.DeletionTimestamp.IsZero() || !m.Status.Flags.ShouldQuiesce || m.Status.Flags.ShouldDestroy {
		t.Errorf("a host that was taken off the spec is condemned at once: %+v", m.Status.Flags)
	}
	s.told("n2 leaves")
	if c := s.get("pool"); c.Status.MemberStates.Leaving != 1 || c.Status.Phase != v1alpha1.PhaseRunning {
		t.Errorf("status: %s, %+v", c.Status.Phase, c.Status.MemberStates)
	}
	s.pass(delay - time.Second)
	if r := s.once("pool"); r.RequeueAfter > time.Second {
		t.Errorf("nobody looks when the delay is over: %s", r.RequeueAfter)
	}
	s.settle("pool")
	if m := s.mustMember("pool", "n2"); !m.DeletionTimestamp.IsZero() {
		t.Fatal("deleted before the delay was over")
	}
	s.list("pool", "n1", "n2")
	m = s.untilMember("n2", stays, inState("online"))
	if m.UID != uid || s.lvm.Group(c.UID, "n2") == nil || s.lvm.Steps("n2") != 1 {
		t.Errorf("taking a host back changed its disks: %v", s.lvm.Log())
	}
	s.told("n2 was taken back")
	// What was waited before does not count when the host leaves again.
	s.list("pool", "n1")
	s.settle("pool")
	s.pass(delay - time.Second)
	s.settle("pool")
	s.mustMember("pool", "n2")
	s.pass(2 * time.Second)
	s.untilNoMember("n2")
	if !s.lvm.Empty("n2") || s.node("n2").Labels[v1alpha1.LabelStorageType] != "" || s.node("n2").Labels["kept"] != "yes" {
		t.Errorf("left on n2: %+v, labels %v", s.lvm.Group(c.UID, "n2"), s.node("n2").Labels)
	}
	s.told("n2 is not a member any more")
}

func TestLeave_delayOfTheSpec(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.cluster("pool", "n1", "n2")
	s.edit("pool", func(c *v1alpha1.Cluster) {
		c.Spec.Hosts, c.Spec.RemovalDelay = hostNames("n1"), &metav1.Duration{Duration: 2 * delay}
	})
	s.untilMember("n2", leaving(v1alpha1.ReasonHostNotListed, (2*delay).String()))
	s.pass(2*delay - time.Second)
	s.settle("pool")
	s.mustMember("pool", "n2")
	s.pass(time.Second)
	s.untilNoMember("n2")
}

// Even without a delay somebody must have been able to see that a member leaves before it is condemned.
func TestLeave_isSeenBeforeTheDeletionEvenWithoutADelay(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.cluster("pool", "n1", "n2")
	s.edit("pool", func(c *v1alpha1.Cluster) {
		c.Spec.Hosts, c.Spec.RemovalDelay = hostNames("n1"), &metav1.Duration{}
	})
	if r := s.once("pool"); r.RequeueAfter > time.Second {
		t.Errorf("nobody looks again: %s", r.RequeueAfter)
	}
	m := s.mustMember("pool", "n2")
	if complaint := leaving(v1alpha1.ReasonHostNotListed)(m); complaint != "" || !m.DeletionTimestamp.IsZero() {
		t.Errorf("deleted at once: %v %s", m.DeletionTimestamp, complaint)
	}
	s.untilNoMember("n2")
}

func TestLeave_countsFromTheStartOfTheLeader(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.cluster("pool", "n1", "n2")
	s.list("pool", "n1")
	s.untilMember("n2", leaving(v1alpha1.ReasonHostNotListed))
	// Nobody looked for a long time: nobody could see that the host leaves either. The next leader ran all the while, and waited.
	s.restartController()
	s.pass(10 * delay)
	s.settle("pool")
	if m := s.mustMember("pool", "n2"); !m.DeletionTimestamp.IsZero() {
		t.Fatal("the time without a leader counted")
	}
	s.pass(delay)
	s.untilNoMember("n2")
}

// TestLeave_beginsAnewAfterMaintenance: neither the time under maintenance counts nor that before it.
func TestLeave_beginsAnewAfterMaintenance(t *testing.T) {
	for name, ask := range map[string]func(s *suite, on bool){
		"of the Cluster": func(s *suite, on bool) {
			s.edit("pool", func(c *v1alpha1.Cluster) {
				c.Spec.Maintenance = nil
				if on {
					c.Spec.Maintenance = hostNames("n2")
				}
			})
		},
		"of the Member": func(s *suite, on bool) {
			s.editMember("n2", func(m *v1alpha1.Member) { m.Spec.Maintenance = on })
		},
		"of the StorageNode": func(s *suite, on bool) { s.maintainNode(on) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t, "n1", "n2")
			s.cluster("pool", "n1", "n2")
			s.list("pool", "n1")
			s.untilMember("n2", leaving(v1alpha1.ReasonHostNotListed))
			s.pass(delay / 2)
			ask(s, true)
			s.untilMember("n2", leaving(v1alpha1.ReasonHostNotListed, "under maintenance"))
			s.pass(10 * delay)
			s.settle("pool")
			if m := s.mustMember("pool", "n2"); !m.DeletionTimestamp.IsZero() {
				t.Fatal("deleted under maintenance")
			}
			ask(s, false)
			s.settle("pool")
			if m := s.mustMember("pool", "n2"); !m.DeletionTimestamp.IsZero() {
				t.Fatal("the time under maintenance counted")
			}
			s.pass(delay - time.Second)
			s.settle("pool")
			if m := s.mustMember("pool", "n2"); !m.DeletionTimestamp.IsZero() {
				t.Fatal("the time before the maintenance counted")
			}
			s.pass(2 * time.Second)
			s.untilNoMember("n2")
		})
	}
}

// maintainNode asks for maintenance on the StorageNode of n2.
func (s *suite) maintainNode(on bool) {
	s.t.Helper()
	sn := &v1alpha1.StorageNode{ObjectMeta: metav1.ObjectMeta{Name: "n2"}}
	if !s.fetch(sn) {
		s.create(sn)
	}
	sn.Spec.Maintenance = on
	s.update(sn)
}

func TestLeave_aTypoInHostsCondemnsNothing(t *testing.T) {
	s := newSuite(t, "n1", "n2", "n3")
	c := s.cluster("pool", "n1", "n2", "n3")
	s.addVolume(c, "n2", "v1")
	s.list("pool", "n-1", "n-2", "n-3")
	for range 5 {
		s.pass(delay / 6)
		s.settle("pool")
	}
	s.list("pool", "n1", "n2", "n3")
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	s.pass(10 * delay)
	s.settle("pool")
	for _, n := range []string{"n1", "n2", "n3"} {
		if m := s.mustMember("pool", n); stays(m) != "" || s.lvm.Steps(n) != 1 {
			t.Errorf("%s: %s, steps %v", n, stays(m), s.lvm.Log())
		}
	}
}

func TestLeave_waitsUntilItHoldsNoDataAndNamesWhatItHolds(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	c := s.cluster("pool", "n1", "n2")
	s.addVolume(c, "n2", "v1")
	s.list("pool", "n1")
	s.settle("pool")
	s.pass(10 * delay)
	s.settle("pool")
	m := s.mustMember("pool", "n2")
	if complaint := leaving(v1alpha1.ReasonHostNotListed, "v1")(m) + inState("quiesced", "v1")(m); complaint != "" || !m.DeletionTimestamp.IsZero() {
		t.Errorf("deleted %v: %s", m.DeletionTimestamp, complaint)
	}
	if len(m.Status.Holding) == 0 {
		t.Error("what holds it is not named")
	}
	// A volume that only the API server knows holds it as well, and so does one that only the host knows.
	s.lvm.RemoveVolume(c.UID, "n2", "v1", 1<<30)
	s.settle("pool")
	s.mustMember("pool", "n2")
	s.lvm.AddVolume(c.UID, "n2", "v2", 1<<30)
	s.removePV("v1")
	s.untilMember("n2", leaving(v1alpha1.ReasonHostNotListed, "group/v2"))
	// What cannot be looked for is not absent.
	s.lvm.RemoveVolume(c.UID, "n2", "v2", 1<<30)
	s.lvm.Answer("n2", backendtest.Silent)
	s.settle("pool")
	m = s.mustMember("pool", "n2")
	if complaint := leaving(v1alpha1.ReasonHostNotListed, "known to hold no data")(m); complaint != "" || !m.DeletionTimestamp.IsZero() {
		t.Errorf("deleted while nobody could look: %v %s", m.DeletionTimestamp, complaint)
	}
	s.lvm.Answer("n2", backendtest.Up)
	s.untilNoMember("n2")
	if !s.lvm.Empty("n2") {
		t.Error("n2 is not torn down")
	}
}

func TestLeave_takesNoStep(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.cluster("pool", "n1", "n2")
	s.lvm.Obstinate()
	s.list("pool", "n1")
	s.untilMember("n2", leaving(v1alpha1.ReasonHostNotListed))
	s.lvm.Extra("n2", "pool", false)
	s.settle("pool")
	if s.lvm.Steps("n2") != 1 {
		t.Errorf("steps on a host that leaves: %v", s.lvm.Log())
	}
}

// The cache says that the host was taken off the list, and is behind: the API server itself lists it again, or says that it is under
// maintenance, or wants it to wait longer.
func TestLeave_isDecidedOnLiveReads(t *testing.T) {
	for name, again := range map[string]func(s *suite){
		"listed again":        func(s *suite) { s.list("pool", "n1", "n2") },
		"under maintenance":   func(s *suite) { s.edit("pool", func(c *v1alpha1.Cluster) { c.Spec.Maintenance = hostNames("n2") }) },
		"node in maintenance": func(s *suite) { s.maintainNode(true) },
		"member maintained": func(s *suite) {
			s.editMember("n2", func(m *v1alpha1.Member) { m.Spec.Maintenance = true })
		},
		"replaced by another": func(s *suite) {
			s.lose(s.get("pool"))
			s.create(newCluster("pool", "n1"))
		},
		"longer delay": func(s *suite) {
			s.edit("pool", func(c *v1alpha1.Cluster) { c.Spec.RemovalDelay = &metav1.Duration{Duration: 3 * delay} })
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t, "n1", "n2")
			s.cluster("pool", "n1", "n2")
			s.list("pool", "n1")
			s.untilMember("n2", leaving(v1alpha1.ReasonHostNotListed))
			s.pass(delay + time.Second)
			s.cached = s.frozenCache("pool")
			s.restartController()
			s.clusters.started = s.time().Add(-10 * delay)
			again(s)
			for range 3 {
				_, _ = s.reconcile("pool")
			}
			if m := s.mustMember("pool", "n2"); !m.DeletionTimestamp.IsZero() {
				t.Fatal("deleted by what a stale cache said")
			}
			if !s.lvm.Empty("n2") && s.lvm.Steps("n2") != 1 {
				t.Errorf("steps: %v", s.lvm.Log())
			}
		})
	}
}

// frozenCache returns a client that goes on reading a Cluster, its Members and the StorageNodes as they are now; everything else is
// passed on.
func (s *suite) frozenCache(name string) client.Client {
	s.t.Helper()
	old := s.get(name)
	var members v1alpha1.MemberList
	if err := s.client.List(context.Background(), &members); err != nil {
		s.t.Fatal(err)
	}
	return interceptor.NewClient(s.client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			switch o := o.(type) {
			case *v1alpha1.Cluster:
				if key.Name == name {
					old.DeepCopyInto(o)
					return nil
				}
			case *v1alpha1.StorageNode:
				return c.Get(ctx, client.ObjectKey{Name: "never-" + key.Name}, o, opts...)
			}
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if l, ok := list.(*v1alpha1.MemberList); ok {
				members.DeepCopyInto(l)
				return nil
			}
			return c.List(ctx, list, opts...)
		},
	})
}

// The Member that is deleted is the very one that the decision was made on.
func TestLeave_deletesOnlyWhatWasDecidedAbout(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.cluster("pool", "n1", "n2")
	s.list("pool", "n1")
	s.untilMember("n2", leaving(v1alpha1.ReasonHostNotListed))
	s.pass(delay + time.Second)
	deletes := 0
	s.cached = interceptor.NewClient(s.client, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			deletes++
			if deletes == 1 {
				// A person writes in the very last moment.
				s.editMember("n2", func(m *v1alpha1.Member) { m.Spec.Maintenance = true })
			}
			var all client.DeleteOptions
			all.ApplyOptions(opts)
			if all.Preconditions == nil || all.Preconditions.UID == nil || all.Preconditions.ResourceVersion == nil {
				return fmt.Errorf("preconditions %+v", all.Preconditions)
			}
			return c.Delete(ctx, o, opts...)
		},
	})
	started := s.clusters.started
	s.restartController()
	s.clusters.started = started
	if _, err := s.reconcile("pool"); err != nil || deletes != 1 {
		t.Errorf("%d deletes, %v", deletes, err)
	}
	s.untilMember("n2", leaving(v1alpha1.ReasonHostNotListed, "maintenance"))
}

func TestLeave_nodeThatKubernetesForgot(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.cluster("pool", "n1", "n2")
	s.delete(s.node("n2"))
	s.lvm.Answer("n2", backendtest.Dead)
	s.list("pool", "n1")
	s.untilMember("n2", leaving(v1alpha1.ReasonHostNotListed))
	s.pass(delay)
	s.untilNoMember("n2")
	if s.lvm.Steps("n2") != 1 {
		t.Errorf("steps: %v", s.lvm.Log())
	}
}

func TestLeave_movesDataOneMemberAtATime(t *testing.T) {
	s := newSuite(t, "n1", "n2", "n3")
	s.impatient()
	c := newCluster("pool", "n1", "n2", "n3")
	c.Spec.StorageType = v1alpha1.StorageTypeCephFS
	s.create(c)
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	for _, n := range []string{"n2", "n3"} {
		s.ceph.AddVolume(c.UID, n, "data", 1<<30)
	}
	s.list("pool", "n1")
	s.settle("pool")
	releases := map[string]func(){"n2": s.ceph.Block("n2"), "n3": s.ceph.Block("n3")}
	s.pass(delay)
	s.settle("pool")
	condemned := func() (out []string) {
		for _, n := range []string{"n2", "n3"} {
			if m := s.member("pool", n); m != nil && !m.DeletionTimestamp.IsZero() {
				out = append(out, n)
			}
		}
		return out
	}
	first := condemned()
	if len(first) != 1 {
		t.Fatalf("%v are moved away at the same time", first)
	}
	releases[first[0]]()
	s.untilNoMember(first[0])
	s.settle("pool")
	second := condemned()
	if len(second) != 1 || second[0] == first[0] {
		t.Fatalf("%v, then %v", first, second)
	}
	releases[second[0]]()
	s.untilNoMember(second[0])
	if !s.ceph.Empty("n2") || !s.ceph.Empty("n3") {
		t.Error("not torn down")
	}
}

// A member that leaves serves what it holds: nothing is wrong with the storage, and its message says what it waits for. Once the Member is
// deleted, something has to be done about its volumes.
func TestLeave_withVolumesIsNoWarningBeforeTheDeletion(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	c := s.cluster("pool", "n1", "n2")
	s.addVolume(c, "n2", "v1")
	s.list("pool", "n1")
	s.until("pool", hasPhase(v1alpha1.PhaseRunning), has(ready, isTrue, v1alpha1.ReasonReady), says("n2: The spec does not list the node."))
	s.pass(10 * delay)
	s.until("pool", hasPhase(v1alpha1.PhaseRunning), has(ready, isTrue, v1alpha1.ReasonReady), says("n2: ", "once its volumes are deleted: ", "v1"))
	if complaint := memberHas(ready, isFalse, v1alpha1.ReasonHostNotListed, "v1")(s.mustMember("pool", "n2")); complaint != "" {
		t.Error(complaint)
	}
	s.delete(s.mustMember("pool", "n2"))
	s.until("pool", hasPhase(v1alpha1.PhaseWarning), has(ready, isFalse, v1alpha1.ReasonVolumesExist, "n2: ", "v1"))
}

// says checks that the message of a Cluster has all the parts.
func says(parts ...string) func(*v1alpha1.Cluster) string {
	return func(c *v1alpha1.Cluster) string {
		for _, p := range parts {
			if !strings.Contains(c.Status.Message, p) {
				return fmt.Sprintf("message %q lacks %q", c.Status.Message, p)
			}
		}
		return ""
	}
}
