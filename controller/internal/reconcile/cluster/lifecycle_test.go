package cluster

import (
	"slices"
	"strings"
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"quarry.storage/quarry/agent/agenttest"
	"quarry.storage/quarry/controller/internal/decide/class"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

var gibibyte = resource.MustParse("1Gi")

func TestReconcile_createUseDelete(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb", "sdc"}, "n2": {"sdb"}})
	s.add("pool", nil, "n1", "n2")
	c := s.until("pool", hasPhase(v1alpha1.PhaseRunning))

	if got := c.Status.DeviceCount; got != 3 {
		t.Errorf("%d devices are recorded, want 3", got)
	}
	if got := s.disksOf("n1", string(c.UID)); !slices.Equal(got, []string{"sdb", "sdc"}) {
		t.Errorf("disks of n1: %v", got)
	}
	checkFresh(s, c)

	s.addVolume("pool", "n1", "quarry-pool", "v1")
	s.until("pool", func(c *v1alpha1.Cluster) string {
		if c.Status.Capacity.Total.Used.Value() < 1<<30 {
			return "the volume does not show in the capacity"
		}
		return ""
	})
	deleteWithVolume(s, string(c.UID))
}

// checkFresh checks what a Cluster that has just been made looks like.
func checkFresh(s *suite, c *v1alpha1.Cluster) {
	t := s.t
	t.Helper()
	total, used, free := c.Status.Capacity.Total.Total, c.Status.Capacity.Total.Used, c.Status.Capacity.Total.Free
	if total.Value() < 290<<30 || used.Value() != 0 || free.Cmp(*total) != 0 {
		t.Errorf("capacity %s, used %s, free %s", total, used, free)
	}
	for _, n := range []string{"n1", "n2"} {
		if l := s.labelOf(n); l != "lvm" {
			t.Errorf("label of %s is %q", n, l)
		}
		if complaint := s.hasState(n, "online")(c); complaint != "" {
			t.Error(complaint)
		}
	}
	sc := s.class("pool")
	if sc == nil || sc.Provisioner != v1alpha1.DriverLVM || *sc.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer ||
		!*sc.AllowVolumeExpansion || sc.Parameters[class.ParameterFSType] != "ext4" || sc.Parameters[v1alpha1.ParameterCluster] != string(c.UID) {
		t.Errorf("storage class: %+v", sc)
	}
}

// deleteWithVolume deletes a Cluster that holds volume v1 on n1, then the volume.
func deleteWithVolume(s *suite, uid string) {
	t := s.t
	t.Helper()
	s.deleteCluster("pool")
	s.until("pool", all(hasPhase(v1alpha1.PhaseDeleting), s.hasState("n1", "failed", "quarry-pool/v1"),
		hasCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonDeleting, "v1")))
	if s.class("pool") != nil {
		t.Error("the storage class outlives the deletion")
	}
	if len(s.disksOf("n2", uid)) == 0 {
		t.Error("a host was torn down while volumes exist")
	}
	s.removeVolume("n1", "quarry-pool", "v1")
	s.untilGone("pool")
	for _, n := range []string{"n1", "n2"} {
		if g := s.agents[n].Groups(); len(g) != 0 {
			t.Errorf("groups left on %s: %+v", n, g)
		}
		if l := s.labelOf(n); l != "" {
			t.Errorf("label left on %s: %q", n, l)
		}
	}
}

func TestReconcile_writesNothingWhenNothingChanges(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb"}})
	s.add("pool", nil, "n1")
	before := s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	s.drain()
	for range 3 {
		if err := s.reconcile("pool"); err != nil {
			t.Fatal(err)
		}
	}
	if after := s.get("pool"); after.ResourceVersion != before.ResourceVersion {
		t.Errorf("written, and nothing changed: %s, then %s", before.ResourceVersion, after.ResourceVersion)
	}
	if e := s.drain(); len(e) != 0 {
		t.Errorf("events, and nothing changed: %v", e)
	}
}

func TestReconcile_diskPluggedInLater(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb"}})
	s.add("pool", nil, "n1")
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	s.agents["n1"].AddDisks(100<<30, "sdc")
	s.until("pool", func(c *v1alpha1.Cluster) string {
		if m := s.member("pool", "n1"); c.Status.Phase != v1alpha1.PhaseRunning || !strings.Contains(m.Status.Message, "set devices.hotplug or select it") {
			return "not told: " + c.Status.Message
		}
		return ""
	})
	if c := s.get("pool"); c.Status.DeviceCount != 1 || !s.agents["n1"].IsEmpty("sdc") {
		t.Fatalf("%d devices: a disk that appeared later was taken without anybody's word", c.Status.DeviceCount)
	}
	s.edit(func(c *v1alpha1.Cluster) { c.Spec.Devices = &v1alpha1.DeviceSelector{Hotplug: true} })
	s.until("pool", func(c *v1alpha1.Cluster) string {
		if c.Status.DeviceCount != 2 || c.Status.Phase != v1alpha1.PhaseRunning {
			return "not yet: " + c.Status.Message
		}
		return ""
	})
	if e := strings.Join(s.drain(), "\n"); !strings.Contains(e, v1alpha1.ReasonDisksAdded) {
		t.Errorf("no event tells of the disk:\n%s", e)
	}
}

// TestReconcile_youngDisk: a timer asks again when a disk is old enough, without any event.
func TestReconcile_youngDisk(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": nil})
	s.agents["n1"].AddDisk(agenttest.Disk{Name: "sdb", Fresh: true})
	plugged := time.Now()
	s.await("the disk", func() string {
		if len(s.pool.Node("n1").Devices) == 0 {
			return "not reported"
		}
		return ""
	})
	const least = 3 * time.Second
	s.add("pool", func(c *v1alpha1.ClusterSpec) {
		c.Devices = &v1alpha1.DeviceSelector{MinAge: &metav1.Duration{Duration: least}}
	}, "n1")
	s.until("pool", func(c *v1alpha1.Cluster) string {
		if m := s.member("pool", "n1"); m == nil || !strings.Contains(m.Status.Message, "is too young") {
			return "not told: " + c.Status.Message
		}
		return ""
	})
	result, err := s.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "pool"}})
	if err != nil || result.RequeueAfter <= 0 || result.RequeueAfter > least {
		t.Fatalf("asks again after %v: %v", result.RequeueAfter, err)
	}
	if n := s.get("pool").Status.DeviceCount; n != 0 {
		t.Fatalf("%d devices", n)
	}
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	if age := time.Since(plugged); age < least {
		t.Errorf("the disk was taken %v after it was plugged in", age)
	}
}

func TestReconcile_hostRemovedFromSpec(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb"}, "n2": {"sdb"}})
	s.add("pool", nil, "n1", "n2")
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	s.addVolume("pool", "n2", "quarry-pool", "v2")

	s.edit(func(c *v1alpha1.Cluster) { c.Spec.Hosts = []v1alpha1.HostName{"n1"} })
	c := s.until("pool", s.hasState("n2", "quiesced", "quarry-pool/v2"))
	if len(s.disksOf("n2", string(c.UID))) != 1 {
		t.Fatal("a host with volumes was torn down")
	}

	// Listing it again takes it back while the Member is not deleted.
	s.edit(func(c *v1alpha1.Cluster) { c.Spec.Hosts = []v1alpha1.HostName{"n1", "n2"} })
	s.until("pool", s.hasState("n2", "online"))
	s.edit(func(c *v1alpha1.Cluster) { c.Spec.Hosts = []v1alpha1.HostName{"n1"} })
	s.until("pool", s.hasState("n2", "quiesced", "quarry-pool/v2"))

	s.removeVolume("n2", "quarry-pool", "v2")
	s.until("pool", func(c *v1alpha1.Cluster) string {
		if m := s.member(c.Name, "n2"); m != nil {
			return "still a member: " + m.Status.Message
		}
		return hasPhase(v1alpha1.PhaseRunning)(c)
	})
	if l := s.labelOf("n2"); l != "" || !s.agents["n2"].IsEmpty("sdb") {
		t.Errorf("n2 has label %q, its disk is clean: %t", l, s.agents["n2"].IsEmpty("sdb"))
	}

	// Now it begins afresh.
	s.edit(func(c *v1alpha1.Cluster) { c.Spec.Hosts = []v1alpha1.HostName{"n1", "n2"} })
	s.until("pool", all(hasPhase(v1alpha1.PhaseRunning), s.hasState("n2", "online")))
}

func TestReconcile_maintenance(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb"}, "n2": {"sdb"}})
	s.add("pool", nil, "n1", "n2")
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	s.create(&v1alpha1.StorageNode{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: v1alpha1.StorageNodeSpec{Maintenance: true}})
	s.edit(func(c *v1alpha1.Cluster) { c.Spec.Maintenance = []v1alpha1.HostName{"n2"} })
	s.until("pool", all(s.hasState("n1", "quiesced"), s.hasState("n2", "quiesced")))

	s.agents["n2"].Kill()
	s.until("pool", func(c *v1alpha1.Cluster) string {
		if s.member(c.Name, "n2").Status.Flags.IsUp {
			return "n2 still counts as up"
		}
		return all(s.hasState("n2", "quiesced", "maintenance"), hasPhase(v1alpha1.PhaseRunning))(c)
	})
	s.edit(func(c *v1alpha1.Cluster) { c.Spec.Maintenance = nil })
	s.until("pool", all(s.hasState("n2", "offline"), hasPhase(v1alpha1.PhaseWarning)))
	s.agents["n2"].Restart(t)
	s.until("pool", all(s.hasState("n2", "online"), hasPhase(v1alpha1.PhaseRunning)))
}
