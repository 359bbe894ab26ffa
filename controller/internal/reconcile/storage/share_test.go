package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// share creates an Nfs and returns it.
func (s *suite) share(name string) *v1alpha1.Nfs {
	s.t.Helper()
	o := &v1alpha1.Nfs{ObjectMeta: metav1.ObjectMeta{Name: name}}
	o.Spec.Server, o.Spec.Path = "nfs.example.com", "/export"
	s.create(o)
	return o
}

func (s *suite) reconcileShare(name string) (ctrl.Result, error) {
	return s.nfss.Reconcile(context.Background(), ctrl.Request{NamespacedName: types.NamespacedName{Name: name}})
}

// untilShare reconciles an Nfs until the check has nothing to complain about; it gets nil once the Nfs is gone.
func (s *suite) untilShare(name string, check func(o *v1alpha1.Nfs) string) *v1alpha1.Nfs {
	s.t.Helper()
	var o *v1alpha1.Nfs
	s.await("nfs "+name, func() string {
		if _, err := s.reconcileShare(name); err != nil {
			return err.Error()
		}
		o = &v1alpha1.Nfs{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if !s.fetch(o) {
			o = nil
		}
		return check(o)
	})
	return o
}

func sharePhase(p v1alpha1.Phase) func(o *v1alpha1.Nfs) string {
	return func(o *v1alpha1.Nfs) string {
		if o.Status.Phase != p {
			return fmt.Sprintf("phase %s, want %s: %s", o.Status.Phase, p, o.Status.Message)
		}
		return ""
	}
}

func TestShare_hasAClassAndNoMembers(t *testing.T) {
	s := newSuite(t, "n1")
	o := s.share("files")
	s.nfs.Space(o.UID, 100<<30, 60<<30)
	o = s.untilShare("files", sharePhase(v1alpha1.PhaseRunning))
	if complaint := checkCondition(o.Status.Conditions, ready, isTrue, v1alpha1.ReasonReady); complaint != "" {
		t.Error(complaint)
	}
	for _, c := range o.Status.Conditions {
		if c.Type == v1alpha1.ConditionHostsValid || c.Type == v1alpha1.ConditionDisksReady || c.Type == v1alpha1.ConditionPlanApproved {
			t.Errorf("condition %s of a storage without members", c.Type)
		}
	}
	var members v1alpha1.MemberList
	if err := s.client.List(t.Context(), &members); err != nil || len(members.Items) != 0 {
		t.Errorf("members %v, %v", members.Items, err)
	}
	if sc := s.class("files"); sc == nil || sc.Provisioner != v1alpha1.DriverNFS || sc.Labels[v1alpha1.LabelOf(v1alpha1.KindNfs)] != "files" {
		t.Errorf("class %+v", sc)
	}
	if s.node("n1").Labels[v1alpha1.LabelStorageType] != "" || o.Status.MemberStates != nil || o.Status.Capacity.Total.Free.Value() != 60<<30 {
		t.Errorf("status %+v", o.Status)
	}
	// A storage of another kind and of the same name finds the class taken.
	s.create(newCluster("files", "n1"))
	s.until("files", has(v1alpha1.ConditionStorageClassReady, isFalse, v1alpha1.ReasonNameConflict))
}

func TestShare_thatIsDown(t *testing.T) {
	s := newSuite(t)
	o := s.share("files")
	s.nfs.Down(o.UID, "the server refuses")
	o = s.untilShare("files", sharePhase(v1alpha1.PhaseFailed))
	if s.class("files") != nil {
		t.Error("a class of a share that was never reached")
	}
	if complaint := checkCondition(o.Status.Conditions, ready, isFalse, "ShareUnreachable", "refuses"); complaint != "" {
		t.Error(complaint)
	}
	s.nfs.Down(o.UID, "")
	s.untilShare("files", sharePhase(v1alpha1.PhaseRunning))
	s.nfs.Down(o.UID, "the server is gone")
	o = s.untilShare("files", sharePhase(v1alpha1.PhaseWarning))
	if s.class("files") == nil || !strings.Contains(o.Status.Message, "the server is gone") {
		t.Errorf("message %q", o.Status.Message)
	}
	s.nfs.Down(o.UID, "")
	s.untilShare("files", sharePhase(v1alpha1.PhaseRunning))
}

func TestShare_deletionWaitsForVolumesAndNamesThem(t *testing.T) {
	s := newSuite(t)
	o := s.share("files")
	s.untilShare("files", sharePhase(v1alpha1.PhaseRunning))
	s.create(volume("files", v1alpha1.DriverNFS, "", "v1"))
	s.untilShare("files", func(o *v1alpha1.Nfs) string {
		if len(o.Finalizers) != 2 {
			return "not in use"
		}
		return ""
	})
	s.driver.install(false)
	s.delete(o)
	s.untilShare("files", func(o *v1alpha1.Nfs) string {
		return checkCondition(o.Status.Conditions, ready, isFalse, v1alpha1.ReasonDeleting, "v1") + sharePhase(v1alpha1.PhaseDeleting)(o)
	})
	if s.class("files") != nil {
		t.Error("the class is still there")
	}
	s.nfs.Holding(o.UID, "directory-of-v1")
	s.removePV("v1")
	s.untilShare("files", func(o *v1alpha1.Nfs) string {
		return checkCondition(o.Status.Conditions, ready, isFalse, v1alpha1.ReasonDeleting, "directory-of-v1")
	})
	s.nfs.Holding(o.UID)
	s.untilShare("files", func(o *v1alpha1.Nfs) string {
		if o != nil {
			return o.Status.Message
		}
		return ""
	})
}

// What is half removed is removed to the end before a storage without members goes.
func TestShare_deletionRunsTheStepsOfTheWhole(t *testing.T) {
	s := newSuite(t, "n1")
	o := s.share("files")
	s.untilShare("files", sharePhase(v1alpha1.PhaseRunning))
	s.driver.install(false)
	s.nfs.Add("n1")
	s.nfs.WholeStep(o.UID, "n1", "table", false, false)
	s.delete(o)
	s.untilShare("files", func(o *v1alpha1.Nfs) string {
		if o != nil {
			return o.Status.Message
		}
		return ""
	})
	if log := s.nfs.Log(); !slices.Contains(log, "whole via n1: ChangeShare table") {
		t.Error(log)
	}
}

// A backend that remembers storages is told which one is gone, also of one that could never be looked at, and of one whose name another one has by now.
func TestShare_isForgotten(t *testing.T) {
	s := newSuite(t)
	s.driver.install(false)
	for name, blind := range map[string]bool{"seen": false, "never seen": true} {
		s.nfs.FailLooks(nil)
		o := s.share("files")
		s.untilShare("files", sharePhase(v1alpha1.PhaseRunning))
		if blind {
			s.restartController()
			s.nfs.FailLooks(errors.New("no look"))
			if _, err := s.reconcileShare("files"); err == nil {
				t.Fatal("it could be looked at")
			}
		}
		if n := s.nfs.Forgotten(); slices.Contains(n, o.UID) {
			t.Fatalf("%s: it is forgotten before it is gone", name)
		}
		s.discard(o)
		if _, err := s.reconcileShare("files"); err != nil {
			t.Fatal(err)
		}
		if n := s.nfs.Forgotten(); !slices.Equal(n[len(n)-1:], []types.UID{o.UID}) {
			t.Errorf("%s: forgotten are %v, want %s at the end", name, n, o.UID)
		}
	}
	s.nfs.FailLooks(nil)
	before := s.share("files")
	s.untilShare("files", sharePhase(v1alpha1.PhaseRunning))
	s.discard(before)
	s.share("files")
	s.untilShare("files", sharePhase(v1alpha1.PhaseRunning))
	if n := s.nfs.Forgotten(); !slices.Contains(n, before.UID) || len(n) != 3 {
		t.Errorf("forgotten are %v, want %s, too", n, before.UID)
	}
}

// discard removes an Nfs without its teardown, as somebody does by hand.
func (s *suite) discard(o *v1alpha1.Nfs) {
	s.t.Helper()
	if !s.fetch(o) {
		s.t.Fatal("it is gone")
	}
	o.Finalizers = nil
	if err := s.direct.Update(s.t.Context(), o); err != nil {
		s.t.Fatal(err)
	}
	s.delete(o)
	s.await("the end of "+o.Name, func() string {
		if s.fetch(&v1alpha1.Nfs{ObjectMeta: metav1.ObjectMeta{Name: o.Name}}) {
			return "it is there"
		}
		return ""
	})
}

// The driver goes with the last storage that uses it, of whatever kind.
func TestShare_lastOfItsDriverAwaitsTheDriver(t *testing.T) {
	s := newSuite(t, "n1")
	s.cluster("pool", "n1")
	a := s.share("a")
	b := s.share("b")
	for _, n := range []string{"a", "b"} {
		s.untilShare(n, sharePhase(v1alpha1.PhaseRunning))
	}
	gone := func(o *v1alpha1.Nfs) string {
		if o != nil {
			return o.Status.Message
		}
		return ""
	}
	s.delete(a)
	s.untilShare("a", gone)
	s.delete(b)
	s.untilShare("b", func(o *v1alpha1.Nfs) string {
		return checkCondition(o.Status.Conditions, ready, isFalse, v1alpha1.ReasonDeleting, "last storage that uses it")
	})
	s.driver.install(false)
	s.untilShare("b", gone)
}

func TestShare_capacityIsWrittenEvery15Seconds(t *testing.T) {
	s := newSuite(t)
	o := s.share("files")
	s.nfs.Space(o.UID, 100<<30, 60<<30)
	s.untilShare("files", sharePhase(v1alpha1.PhaseRunning))
	s.pass(time.Minute)
	for i, want := range []int64{50, 50, 50, 30} {
		s.nfs.Space(o.UID, 100<<30, int64(50-i*10)<<30+int64(i/3)*(10<<30))
		if _, err := s.reconcileShare("files"); err != nil {
			t.Fatal(err)
		}
		if !s.fetch(o) || o.Status.Capacity.Total.Free.Value() != want<<30 {
			t.Errorf("look %d: free %v, want %d GiB", i, o.Status.Capacity.Total.Free, want)
		}
		s.pass(6 * time.Second)
	}
}

func TestHosts_ofAnExclusiveTypeAreNotShared(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	first := s.cluster("first", "n1")
	c := newCluster("second", "n1", "n2")
	c.Spec.StorageType = v1alpha1.StorageTypeCephFS
	s.create(c)
	s.until("second", has(v1alpha1.ConditionHostsValid, isFalse, v1alpha1.ReasonHostConflict, "n1: ", "Cluster first"), hasPhase(v1alpha1.PhaseWarning))
	if s.member("second", "n1") != nil || s.ceph.Attempts("n1") != 0 || s.node("n1").Labels[v1alpha1.LabelStorageType] != "lvm" || s.node("n2").Labels[v1alpha1.LabelStorageType] != "cephfs" {
		t.Errorf("steps %v, label %s", s.ceph.Log(), s.node("n1").Labels[v1alpha1.LabelStorageType])
	}
	// Who has a part on the host stays: being deleted does not give it free.
	s.addVolume(first, "n1", "v1")
	s.delete(s.get("first"))
	s.settle("first")
	s.until("second", has(v1alpha1.ConditionHostsValid, isFalse, v1alpha1.ReasonHostConflict))
	s.driver.install(false)
	s.removeVolume(first, "n1")
	s.untilGone("first")
	s.driver.install(true)
	s.until("second", hasPhase(v1alpha1.PhaseRunning))
	if s.node("n1").Labels[v1alpha1.LabelStorageType] != "cephfs" {
		t.Error("the node has the label of the other type")
	}
}

func TestUnsupported_isToldAndNothingIsMade(t *testing.T) {
	s := newSuite(t, "n1")
	s.clusters.BackendOf = func(v1alpha1.Storage) (Backend, string) { return nil, "There is no backend of this type." }
	s.create(newCluster("pool", "n1"))
	s.once("pool")
	c := s.get("pool")
	if complaint := hasPhase(v1alpha1.PhaseFailed)(c) + has(ready, isFalse, v1alpha1.ReasonNotYetSupported, "no backend", "Nothing was done")(c); complaint != "" || len(c.Finalizers) != 0 {
		t.Errorf("%s, finalizers %v", complaint, c.Finalizers)
	}
	s.delete(c)
	s.once("pool")
}

// A controller without the backend took the place of one that had it.
func TestUnsupported_aDeletionSaysWhatItWaitsFor(t *testing.T) {
	s := newSuite(t, "n1")
	s.cluster("pool", "n1")
	with := s.clusters.BackendOf
	s.clusters.BackendOf = func(v1alpha1.Storage) (Backend, string) { return nil, "There is no backend of this type." }
	s.delete(s.get("pool"))
	s.once("pool")
	c := s.get("pool")
	complaint := has(ready, isFalse, v1alpha1.ReasonNotYetSupported, "no backend", "waits for a version that supports it")(c)
	if complaint != "" || strings.Contains(c.Status.Message, "Nothing was done") {
		t.Errorf("%s, message %q", complaint, c.Status.Message)
	}
	s.clusters.BackendOf = with
	s.driver.install(false)
	s.untilGone("pool")
}

// filling is a backend whose kind has status fields of its own.
type filling struct{ Backend }

func (filling) Fill(o v1alpha1.Storage, v backend.View, w backend.World) {
	n, ok := o.(*v1alpha1.Nfs)
	if !ok || v == nil {
		return
	}
	n.Status.VolumeCount = int32(len(w.Volumes[""]))
}

func TestShare_fieldsOfItsKind(t *testing.T) {
	s := newSuite(t)
	s.nfss.BackendOf = func(v1alpha1.Storage) (Backend, string) { return filling{s.nfs}, "" }
	s.share("files")
	s.create(volume("files", v1alpha1.DriverNFS, "", "v1"))
	s.untilShare("files", func(o *v1alpha1.Nfs) string {
		if o.Status.VolumeCount != 1 {
			return "volumes are not counted"
		}
		return sharePhase(v1alpha1.PhaseRunning)(o)
	})
}
