package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"quarry.storage/quarry/controller/internal/backend/backendtest"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// inUse checks whether the finalizer for volumes is there.
func inUse(want bool) func(*v1alpha1.Cluster) string {
	return func(c *v1alpha1.Cluster) string {
		if slices.Contains(c.Finalizers, v1alpha1.FinalizerInUse) != want {
			return "finalizers"
		}
		return ""
	}
}

func TestUse_isMarkedExactlyWhileAVolumeExists(t *testing.T) {
	s := newSuite(t, "n1")
	c := s.cluster("pool", "n1")
	s.until("pool", inUse(false))
	s.create(volume("other", v1alpha1.DriverLVM, "n1", "of-another-class"))
	s.create(volume("pool", "other.example.com", "n1", "of-another-driver"))
	s.settle("pool")
	s.until("pool", inUse(false))
	s.addVolume(c, "n1", "v1")
	s.until("pool", inUse(true))
	s.removeVolume(c, "n1")
	s.until("pool", inUse(false))
	// A volume that was made through another class, or restored without one, is known by what the driver recorded of it.
	for _, how := range []func(pv *corev1.PersistentVolume){
		func(pv *corev1.PersistentVolume) { pv.Spec.CSI.VolumeHandle = string(c.UID) + "/v1" },
		func(pv *corev1.PersistentVolume) {
			pv.Spec.CSI.VolumeAttributes = map[string]string{"owner": string(c.UID)}
		},
	} {
		pv := volume("another-class", v1alpha1.DriverLVM, "n1", "v1")
		how(pv)
		s.create(pv)
		s.until("pool", inUse(true))
		s.removePV("v1")
		s.until("pool", inUse(false))
	}
	name := "gone"
	a := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "a1"},
		Spec:       storagev1.VolumeAttachmentSpec{Attacher: v1alpha1.DriverLVM, NodeName: "n1", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &name}},
	}
	s.create(a)
	s.until("pool", inUse(true))
	s.delete(a)
	s.until("pool", inUse(false))
}

// TestTeardown_order follows a deletion: the class first, volumes hold, the driver, the Members, the finalizer last.
func TestTeardown_order(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	c := s.cluster("pool", "n1", "n2")
	s.addVolume(c, "n2", "v1")
	s.until("pool", inUse(true))
	s.delete(s.get("pool"))
	s.until("pool", hasPhase(v1alpha1.PhaseDeleting), has(ready, isFalse, v1alpha1.ReasonDeleting, "v1"), has(v1alpha1.ConditionStorageClassReady, isFalse, v1alpha1.ReasonDeleting))
	if s.class("pool") != nil {
		t.Error("the class is still there")
	}
	if complaint := inState("failed", "v1")(s.mustMember("pool", "n2")); complaint != "" {
		t.Error(complaint)
	}
	s.settle("pool")
	if s.lvm.Group(c.UID, "n1") == nil || s.lvm.Group(c.UID, "n2") == nil {
		t.Errorf("torn down while a volume exists: %v", s.lvm.Log())
	}
	s.removeVolume(c, "n2")
	s.until("pool", has(ready, isFalse, v1alpha1.ReasonDeleting, "The CSI driver is being removed"))
	s.settle("pool")
	if s.lvm.Group(c.UID, "n1") == nil {
		t.Errorf("torn down before the driver was removed: %v", s.lvm.Log())
	}
	s.driver.install(false)
	s.lvm.Answer("n2", backendtest.Silent)
	s.until("pool", func(*v1alpha1.Cluster) string {
		if s.member("pool", "n1") != nil {
			return "n1 is still a member"
		}
		return ""
	})
	c = s.settle("pool")
	if len(c.Finalizers) == 0 || s.lvm.Group(c.UID, "n2") == nil {
		t.Error("given free while a host does not answer")
	}
	s.lvm.Answer("n2", backendtest.Up)
	s.untilGone("pool")
	for _, n := range []string{"n1", "n2"} {
		if !s.lvm.Empty(n) || s.node(n).Labels[v1alpha1.LabelStorageType] != "" || s.member("pool", n) != nil {
			t.Errorf("something is left on %s", n)
		}
	}
}

func TestTeardown_classThatIsHeldHoldsEverything(t *testing.T) {
	s := newSuite(t, "n1")
	c := s.cluster("pool", "n1")
	s.driver.install(false)
	sc := s.class("pool")
	sc.Finalizers = []string{"example.com/mine"}
	s.update(sc)
	s.delete(s.get("pool"))
	s.until("pool", hasPhase(v1alpha1.PhaseDeleting), has(ready, isFalse, v1alpha1.ReasonDeleting, "finalizers hold up"))
	s.settle("pool")
	if s.lvm.Group(c.UID, "n1") == nil {
		t.Error("torn down while the class exists")
	}
	sc = s.class("pool")
	sc.Finalizers = nil
	s.update(sc)
	s.untilGone("pool")
}

func TestTeardown_classThatCannotBeDeletedHoldsEverything(t *testing.T) {
	s := newSuite(t, "n1")
	c := s.cluster("pool", "n1")
	s.driver.install(false)
	refuse := true
	s.cached = deny(s.client, func(verb, name string) error {
		if refuse && verb == "delete" && name == "pool" {
			return errors.New("a webhook says no")
		}
		return nil
	})
	s.restartController()
	s.delete(s.get("pool"))
	s.until2(func() string {
		return has(ready, isFalse, v1alpha1.ReasonDeleting, "a webhook says no")(s.get("pool"))
	})
	if s.lvm.Group(c.UID, "n1") == nil {
		t.Error("torn down while volumes can be made")
	}
	refuse = false
	s.untilGone("pool")
}

// Nobody but the API server knows of the Member: the storage must not leave it without an owner.
func TestTeardown_asksTheAPIServerForMembers(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	c := s.cluster("pool", "n1")
	s.driver.install(false)
	late := &v1alpha1.Member{
		ObjectMeta: metav1.ObjectMeta{Name: "pool.n2", Finalizers: []string{v1alpha1.FinalizerMember}},
		Spec:       v1alpha1.MemberSpec{Of: v1alpha1.MemberOwner{Kind: "Cluster", Name: "pool", UID: c.UID}, Node: "n2"},
	}
	s.create(late)
	s.cached = hideMember(s.client, "pool.n2")
	s.restartController()
	s.delete(s.get("pool"))
	s.until("pool", func(*v1alpha1.Cluster) string {
		if s.member("pool", "n1") != nil {
			return "n1 is still a member"
		}
		return ""
	})
	for range 3 {
		if r := s.once("pool"); r.RequeueAfter == 0 {
			t.Error("nobody looks again")
		}
	}
	if len(s.get("pool").Finalizers) == 0 {
		t.Fatal("given free while a Member exists")
	}
	s.cached = s.client
	s.restartController()
	s.untilGone("pool")
}

// A group on a host whose Member cannot be made is not left behind.
func TestTeardown_waitsForAGroupOnAHostWithoutAMember(t *testing.T) {
	s := newSuite(t, "n1")
	s.create(newCluster("pool", "n1"))
	c := s.get("pool")
	other := &v1alpha1.Member{
		ObjectMeta: metav1.ObjectMeta{Name: "pool.n1"},
		Spec:       v1alpha1.MemberSpec{Of: v1alpha1.MemberOwner{Kind: "Cluster", Name: "pool", UID: "gone"}, Node: "n1"},
	}
	s.create(other)
	s.lvm.Make(c.UID, "n1", groupOf("old"))
	s.until("pool", has(v1alpha1.ConditionHostsValid, isFalse, v1alpha1.ReasonNameTaken))
	s.driver.install(false)
	s.delete(c)
	for range 5 {
		s.once("pool")
	}
	if c := s.get("pool"); len(c.Finalizers) == 0 || s.lvm.Group(c.UID, "n1") == nil {
		t.Fatal("given free while its group is on a disk")
	}
	s.delete(other)
	s.untilGone("pool")
	if !s.lvm.Empty("n1") {
		t.Error("not torn down")
	}
}

func TestTeardown_beforeTheFirstReconcile(t *testing.T) {
	s := newSuite(t, "n1")
	s.create(newCluster("pool", "n1"))
	s.delete(s.get("pool"))
	s.once("pool")
	if s.member("pool", "n1") != nil || len(s.lvm.Log()) != 0 {
		t.Error("something was made for a storage that is gone")
	}
}

func TestTeardown_ofOneStorageLeavesTheOthersAlone(t *testing.T) {
	s := newSuite(t, "n1")
	a, b := s.cluster("a", "n1"), s.cluster("b", "n1")
	s.delete(s.get("a"))
	s.untilGone("a")
	if s.lvm.Group(a.UID, "n1") != nil || s.lvm.Group(b.UID, "n1") == nil || s.mustMember("b", "n1").Status.State != "online" {
		t.Errorf("steps %v", s.lvm.Log())
	}
	// The node still belongs to a storage of the type, and the driver is still in use.
	if s.node("n1").Labels[v1alpha1.LabelStorageType] != "lvm" {
		t.Error("the label is gone")
	}
	if s.class("b") == nil {
		t.Error("the class of the other is gone")
	}
}

func TestClass_ofSomebodyElseIsLeftAlone(t *testing.T) {
	s := newSuite(t, "n1")
	foreign := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "pool"}, Provisioner: "example.com/other"}
	s.create(foreign)
	s.create(newCluster("pool", "n1"))
	s.until("pool", hasPhase(v1alpha1.PhaseFailed), has(v1alpha1.ConditionStorageClassReady, isFalse, v1alpha1.ReasonNameConflict, "pool"))
	s.driver.install(false)
	s.delete(s.get("pool"))
	s.untilGone("pool")
	if sc := s.class("pool"); sc == nil || sc.ResourceVersion != foreign.ResourceVersion {
		t.Error("the class of somebody else was touched")
	}
}

// A person makes the class the default one, and the spec says that it is not.
func TestClass_thatAPersonMadeTheDefaultIsCorrected(t *testing.T) {
	const key = "storageclass.kubernetes.io/is-default-class"
	s := newSuite(t, "n1")
	s.cluster("pool", "n1")
	sc := s.class("pool")
	sc.Annotations = map[string]string{key: "true", "example.com/kept": "yes"}
	s.update(sc)
	s.until("pool", func(*v1alpha1.Cluster) string {
		if sc := s.class("pool"); sc.Annotations[key] == "true" || sc.Annotations["example.com/kept"] != "yes" {
			return fmt.Sprintf("annotations %v", sc.Annotations)
		}
		return ""
	})
}

// What is given free is asked of the API server itself: with two lists, however many volumes are attached.
func TestUse_costsNoReadPerAttachment(t *testing.T) {
	s := newSuite(t, "n1")
	c := s.cluster("pool", "n1")
	s.addVolume(c, "n1", "v1")
	s.until("pool", inUse(true))
	for _, name := range []string{"o1", "o2", "o3"} {
		s.create(volume("other", v1alpha1.DriverLVM, "n1", name))
		s.create(&storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: "a-" + name},
			Spec:       storagev1.VolumeAttachmentSpec{Attacher: v1alpha1.DriverLVM, NodeName: "n1", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &name}},
		})
	}
	gets := 0
	s.live = interceptor.NewClient(s.direct, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, ok := o.(*corev1.PersistentVolume); ok {
				gets++
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
	s.restartController()
	s.removeVolume(c, "n1")
	s.until("pool", inUse(false))
	if gets > 0 {
		t.Errorf("%d volumes were read one by one", gets)
	}
}

func TestClass_isBroughtBackAndFollowsTheSpec(t *testing.T) {
	s := newSuite(t, "n1")
	c := s.cluster("pool", "n1")
	sc := s.class("pool")
	if sc.Provisioner != v1alpha1.DriverLVM || sc.Parameters[backendtest.ParameterOwner] != string(c.UID) || sc.Labels[v1alpha1.LabelOf(v1alpha1.KindCluster)] != "pool" {
		t.Errorf("class %+v", sc)
	}
	s.delete(sc)
	s.until("pool", func(*v1alpha1.Cluster) string {
		if s.class("pool") == nil {
			return "no class"
		}
		return ""
	})
	s.edit("pool", func(c *v1alpha1.Cluster) {
		c.Spec.StorageClass = &v1alpha1.StorageClassSpec{Default: true, ReclaimPolicy: "Retain"}
	})
	s.until("pool", func(*v1alpha1.Cluster) string {
		if sc := s.class("pool"); sc == nil || *sc.ReclaimPolicy != "Retain" || sc.Annotations["storageclass.kubernetes.io/is-default-class"] != "true" {
			return "the class does not follow the spec"
		}
		return ""
	})
	// Nobody serves any more: the class stays, so that nobody's claim is refused for good.
	s.lvm.Answer("n1", backendtest.Dead)
	s.pass(time.Minute)
	s.settle("pool")
	if s.class("pool") == nil {
		t.Error("the class went with the host")
	}
}

// hideMember returns a client whose lists lack a Member.
func hideMember(c client.WithWatch, name string) client.Client {
	return filterMembers(c, func(m *v1alpha1.Member) bool { return m.Name != name })
}

// A member that nothing is left of stays as long as the deletion is held up elsewhere, and its status goes on to tell what is true.
func TestTeardown_membersAreToldAndCountedWhileItWaits(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.lvm.Blind("n1", true)
	s.create(newCluster("pool", "n1", "n2"))
	s.untilMember("n2", inState("online"))
	c := s.get("pool")
	s.addVolume(c, "n2", "v1")
	s.until("pool", inUse(true))
	s.delete(s.get("pool"))
	s.until("pool", hasPhase(v1alpha1.PhaseDeleting), has(ready, isFalse, v1alpha1.ReasonDeleting, "v1"))
	s.lvm.Blind("n1", false)
	s.untilMember("n1", memberHas(ready, isFalse, v1alpha1.ReasonPreparing, "is being removed"))
	if c := s.settle("pool"); c.Status.HostCount != 2 {
		t.Errorf("%d hosts are counted while two members exist", c.Status.HostCount)
	}
	s.removeVolume(c, "n2")
	s.driver.install(false)
	s.untilGone("pool")
}
