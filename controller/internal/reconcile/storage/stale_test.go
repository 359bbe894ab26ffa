package storage

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// blindToVolumes lets the engine go on with a cache that knows no PersistentVolume yet.
func (s *suite) blindToVolumes() {
	started := s.clusters.started
	s.cached = interceptor.NewClient(s.client, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, list, opts...)
			if l, ok := list.(*corev1.PersistentVolumeList); ok {
				l.Items = nil
			}
			return err
		},
	})
	s.restartController()
	s.clusters.started = started
}

// see ends blindToVolumes.
func (s *suite) see() {
	started := s.clusters.started
	s.cached = s.client
	s.restartController()
	s.clusters.started = started
}

// lateVolume makes a PersistentVolume of which the host itself knows nothing.
func (s *suite) lateVolume(node string) { s.create(volume("pool", v1alpha1.DriverLVM, node, "v1")) }

func TestStale_noMemberIsCondemnedWhileAVolumeExists(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.cluster("pool", "n1", "n2")
	s.list("pool", "n1")
	s.untilMember("n2", leaving(v1alpha1.ReasonHostNotListed))
	s.lateVolume("n2")
	s.blindToVolumes()
	s.pass(delay + time.Second)
	for range 3 {
		s.once("pool")
	}
	if m := s.mustMember("pool", "n2"); !m.DeletionTimestamp.IsZero() {
		t.Fatal("condemned")
	}
	s.see()
	s.untilMember("n2", leaving(v1alpha1.ReasonHostNotListed, "v1"))
}

func TestStale_noMemberIsGivenFreeWhileAVolumeExists(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.cluster("pool", "n1", "n2")
	s.lateVolume("n2")
	s.blindToVolumes()
	old := s.mustMember("pool", "n2")
	s.delete(old)
	// The second attempt is told.
	s.untilMember("n2", memberHas(ready, isFalse, v1alpha1.ReasonStepFailed, "was not begun: volumes exist: v1"))
	if s.lvm.Empty("n2") {
		t.Fatal("its group was removed")
	}
	// Nor when nothing is left on the host.
	s.lvm.Lose(s.get("pool").UID, "n2")
	s.untilMember("n2", inState("abandoned", "waits until its volumes are deleted: v1"))
	if r := s.once("pool"); r.RequeueAfter == 0 || r.RequeueAfter > time.Second {
		t.Errorf("looked at again in %s", r.RequeueAfter)
	}
	if m := s.mustMember("pool", "n2"); m.UID != old.UID || len(m.Finalizers) == 0 {
		t.Fatal("given free")
	}
	s.see()
	s.removePV("v1")
	s.until("pool", func(*v1alpha1.Cluster) string {
		if m := s.member("pool", "n2"); m != nil && m.UID == old.UID {
			return "the old member is still there"
		}
		return ""
	})
}

func TestStale_storageIsNotGivenFreeWhileAVolumeExists(t *testing.T) {
	s := newSuite(t, "n1")
	s.cluster("pool", "n1")
	s.lateVolume("")
	s.until("pool", inUse(true))
	s.blindToVolumes()
	for range 3 {
		s.once("pool")
	}
	if complaint := inUse(true)(s.get("pool")); complaint != "" {
		t.Error(complaint)
	}
	s.driver.install(false)
	s.delete(s.get("pool"))
	s.until("pool", func(c *v1alpha1.Cluster) string {
		if s.member("pool", "n1") != nil {
			return "n1 is still a member"
		}
		return has(ready, isFalse, v1alpha1.ReasonDeleting, "v1")(c)
	})
	if c := s.get("pool"); !slices.Contains(c.Finalizers, v1alpha1.FinalizerTeardown) || !slices.Contains(c.Finalizers, v1alpha1.FinalizerInUse) {
		t.Errorf("finalizers %v", c.Finalizers)
	}
	s.removePV("v1")
	s.see()
	s.untilGone("pool")
}
