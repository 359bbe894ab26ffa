package storage

import (
	"context"
	"fmt"
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/event"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"quarry.storage/quarry/controller/internal/apitest"
	"quarry.storage/quarry/controller/internal/backend/backendtest"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func TestTouched_letsNoStatusThrough(t *testing.T) {
	old := &v1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: "m", Generation: 1}}
	for name, c := range map[string]struct {
		change func(m *v1alpha1.Member)
		want   bool
	}{
		"status":     {func(m *v1alpha1.Member) { m.Status.State = "online"; m.ResourceVersion = "2" }, false},
		"label":      {func(m *v1alpha1.Member) { m.Labels = map[string]string{"a": "b"} }, false},
		"spec":       {func(m *v1alpha1.Member) { m.Generation++ }, true},
		"annotation": {func(m *v1alpha1.Member) { m.Annotations = map[string]string{"a": "b"} }, true},
		"finalizer":  {func(m *v1alpha1.Member) { m.Finalizers = []string{"a"} }, true},
		"deletion":   {func(m *v1alpha1.Member) { m.DeletionTimestamp = &metav1.Time{Time: time.Now()} }, true},
	} {
		is := old.DeepCopy()
		c.change(is)
		if got := touched.Update(event.UpdateEvent{ObjectOld: old, ObjectNew: is}); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if !touched.Create(event.CreateEvent{Object: old}) || !touched.Delete(event.DeleteEvent{Object: old}) {
		t.Error("an object that comes or goes")
	}
}

func TestAttachedByUs(t *testing.T) {
	for driver, want := range map[string]bool{v1alpha1.DriverLVM: true, v1alpha1.DriverNFS: true, "ebs.csi.aws.com": false, "quarry.storage": false, "xquarry.storage": false} {
		a := &storagev1.VolumeAttachment{Spec: storagev1.VolumeAttachmentSpec{Attacher: driver}}
		if attachedByUs.Create(event.CreateEvent{Object: a}) != want || attachedByUs.Delete(event.DeleteEvent{Object: a}) != want ||
			attachedByUs.Update(event.UpdateEvent{ObjectOld: a, ObjectNew: a}) != want {
			t.Errorf("an attachment by %s", driver)
		}
	}
}

// managed lets a manager run the engine over a real cache and real watches.
func (s *suite) managed() (changed chan<- string) {
	s.t.Helper()
	never := false
	mgr, err := ctrl.NewManager(apitest.Config(s.t), ctrl.Options{
		Scheme: apitest.Scheme(s.t), Metrics: metricsserver.Options{BindAddress: "0"}, LeaderElection: never,
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	err = mgr.GetFieldIndexer().IndexField(ctx, &v1alpha1.Member{}, IndexMemberNode, func(o client.Object) []string {
		return []string{string(o.(*v1alpha1.Member).Spec.Node)}
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.cached, s.live = mgr.GetClient(), mgr.GetAPIReader()
	// The engine writes past the mirror now.
	s.client = s.direct
	s.restartController()
	ch, none := make(chan string), make(chan string)
	if err := s.clusters.SetupWithManager(mgr, ch); err != nil {
		s.t.Fatal(err)
	}
	if err := s.nfss.SetupWithManager(mgr, none); err != nil {
		s.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	s.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			s.t.Error(err)
		}
	})
	return ch
}

// TestManager_everyEventIsSeen changes the world in every way that matters, and waits until the engine has taken it in by itself, long
// before it would look anyway.
func TestManager_everyEventIsSeen(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.impatient()
	changed := s.managed()
	sees := func(what string, check func() string) {
		t.Helper()
		s.await(what, check)
	}
	s.label("n1", "yes")
	c := newCluster("pool")
	c.Spec.HostSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"disks": "yes"}}
	s.create(c)
	sees("a new Cluster", func() string { return hasPhase(v1alpha1.PhaseRunning)(s.get("pool")) })
	member := func(node string, checks ...func(m *v1alpha1.Member) string) func() string {
		return func() string {
			m := s.member("pool", node)
			if m == nil {
				return "no member of " + node
			}
			for _, check := range checks {
				if complaint := check(m); complaint != "" {
					return complaint
				}
			}
			return ""
		}
	}
	s.label("n2", "yes")
	sees("the label of a node", member("n2", inState("online"), memberHas(ready, isTrue, v1alpha1.ReasonReady)))
	s.maintainNode(true)
	sees("maintenance of a StorageNode", member("n2", inState("quiesced")))
	s.maintainNode(false)
	sees("the end of maintenance", member("n2", inState("online")))
	s.editMember("n2", func(m *v1alpha1.Member) { m.Spec.Maintenance = true })
	sees("maintenance of a Member", member("n2", inState("quiesced")))
	s.editMember("n2", func(m *v1alpha1.Member) { m.Spec.Maintenance = false })
	sees("the end of maintenance", member("n2", inState("online")))
	s.lvm.Answer("n2", backendtest.Silent)
	changed <- "n2"
	sees("a host that fell silent", member("n2", inState("offline")))
	s.lvm.Answer("n2", backendtest.Up)
	changed <- "n2"
	sees("a host that is back", member("n2", inState("online")))
	s.editMember("n2", func(m *v1alpha1.Member) { m.Finalizers = nil })
	sees("a finalizer that is gone", member("n2", func(m *v1alpha1.Member) string {
		if len(m.Finalizers) == 0 {
			return "no finalizer"
		}
		return ""
	}))
	old := s.mustMember("pool", "n2").UID
	s.delete(s.mustMember("pool", "n2"))
	sees("a deletion", member("n2", inState("online"), func(m *v1alpha1.Member) string {
		if m.UID == old {
			return "the old member"
		}
		return ""
	}))
	s.delete(s.class("pool"))
	sees("a class that is gone", func() string {
		if s.class("pool") == nil {
			return "no class"
		}
		return ""
	})
	s.create(volume("pool", v1alpha1.DriverLVM, "n1", "v1"))
	sees("a volume", func() string { return inUse(true)(s.get("pool")) })
	s.removePV("v1")
	sees("a volume that is gone", func() string { return inUse(false)(s.get("pool")) })
	name := "gone"
	a := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "a1"},
		Spec:       storagev1.VolumeAttachmentSpec{Attacher: v1alpha1.DriverLVM, NodeName: "n1", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &name}},
	}
	s.create(a)
	sees("an attachment", func() string { return inUse(true)(s.get("pool")) })
	s.delete(a)
	sees("an attachment that is gone", func() string { return inUse(false)(s.get("pool")) })
	other := newCluster("other")
	other.Spec.StorageType, other.Spec.HostSelector = v1alpha1.StorageTypeCephFS, c.Spec.HostSelector
	s.create(other)
	sees("a conflict", func() string {
		return has(v1alpha1.ConditionHostsValid, isFalse, v1alpha1.ReasonHostConflict)(s.get("other"))
	})
	release := s.lvm.Block("n1")
	s.lvm.Extra("n1", "thin", false)
	changed <- "n1"
	sees("a long job", member("n1", inState("online", "being prepared")))
	release()
	sees("the end of a long job", member("n1", memberHas(ready, isTrue, v1alpha1.ReasonReady)))
	s.driver.install(false)
	s.delete(s.get("pool"))
	sees("a deletion", func() string {
		c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "pool"}}
		if s.fetch(c) {
			return "still there: " + c.Status.Message
		}
		return ""
	})
	s.driver.install(true)
	sees("a host that became free", func() string {
		return has(v1alpha1.ConditionHostsValid, isTrue, v1alpha1.ReasonHostsValid)(s.get("other"))
	})
	share := s.share("files")
	sees("a new Nfs", func() string {
		s.fetch(share)
		return sharePhase(v1alpha1.PhaseRunning)(share)
	})
}

// resting waits until nobody has looked at a storage for a while. A conflict is tried again after a second.
func (s *suite) resting(quiet time.Duration) {
	s.t.Helper()
	looks, since := -1, time.Now()
	s.await("rest", func() string {
		if now := s.lvm.Looks(); now != looks {
			looks, since = now, time.Now()
		}
		if d := time.Since(since); d < quiet {
			return fmt.Sprintf("the last look was %s ago", d)
		}
		return ""
	})
}

// The engine writes statuses, and must not be called by what it writes.
func TestManager_comesToRest(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.managed()
	s.create(newCluster("pool", "n1", "n2"))
	s.await("running", func() string { return hasPhase(v1alpha1.PhaseRunning)(s.get("pool")) })
	// On a busy machine the last events of the API server come late: one that calls itself is called in every second.
	for range 10 {
		s.resting(1200 * time.Millisecond)
		before, looks := s.versions(), s.lvm.Looks()
		time.Sleep(time.Second)
		after := s.versions()
		if after == before && s.lvm.Looks() == looks {
			return
		}
		t.Logf("%d looks at a storage in which nothing happens: %s, then %s", s.lvm.Looks()-looks, before, after)
	}
	t.Error("it does not come to rest")
}
