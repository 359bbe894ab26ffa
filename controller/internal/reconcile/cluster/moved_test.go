package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/backend/lvm"
	declvm "quarry.storage/quarry/controller/internal/decide/lvm"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/systemid"
)

// inGroup records the group of a volume.
func inGroup(uuid string) func(*corev1.PersistentVolume) {
	return func(pv *corev1.PersistentVolume) {
		pv.Spec.CSI.VolumeAttributes = map[string]string{v1alpha1.AttributeGroupUUID: uuid}
	}
}

// hasGroup checks which group a Member records.
func (s *suite) hasGroup(node, uuid string) func(*v1alpha1.Cluster) string {
	return func(*v1alpha1.Cluster) string {
		if m := s.member("pool", node); m == nil || m.Spec.Group == nil || m.Spec.Group.UUID != uuid {
			return "the Member of " + node + " does not record group " + uuid
		}
		return ""
	}
}

// holds checks that a host has a volume.
func (s *suite) holds(node, volume string) {
	s.t.Helper()
	for _, v := range s.agents[node].Volumes("quarry-pool") {
		if v.Name == volume {
			return
		}
	}
	s.t.Errorf("volume %s is not in the group of %s", volume, node)
}

// TestReconcile_movedDiskIsImportedByApproval: disks were moved to another host. Their group becomes that host's when a person approves the plan
// that names its volumes, and not before. The word that the old member is lost does not concern the group any more.
func TestReconcile_movedDiskIsImportedByApproval(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb"}, "n2": nil})
	s.add("pool", nil, "n1", "n2")
	s.until("pool", s.hasState("n1", "online"))
	uuid := s.member("pool", "n1").Spec.Group.UUID
	s.addVolume("pool", "n1", "quarry-pool", "v1", inGroup(uuid))
	s.agents["n1"].Move(s.agents["n2"].Host, "sdb")
	c := s.until("pool", all(s.hasState("n1", "online", "its disks are on node n2"), s.hasState("n2", "online", "approve the plan"),
		func(c *v1alpha1.Cluster) string {
			if c.Status.Plan == nil || len(c.Status.Plan.Steps) != 1 {
				return "no plan"
			}
			return ""
		}))
	step := c.Status.Plan.Steps[0]
	if step.Action != v1alpha1.ActionImportVolumeGroup || step.Host != "n2" || !strings.Contains(strings.Join(step.Volumes, " "), "v1") || len(step.Devices) != 1 {
		t.Fatalf("step %+v", step)
	}
	time.Sleep(100 * time.Millisecond)
	if err := s.reconcile("pool"); err != nil {
		t.Fatal(err)
	}
	if n := s.pool.Node("n2"); len(n.OtherNodes) != 1 || len(n.Groups) != 0 {
		t.Fatalf("imported without approval: %+v", n.Groups)
	}
	s.approve(c.Status.Plan.Digest)
	s.until("pool", s.hasGroup("n2", uuid))
	s.holds("n2", "v1")

	// The volume is made anew with the new node, as the documentation says.
	s.deletePersistentVolume("v1")
	s.agents["n2"].RemoveVolume("quarry-pool", "v1")
	s.addVolume("pool", "n2", "quarry-pool", "v1", inGroup(uuid))
	old := s.member("pool", "n1")
	old.Spec.Lost = string(old.UID)
	if err := s.client.Update(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	c = s.until("pool", func(c *v1alpha1.Cluster) string {
		if m := s.member("pool", "n1"); m != nil && m.UID == old.UID {
			return "the old member is still there"
		}
		return s.hasGroup("n2", uuid)(c)
	})
	if slices.Contains(c.Status.LostGroups, uuid) {
		t.Error("the group that was imported counts as lost")
	}
	s.until("pool", s.hasState("n2", "online"))
	s.holds("n2", "v1")
	s.deletePersistentVolume("v1")
}

// TestReconcile_movedToAStranger: disks were put into a node that the Cluster does not know. They are seen there, so that their group is not given up.
func TestReconcile_movedToAStranger(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb"}, "n2": nil})
	s.add("pool", nil, "n1")
	s.until("pool", s.hasState("n1", "online"))
	uuid := s.member("pool", "n1").Spec.Group.UUID
	s.addVolume("pool", "n1", "quarry-pool", "v1", inGroup(uuid))
	s.agents["n1"].Move(s.agents["n2"].Host, "sdb")
	s.agents["n1"].AddDisks(100<<30, "sdc")
	s.agents["n1"].AddGroup("quarry-pool", string(s.get("pool").UID), "sdc")
	s.agents["n1"].SetSystemID("quarry-pool", systemid.Of("n1"))
	c := s.until("pool", s.hasState("n1", "online", "its disks are on node n2"))
	if c.Status.Plan != nil {
		t.Errorf("plan %+v", c.Status.Plan.Steps)
	}
	s.deletePersistentVolume("v1")
}

// TestReconcile_reinstalledNode: a node is deleted and comes back under its name with its disks. Its group is on record, so that nobody is asked.
func TestReconcile_reinstalledNode(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb"}})
	s.add("pool", nil, "n1")
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	m := s.member("pool", "n1")
	uuid := m.Spec.Group.UUID
	s.addVolume("pool", "n1", "quarry-pool", "v1", inGroup(uuid))
	s.agents["n1"].Kill()
	s.delete(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	s.pool.Forget("n1")
	s.until("pool", s.hasState("n1", "offline"))
	s.addNode("n1")
	s.agents["n1"].Restart(t)
	s.pool.SetAddress("n1", s.agents["n1"].Addr(), "pod-after")
	c := s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	if now := s.member("pool", "n1"); now.UID != m.UID || now.Spec.Group.UUID != uuid || c.Status.Plan != nil {
		t.Errorf("member %+v, plan %+v", now.Spec, c.Status.Plan)
	}
	s.holds("n1", "v1")
	s.deletePersistentVolume("v1")
}

// TestReconcile_olderBackupOfTheAPI: everything that the API server knew is put back as it was before a second host joined, while the disks have
// its group and volumes of both. Nothing is torn down, and nothing is made.
func TestReconcile_olderBackupOfTheAPI(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb"}, "n2": {"sdb"}})
	s.add("pool", nil, "n1")
	older := s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	first := s.member("pool", "n1").Spec.Group.UUID
	s.edit(func(c *v1alpha1.Cluster) { c.Spec.Hosts = append(c.Spec.Hosts, "n2") })
	s.until("pool", all(hasPhase(v1alpha1.PhaseRunning), s.hasState("n2", "online")))
	second := s.member("pool", "n2").Spec.Group.UUID
	for _, host := range []string{"n1", "n2"} {
		s.agents[host].AddVolume("quarry-pool", "v-"+host, 1<<30)
		s.agents[host].AddDisks(100<<30, "sdc")
	}
	s.await("the volumes and disks are reported", func() string {
		for _, host := range []string{"n1", "n2"} {
			if n := s.pool.Node(host); len(n.Devices) != 2 || len(n.Groups[0].Volumes) != 1 {
				return host + " does not report yet"
			}
		}
		return ""
	})

	// The backup knows neither the second Member nor any PersistentVolume, and less of the Cluster.
	m := s.member("pool", "n2")
	m.Finalizers = nil
	if err := s.client.Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	s.delete(m)
	s.edit(func(c *v1alpha1.Cluster) { c.Spec, c.Annotations = older.Spec, older.Annotations })
	c := s.get("pool")
	c.Status = older.Status
	if err := s.client.Status().Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	s.restartController()
	s.until("pool", func(c *v1alpha1.Cluster) string {
		if s.member("pool", "n2") == nil {
			return "the group on n2 has no Member"
		}
		return s.hasGroup("n2", second)(c)
	})
	for range 20 {
		if err := s.reconcile("pool"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	for host, uuid := range map[string]string{"n1": first, "n2": second} {
		s.holds(host, "v-"+host)
		if m := s.member("pool", host); !m.DeletionTimestamp.IsZero() || m.Spec.Group.UUID != uuid {
			t.Errorf("member of %s: deleted %v, %+v", host, m.DeletionTimestamp, m.Spec.Group)
		}
		if got := s.disksOf(host, string(older.UID)); !slices.Equal(got, []string{"sdb"}) || !s.agents[host].IsEmpty("sdc") {
			t.Errorf("disks of %s: %v", host, got)
		}
	}
}

const older = "OLDERx-xxxx-xxxx-xxxx-xxxx-xxxx-xxxxxx"

// withOlderRecord is a Cluster whose record is of an earlier group than the one on the disks, which has volume v1, and of which PersistentVolume gone
// tells, too. It returns the UUID of the group that is there, and the digest of the plan.
func withOlderRecord(t *testing.T, s *suite) (uuid, digest string) {
	t.Helper()
	s.add("pool", func(c *v1alpha1.ClusterSpec) { c.Devices = &v1alpha1.DeviceSelector{Hotplug: true} }, "n1")
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	m := s.member("pool", "n1")
	s.agents["n1"].AddVolume("quarry-pool", "v1", 1<<30)
	s.agents["n1"].AddDisks(100<<30, "sdc")
	s.addVolume("pool", "n1", "quarry-pool", "gone", inGroup(older))
	t.Cleanup(func() { s.deletePersistentVolume("gone") })
	s.agents["n1"].RemoveVolume("quarry-pool", "gone")
	m.Finalizers = nil
	if err := s.client.Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	s.delete(m)
	m.ObjectMeta = metav1.ObjectMeta{Name: m.Name, Labels: m.Labels, Annotations: m.Annotations}
	uuid, m.Spec.Group.UUID = m.Spec.Group.UUID, older
	s.create(m)
	s.restartController()
	c := s.until("pool", all(hasCondition(ready, isFalse, v1alpha1.ReasonVolumeGroupLost, "OLDERx", "which serves what it holds"),
		func(c *v1alpha1.Cluster) string {
			if c.Status.Plan == nil || len(c.Status.Plan.Steps) != 1 || !slices.Equal(c.Status.Plan.Steps[0].Volumes, []string{"lost: gone", "kept: v1"}) {
				return "the plan does not name the volumes of both groups"
			}
			return ""
		}))
	step := c.Status.Plan.Steps[0]
	if step.Action != v1alpha1.ActionAdoptVolumeGroup || step.GroupUUID != uuid || !slices.Equal(step.Replaces, []string{older}) {
		t.Fatalf("step %+v", step)
	}
	return uuid, c.Status.Plan.Digest
}

// grown checks that the host has taken its second disk, and that nothing is planned any more.
func (s *suite) grown(c *v1alpha1.Cluster) string {
	if c.Status.Plan != nil || s.agents["n1"].IsEmpty("sdc") {
		return "the host does not grow"
	}
	return ""
}

// TestReconcile_olderRecord: the record is of an earlier group than the one on the disks. Nothing is removed, made or mixed up. Once a person approves
// it, the record names the group that is there, and the host grows.
func TestReconcile_olderRecord(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb"}})
	uuid, digest := withOlderRecord(t, s)
	for range 5 {
		if err := s.reconcile("pool"); err != nil {
			t.Fatal(err)
		}
	}
	s.holds("n1", "v1")
	if complaint := s.hasGroup("n1", older)(nil); complaint != "" || !s.agents["n1"].IsEmpty("sdc") {
		t.Errorf("something was done without approval; %s", complaint)
	}
	s.approve(digest)
	s.until("pool", all(hasPhase(v1alpha1.PhaseRunning), s.hasGroup("n1", uuid), s.grown))
	s.holds("n1", "v1")
	m := s.member("pool", "n1")
	if !slices.Equal(m.Spec.Group.Earlier, []string{older}) || m.Annotations[v1alpha1.AnnotationApprove] != "" {
		t.Errorf("record %+v, annotations %v", m.Spec.Group, m.Annotations)
	}
	away := func(*v1alpha1.Cluster) string {
		m := s.member("pool", "n1")
		c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionGivenUpAbsent)
		if c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != m.Generation || !strings.Contains(c.Message, older) {
			return fmt.Sprintf("what was given up: %+v", c)
		}
		return ""
	}
	s.until("pool", away)
	s.restartController()
	s.until("pool", all(hasPhase(v1alpha1.PhaseRunning), s.hasGroup("n1", uuid), away))
}

// cutOff are records of a controller that dies when it writes one: before or after the API server has it.
type cutOff struct {
	lvm.Records
	after bool
	died  *int
}

func (c cutOff) Adopt(ctx context.Context, a declvm.Adoption, group, uuid string) error {
	*c.died++
	if c.after {
		if err := c.Records.Adopt(ctx, a, group, uuid); err != nil {
			return err
		}
	}
	return errors.New("the controller died")
}

// TestReconcile_adoptionCutOff: the controller dies between the approval and the record, or after the record. Its successor goes on under the same
// approval, and the record is written once.
func TestReconcile_adoptionCutOff(t *testing.T) {
	for name, after := range map[string]bool{"before the record": false, "after the record": true} {
		t.Run(name, func(t *testing.T) {
			died := 0
			s := newSuite(t, map[string][]string{"n1": {"sdb"}})
			s.records = func(r lvm.Records) lvm.Records { return cutOff{r, after, &died} }
			uuid, digest := withOlderRecord(t, s)
			s.approve(digest)
			s.await("the controller dies", func() string {
				_ = s.reconcile("pool")
				if died == 0 {
					return "it does not"
				}
				return ""
			})
			want := older
			if after {
				want = uuid
			}
			if complaint := s.hasGroup("n1", want)(nil); complaint != "" {
				t.Fatal(complaint)
			}
			s.records = nil
			s.restartController()
			s.until("pool", all(hasPhase(v1alpha1.PhaseRunning), s.hasGroup("n1", uuid), s.grown))
			if m := s.member("pool", "n1"); !slices.Equal(m.Spec.Group.Earlier, []string{older}) || m.Annotations[v1alpha1.AnnotationApprove] != "" {
				t.Errorf("record %+v, annotations %v", m.Spec.Group, m.Annotations)
			}
			s.holds("n1", "v1")
		})
	}
}

// restored puts the Cluster pool back as a backup does: the objects have new UIDs, and the Members are gone. It returns the UID that it had.
func (s *suite) restored() string {
	s.t.Helper()
	c := s.get("pool")
	before := string(c.UID)
	m := s.member("pool", "n1")
	for _, o := range []client.Object{c, m} {
		o.SetFinalizers(nil)
		if err := s.client.Update(s.t.Context(), o); err != nil {
			s.t.Fatal(err)
		}
		s.delete(o)
	}
	c.ObjectMeta = metav1.ObjectMeta{Name: c.Name}
	c.Status = v1alpha1.ClusterStatus{}
	s.create(c)
	s.restartController()
	return before
}

// offersImport checks that the plan has nothing but the import of a group with a volume.
func offersImport(volume string) func(*v1alpha1.Cluster) string {
	return func(c *v1alpha1.Cluster) string {
		if p := c.Status.Plan; p == nil || len(p.Steps) != 1 || p.Steps[0].Action != v1alpha1.ActionImportVolumeGroup ||
			!strings.Contains(strings.Join(p.Steps[0].Volumes, " "), volume) || len(p.Steps[0].Devices) != 1 {
			return "the import is not planned"
		}
		return ""
	}
}

// TestReconcile_groupOfAnOwnerThatIsGone: a Cluster is restored under another UID. Its group serves what it holds, and becomes its own by approval; then
// the host grows. A controller that dies between the call and the record, or after the record, has a successor that goes on.
func TestReconcile_groupOfAnOwnerThatIsGone(t *testing.T) {
	for name, after := range map[string]*bool{"nobody dies": nil, "death before the record": new(false), "death after the record": new(true)} {
		t.Run(name, func(t *testing.T) {
			died := 0
			s := newSuite(t, map[string][]string{"n1": {"sdb"}})
			if after != nil {
				s.records = func(r lvm.Records) lvm.Records { return cutOff{r, *after, &died} }
			}
			s.add("pool", func(c *v1alpha1.ClusterSpec) { c.Devices = &v1alpha1.DeviceSelector{Hotplug: true} }, "n1")
			s.until("pool", hasPhase(v1alpha1.PhaseRunning))
			uuid := s.member("pool", "n1").Spec.Group.UUID
			s.addVolume("pool", "n1", "quarry-pool", "v1", inGroup(uuid))
			t.Cleanup(func() { s.removeVolume("n1", "quarry-pool", "v1") })
			s.agents["n1"].AddDisks(100<<30, "sdc")
			before := s.restored()
			c := s.until("pool", all(hasCondition(ready, isFalse, v1alpha1.ReasonVolumeGroupLost, before, "Approve the plan"), offersImport("v1")))
			for range 5 {
				if err := s.reconcile("pool"); err != nil {
					t.Fatal(err)
				}
			}
			if got := s.disksOf("n1", before); !slices.Equal(got, []string{"sdb"}) || !s.agents["n1"].IsEmpty("sdc") || s.member("pool", "n1").Spec.Group != nil {
				t.Fatalf("something was done without approval: %v", got)
			}
			s.approve(c.Status.Plan.Digest)
			if after != nil {
				s.await("the controller dies", func() string {
					_ = s.reconcile("pool")
					if died == 0 {
						return "it does not"
					}
					return ""
				})
				if got := s.disksOf("n1", string(c.UID)); !slices.Equal(got, []string{"sdb"}) {
					t.Fatalf("the record comes after the group has its owner: %v", got)
				}
				s.records = nil
				s.restartController()
			}
			s.until("pool", all(hasPhase(v1alpha1.PhaseRunning), s.hasGroup("n1", uuid), s.grown))
			s.holds("n1", "v1")
			if got := s.disksOf("n1", string(c.UID)); !slices.Equal(got, []string{"sdb", "sdc"}) {
				t.Errorf("disks %v", got)
			}
		})
	}
}
