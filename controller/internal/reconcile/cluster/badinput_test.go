package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/agent/agenttest"
	"quarry.storage/quarry/controller/internal/decide/class"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

const (
	ready   = v1alpha1.ConditionReady
	isFalse = metav1.ConditionFalse
)

func TestReconcile_unknownHost(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb"}})
	s.add("pool", nil, "n1", "nowhere")
	s.until("pool", all(hasPhase(v1alpha1.PhaseWarning), s.hasState("n1", "online"),
		hasCondition(v1alpha1.ConditionHostsValid, isFalse, v1alpha1.ReasonHostNotFound, "nowhere"),
		hasCondition(ready, isFalse, v1alpha1.ReasonHostNotFound)))
	if s.class("pool") == nil {
		t.Error("the good host does not serve")
	}
	s.add("lost", nil, "nowhere")
	s.until("lost", hasPhase(v1alpha1.PhaseFailed))
	s.deleteCluster("lost")
	s.untilGone("lost")
}

func TestReconcile_hostWithoutAgent(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb"}})
	s.addNode("n2")
	s.add("pool", nil, "n1", "n2")
	s.until("pool", all(hasPhase(v1alpha1.PhaseWarning), s.hasState("n2", "offline", "no agent runs on this node"),
		hasCondition(ready, isFalse, v1alpha1.ReasonAgentMissing, "n2")))

	// It heals by itself once the agent is there.
	a := agenttest.New(t, agenttest.Options{NodeName: "n2", CA: s.ca})
	a.AddDisks(100<<30, "sdb")
	s.agents["n2"] = a
	s.pool.SetAddress("n2", a.Addr(), "late")
	s.until("pool", all(hasPhase(v1alpha1.PhaseRunning), s.hasState("n2", "online")))
}

func TestReconcile_allDisksInUse(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sda", "sdb", "sdc"}})
	a := s.agents["n1"]
	a.Partition("sda", "gpt", 2)
	a.Format("sdb", "ext4", "", "")
	a.Mount("sdb", "/data")
	a.AddForeignGroup("vg0", "sdc")
	s.seen("n1", "sdc")
	s.add("pool", nil, "n1")
	c := s.until("pool", all(hasPhase(v1alpha1.PhaseFailed), hasCondition(ready, isFalse, v1alpha1.ReasonNoCleanDevice,
		a.Path("sda"), v1alpha1.RefusalPartitionTable, a.Path("sdb"), v1alpha1.RefusalMounted, a.Path("sdc"), v1alpha1.RefusalLVM)))
	if !strings.Contains(c.Status.Message, a.Path("sdb")) || s.class("pool") != nil || a.Steps() != 0 {
		t.Errorf("message %q, class %v, %d changes of disks", c.Status.Message, s.class("pool"), a.Steps())
	}
	a.AddDisks(100<<30, "sdd")
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
}

func TestReconcile_pathsThatAreNotThere(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb"}, "n2": {"sdb"}})
	one, two := v1alpha1.DevicePath(s.agents["n1"].Path("sdb")), v1alpha1.DevicePath(s.agents["n2"].Path("sdb"))
	s.add("pool", func(spec *v1alpha1.ClusterSpec) {
		spec.Devices = &v1alpha1.DeviceSelector{Paths: []v1alpha1.DevicePath{one, two, "/dev/disk/by-id/gone"}}
	}, "n1", "n2")
	s.until("pool", all(hasPhase(v1alpha1.PhaseWarning), hasCondition(ready, isFalse, v1alpha1.ReasonDeviceNotFound, "/dev/disk/by-id/gone")))
	s.edit(func(c *v1alpha1.Cluster) { c.Spec.Devices.Paths = []v1alpha1.DevicePath{one, two} })
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
}

// wipeOf consents to the wipe of a disk of n1.
func wipeOf(path, serial string) func(*v1alpha1.ClusterSpec) {
	return func(spec *v1alpha1.ClusterSpec) {
		spec.Devices = &v1alpha1.DeviceSelector{Wipe: []v1alpha1.WipeConsent{
			{Host: "n1", Path: v1alpha1.DevicePath(path), Serial: serial},
		}}
	}
}

// approve approves a plan of the Cluster pool.
func (s *suite) approve(digest string) {
	s.t.Helper()
	s.edit(func(c *v1alpha1.Cluster) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, v1alpha1.AnnotationApprove, digest)
	})
}

func TestReconcile_wipeWaitsForApproval(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb", "sdc"}})
	a := s.agents["n1"]
	a.Format("sdc", "ext4", "old", "u-1")
	s.seen("n1", "sdc")
	s.add("pool", wipeOf(a.Path("sdc"), ""), "n1")
	c := s.until("pool", all(hasPhase(v1alpha1.PhaseWarning), hasCondition(ready, isFalse, v1alpha1.ReasonApprovalRequired, "kubectl annotate"),
		hasCondition(v1alpha1.ConditionPlanApproved, isFalse, v1alpha1.ReasonApprovalRequired)))
	if got := s.disksOf("n1", string(c.UID)); !slices.Equal(got, []string{"sdb"}) || a.IsEmpty("sdc") {
		t.Fatalf("before the approval: disks %v, sdc is empty: %t", got, a.IsEmpty("sdc"))
	}
	if p := c.Status.Plan; len(p.Steps) != 2 || p.Steps[0].Action != v1alpha1.ActionWipeDevice || !strings.Contains(p.Steps[0].Reason, "Filesystem") {
		t.Errorf("plan %+v", p)
	}
	s.approve("not-the-digest")
	s.until("pool", hasCondition(ready, isFalse, v1alpha1.ReasonApprovalRequired))
	if a.IsEmpty("sdc") {
		t.Fatal("a wrong digest approved the wipe")
	}
	s.approve(c.Status.Plan.Digest)
	c = s.until("pool", all(hasPhase(v1alpha1.PhaseRunning), hasCondition(v1alpha1.ConditionPlanApproved, metav1.ConditionTrue, v1alpha1.ReasonApproved)))
	if got := s.disksOf("n1", string(c.UID)); !slices.Equal(got, []string{"sdb", "sdc"}) || c.Status.Plan != nil {
		t.Errorf("disks %v, plan %+v", got, c.Status.Plan)
	}
	if _, left := c.Annotations[v1alpha1.AnnotationApprove]; left {
		t.Error("the used approval is still there")
	}
	if e := strings.Join(s.drain(), "\n"); !strings.Contains(e, v1alpha1.ReasonDiskWiped) || strings.Count(e, "Normal "+v1alpha1.ReasonApprovalRequired) < 1 {
		t.Errorf("events:\n%s", e)
	}
}

func TestReconcile_wipeOfAnotherDiskThanApproved(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb", "sdc"}})
	a := s.agents["n1"]
	a.Format("sdc", "ext4", "old", "u-1")
	s.seen("n1", "sdc")
	s.add("pool", wipeOf(a.Path("sdc"), ""), "n1")
	c := s.until("pool", hasCondition(ready, isFalse, v1alpha1.ReasonApprovalRequired))
	old := c.Status.Plan.Digest

	// The disk gets other content between the look and the approval.
	a.Format("sdc", "xfs", "precious", "u-2")
	s.approve(old)
	c = s.until("pool", func(c *v1alpha1.Cluster) string {
		if c.Status.Plan == nil || c.Status.Plan.Digest == old {
			return "the plan has not changed yet"
		}
		return hasCondition(ready, isFalse, v1alpha1.ReasonApprovalRequired)(c)
	})
	if a.IsEmpty("sdc") || c.Status.Plan.Approved {
		t.Error("an approval for other content wiped the disk")
	}
}

func TestReconcile_wipeConsentForAnotherSerial(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb", "sdc"}})
	a := s.agents["n1"]
	a.Format("sdc", "ext4", "", "")
	s.add("pool", wipeOf(a.Path("sdc"), "ANOTHER"), "n1")
	s.until("pool", all(hasPhase(v1alpha1.PhaseWarning), hasCondition(ready, isFalse, v1alpha1.ReasonDeviceRefused, "ANOTHER", "not wiped")))
	if a.IsEmpty("sdc") {
		t.Error("wiped")
	}
}

func TestReconcile_twoClustersWantOneDisk(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb"}})
	path := v1alpha1.DevicePath(s.agents["n1"].Path("sdb"))
	choose := func(spec *v1alpha1.ClusterSpec) {
		spec.Devices = &v1alpha1.DeviceSelector{Paths: []v1alpha1.DevicePath{path}}
	}
	s.add("zz-first", choose, "n1")
	time.Sleep(1100 * time.Millisecond) // Times of creation have whole seconds.
	s.add("aa-second", choose, "n1")
	// The order of the reconciles does not matter: the older one gets the disk.
	s.until("aa-second", all(hasPhase(v1alpha1.PhaseFailed), hasCondition(ready, isFalse, v1alpha1.ReasonDeviceConflict, "zz-first")))
	s.until("zz-first", hasPhase(v1alpha1.PhaseRunning))
	s.until("aa-second", all(hasPhase(v1alpha1.PhaseFailed), hasCondition(ready, isFalse, v1alpha1.ReasonDeviceConflict, "zz-first")))
	s.deleteCluster("zz-first")
	s.untilGone("zz-first")
	s.until("aa-second", hasPhase(v1alpha1.PhaseRunning))
}

func TestReconcile_hostOfAnotherType(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb"}, "n2": {"sdb"}})
	shared := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "shared"}}
	shared.Spec.StorageType, shared.Spec.Hosts = v1alpha1.StorageTypeCephFS, []v1alpha1.HostName{"n1"}
	s.create(shared)
	s.until("shared", all(hasCondition(ready, isFalse, v1alpha1.ReasonNotYetSupported), hasPhase(v1alpha1.PhaseFailed)))
	time.Sleep(1100 * time.Millisecond)
	s.add("pool", nil, "n1", "n2")
	s.until("pool", all(hasPhase(v1alpha1.PhaseWarning), hasCondition(ready, isFalse, v1alpha1.ReasonHostConflict, "n1", "shared")))
	if s.labelOf("n1") != "" || s.agents["n1"].Steps() != 0 || s.labelOf("n2") != "lvm" {
		t.Errorf("labels %q and %q, %d changes of disks", s.labelOf("n1"), s.labelOf("n2"), s.agents["n1"].Steps())
	}
	if c := s.get("shared"); len(c.Finalizers) != 0 {
		t.Errorf("finalizers of a Cluster that is not supported: %v", c.Finalizers)
	}
	s.deleteCluster("shared")
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
}

func TestReconcile_storageClassOfSomebodyElse(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb"}})
	s.create(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "pool"}, Provisioner: "example.com/other"})
	s.add("pool", nil, "n1")
	s.until("pool", all(hasPhase(v1alpha1.PhaseFailed), hasCondition(v1alpha1.ConditionStorageClassReady, isFalse, v1alpha1.ReasonNameConflict)))
	if sc := s.class("pool"); sc.Provisioner != "example.com/other" || len(sc.Labels) != 0 {
		t.Errorf("the class was touched: %+v", sc)
	}
	s.deleteCluster("pool")
	s.untilGone("pool")
	if s.class("pool") == nil {
		t.Error("the class of somebody else was deleted")
	}
}

func TestReconcile_storageClassConverges(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb"}})
	s.add("pool", nil, "n1")
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	uid := s.class("pool").UID
	s.edit(func(c *v1alpha1.Cluster) { c.Spec.StorageClass = &v1alpha1.StorageClassSpec{Default: true} })
	s.until("pool", func(*v1alpha1.Cluster) string {
		if sc := s.class("pool"); sc == nil || sc.Annotations["storageclass.kubernetes.io/is-default-class"] != "true" || sc.UID != uid {
			return "not the default class, or made anew"
		}
		return ""
	})
	s.edit(func(c *v1alpha1.Cluster) {
		c.Spec.StorageClass = &v1alpha1.StorageClassSpec{ReclaimPolicy: corev1.PersistentVolumeReclaimRetain, FSType: "xfs"}
	})
	s.until("pool", func(*v1alpha1.Cluster) string {
		sc := s.class("pool")
		if sc == nil || *sc.ReclaimPolicy != corev1.PersistentVolumeReclaimRetain || sc.Parameters[class.ParameterFSType] != "xfs" {
			return "the class is as before"
		}
		if sc.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" {
			return "still the default class"
		}
		return ""
	})
	s.delete(s.class("pool"))
	s.until("pool", func(*v1alpha1.Cluster) string {
		if s.class("pool") == nil {
			return "the class was not made again"
		}
		return ""
	})
}

// TestReconcile_storageClassOptions: good ones reach the class, bad ones change nothing, and a person's stay where the spec has none.
func TestReconcile_storageClassOptions(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb"}})
	s.add("pool", nil, "n1")
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	options := func(mount []v1alpha1.MountOption, mkfs ...v1alpha1.MkfsOption) {
		s.edit(func(c *v1alpha1.Cluster) {
			c.Spec.StorageClass = &v1alpha1.StorageClassSpec{MountOptions: mount, MkfsOptions: mkfs}
		})
	}
	is := func(mount, mkfs string) func(*v1alpha1.Cluster) string {
		return func(*v1alpha1.Cluster) string {
			sc := s.class("pool")
			if sc == nil || strings.Join(sc.MountOptions, ",") != mount || sc.Parameters[v1alpha1.ParameterMkfsOptions] != mkfs {
				return fmt.Sprintf("the class is %+v", sc)
			}
			return ""
		}
	}
	options([]v1alpha1.MountOption{"noatime", "discard"}, "-i 65536", "-m 1")
	s.until("pool", is("noatime,discard", "-i 65536; -m 1"))
	uid := s.class("pool").UID
	options(nil, "-O encrypt")
	s.until("pool", hasCondition(v1alpha1.ConditionStorageClassReady, isFalse, v1alpha1.ReasonStorageClassFailed, `"-O encrypt" for ext4`))
	if sc := s.class("pool"); sc == nil || sc.UID != uid || len(sc.MountOptions) != 2 {
		t.Errorf("the class is %+v", sc)
	}
	options(nil)
	s.until("pool", is("", ""))
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
}

func TestReconcile_volumeGroupOfSomebodyElse(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb", "sdc"}})
	s.agents["n1"].AddForeignGroup("quarry-pool", "sdb")
	s.add("pool", nil, "n1")
	s.until("pool", hasCondition(ready, isFalse, v1alpha1.ReasonVolumeGroupConflict, "quarry-pool"))
	if !s.agents["n1"].IsEmpty("sdc") {
		t.Error("a device was taken for a group that cannot be made")
	}
}

func TestReconcile_nodeObjectGone(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb"}, "n2": {"sdb"}})
	s.add("pool", nil, "n1", "n2")
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	s.delete(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}})
	s.agents["n2"].Kill()
	s.pool.Forget("n2")
	s.until("pool", all(hasPhase(v1alpha1.PhaseWarning), hasCondition(ready, isFalse, v1alpha1.ReasonHostNotFound, "n2")))
	if m := s.member("pool", "n2"); m == nil || len(m.Status.Devices) != 1 || m.Spec.Group == nil || m.Spec.Group.UUID == "" {
		t.Errorf("what was recorded of the host is lost: %+v", m)
	}
	// Taking the host out of the spec lets the Cluster forget a machine that does not exist any more.
	s.edit(func(c *v1alpha1.Cluster) { c.Spec.Hosts = []v1alpha1.HostName{"n1"} })
	s.until("pool", func(c *v1alpha1.Cluster) string {
		if s.member(c.Name, "n2") != nil {
			return "still a member"
		}
		return hasPhase(v1alpha1.PhaseRunning)(c)
	})
}

func TestReconcile_deleteWhileAHostIsAway(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb"}, "n2": {"sdb"}})
	s.add("pool", nil, "n1", "n2")
	c := s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	s.agents["n2"].Kill()
	s.until("pool", s.hasState("n2", "offline"))
	s.deleteCluster("pool")
	s.until("pool", all(hasPhase(v1alpha1.PhaseDeleting), s.hasState("n2", "failed", "waits for its agent"), func(*v1alpha1.Cluster) string {
		if len(s.disksOf("n1", string(c.UID))) != 0 {
			return "the host that is there is held up by the one that is away"
		}
		return ""
	}))
	if err := s.client.Get(context.Background(), clientKey("pool"), c); err != nil || len(c.Finalizers) == 0 {
		t.Fatalf("the Cluster was given free: %v", err)
	}
	s.agents["n2"].Restart(t)
	s.untilGone("pool")
	if !s.agents["n2"].IsEmpty("sdb") {
		t.Error("the disk of n2 is not clean")
	}
}
