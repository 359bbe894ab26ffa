package storage

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/backend/backendtest"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// declare says that a member of the Cluster pool is lost.
func (s *suite) declare(node, word string) {
	s.t.Helper()
	s.editMember(node, func(m *v1alpha1.Member) { m.Spec.Lost = word })
}

func TestLost_onlyTheUIDCounts(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.cluster("pool", "n1", "n2")
	s.lvm.Answer("n2", backendtest.Silent)
	uid := s.mustMember("pool", "n2").UID
	s.declare("n2", "yes")
	s.settle("pool")
	s.pass(10 * delay)
	s.settle("pool")
	if m := s.mustMember("pool", "n2"); !m.DeletionTimestamp.IsZero() || m.UID != uid {
		t.Error("a word that is not the UID was obeyed")
	}
}

func TestLost_staysUntilNoVolumeNamesItAndIsRecorded(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	c := s.cluster("pool", "n1", "n2")
	s.addVolume(c, "n2", "v1")
	s.lvm.Answer("n2", backendtest.Dead)
	old := s.untilMember("n2", inState("offline"))
	s.declare("n2", string(old.UID))
	m := s.untilMember("n2", inState("failed", "v1"))
	if m.DeletionTimestamp.IsZero() {
		t.Fatal("not deleted")
	}
	if complaint := memberHas(v1alpha1.ConditionLeaving, isTrue, v1alpha1.ReasonLost)(m); complaint != "" {
		t.Errorf("nothing says that the word was taken: %s", complaint)
	}
	s.settle("pool")
	if s.mustMember("pool", "n2").UID != old.UID || len(s.get("pool").Status.LostGroups) != 0 {
		t.Error("gone while a volume names it")
	}
	// The record of the loss is written before the Member goes.
	lostFirst := false
	s.cached = deny(s.client, func(verb, name string) error {
		if verb == "patch" && name == "pool.n2" && s.member("pool", "n2") != nil {
			c := s.get("pool")
			lostFirst = slices.Contains(c.Status.LostGroups, old.Spec.Group.UUID) && c.Annotations[v1alpha1.AnnotationLostGroups] == old.Spec.Group.UUID
		}
		return nil
	})
	s.restartController()
	s.removePV("v1")
	m = s.untilMember("n2", func(m *v1alpha1.Member) string {
		if m.UID == old.UID {
			return "the lost member is still there"
		}
		return ""
	})
	if !lostFirst {
		t.Error("the lost group was not recorded before its Member went")
	}
	if !slices.Equal(s.get("pool").Status.LostGroups, []string{old.Spec.Group.UUID}) {
		t.Errorf("lost groups %v", s.get("pool").Status.LostGroups)
	}
	// The host is listed: it is used again once it is back, and what comes back on its disks is foreign.
	if complaint := inState("offline")(m); complaint != "" {
		t.Error(complaint)
	}
	s.lvm.Answer("n2", backendtest.Up)
	s.settle("pool")
	if got := s.mustMember("pool", "n2").Spec.Group; got != nil && got.UUID == old.Spec.Group.UUID {
		t.Error("the lost group was taken back")
	}
}

func TestLost_isRefusedWhileTheHostReportsTheGroup(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.cluster("pool", "n1", "n2")
	old := s.mustMember("pool", "n2")
	s.declare("n2", string(old.UID))
	s.untilMember("n2", memberHas(ready, isFalse, v1alpha1.ReasonLost, "reported"))
	s.untilMember("n2", memberHas(v1alpha1.ConditionRecordReported, isTrue, v1alpha1.ReasonRecordReported))
	s.pass(10 * delay)
	s.settle("pool")
	if m := s.mustMember("pool", "n2"); !m.DeletionTimestamp.IsZero() || m.UID != old.UID || s.lvm.Steps("n2") != 1 {
		t.Errorf("a host that reports its group was given up: %v", s.lvm.Log())
	}
	// Nobody can say yet: that is no loss, and what was reported last stays.
	s.lvm.Answer("n2", backendtest.Early)
	s.settle("pool")
	s.untilMember("n2", memberHas(v1alpha1.ConditionRecordReported, isTrue, v1alpha1.ReasonRecordReported))
	if m := s.mustMember("pool", "n2"); !m.DeletionTimestamp.IsZero() || m.UID != old.UID {
		t.Error("obeyed while nobody could look")
	}
}

// TestLost_waitsWhileTheHostCannotSay: what a host answers without saying what is on it is no silence.
func TestLost_waitsWhileTheHostCannotSay(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	c := s.cluster("pool", "n1", "n2")
	old := s.mustMember("pool", "n2")
	s.declare("n2", string(old.UID))
	s.lvm.Blind("n2", true)
	s.settle("pool")
	s.untilMember("n2", memberHas(v1alpha1.ConditionRecordReported, metav1.ConditionUnknown, v1alpha1.ReasonRecordUnsure))
	s.pass(10 * delay)
	s.settle("pool")
	if m := s.mustMember("pool", "n2"); !m.DeletionTimestamp.IsZero() || m.UID != old.UID || len(s.get("pool").Status.LostGroups) != 0 {
		t.Error("obeyed while the host could not say what is on it")
	}
	s.lvm.Blind("n2", false)
	s.settle("pool")
	if m := s.mustMember("pool", "n2"); !m.DeletionTimestamp.IsZero() || m.UID != old.UID || s.lvm.Group(c.UID, "n2") == nil {
		t.Error("obeyed while the host reports its group")
	}
}

func TestLost_reportedAgainMeanwhileStops(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	c := s.cluster("pool", "n1", "n2")
	s.addVolume(c, "n2", "v1")
	s.lvm.Answer("n2", backendtest.Silent)
	old := s.untilMember("n2", inState("offline"))
	s.declare("n2", string(old.UID))
	s.untilMember("n2", inState("failed"))
	s.lvm.Answer("n2", backendtest.Up)
	s.removePV("v1")
	s.settle("pool")
	m := s.mustMember("pool", "n2")
	if m.UID != old.UID || len(s.get("pool").Status.LostGroups) != 0 || s.lvm.Group(c.UID, "n2") == nil {
		t.Error("a group that is reported, with a volume, was given up")
	}
	if !strings.Contains(m.Status.Message, "v1") {
		t.Errorf("message %q", m.Status.Message)
	}
}

// TestLost_saidOfOneThatIsBeingDeleted: a Member waits for its volumes, and a person says only then that it is lost. From the moment that the word counts the
// Member says so, and only then.
func TestLost_saidOfOneThatIsBeingDeleted(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	c := s.cluster("pool", "n1", "n2")
	s.addVolume(c, "n2", "v1")
	m := s.mustMember("pool", "n2")
	s.delete(m)
	s.declare("n2", string(m.UID))
	s.settle("pool")
	if complaint := memberHas(v1alpha1.ConditionLeaving, isTrue, v1alpha1.ReasonLost)(s.mustMember("pool", "n2")); complaint == "" {
		t.Error("a word is taken while the host reports its group")
	}
	s.lvm.Answer("n2", backendtest.Dead)
	s.untilMember("n2", memberHas(v1alpha1.ConditionLeaving, isTrue, v1alpha1.ReasonLost))
	// Once taken it stays so, whatever the host says since.
	s.lvm.Answer("n2", backendtest.Up)
	s.untilMember("n2", inState("failed", "v1"))
	s.settle("pool")
	s.untilMember("n2", memberHas(v1alpha1.ConditionLeaving, isTrue, v1alpha1.ReasonLost))
}

func TestLost_countsUnderMaintenanceAndWithoutDelay(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.cluster("pool", "n1", "n2")
	s.editMember("n2", func(m *v1alpha1.Member) { m.Spec.Maintenance = true })
	s.list("pool", "n1")
	s.lvm.Answer("n2", backendtest.Dead)
	s.settle("pool")
	s.declare("n2", string(s.mustMember("pool", "n2").UID))
	s.untilNoMember("n2")
}

func TestLost_keepsTheLast64Groups(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.cluster("pool", "n1", "n2")
	c := s.get("pool")
	for i := range 64 {
		c.Status.LostGroups = append(c.Status.LostGroups, "old-"+string(rune('a'+i%26))+string(rune('a'+i/26)))
	}
	if err := s.client.Status().Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	s.list("pool", "n1")
	s.lvm.Answer("n2", backendtest.Dead)
	s.settle("pool")
	m := s.mustMember("pool", "n2")
	s.declare("n2", string(m.UID))
	s.untilNoMember("n2")
	got := s.get("pool").Status.LostGroups
	if len(got) != 64 || got[63] != m.Spec.Group.UUID || got[0] != "old-ba" {
		t.Errorf("%d lost groups: %v", len(got), got)
	}
}

// The Cluster comes back from a backup, which has no status: what was declared lost stays foreign.
func TestLost_survivesTheStatus(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.cluster("pool", "n1", "n2")
	s.lvm.Answer("n2", backendtest.Dead)
	old := s.untilMember("n2", inState("offline"))
	s.declare("n2", string(old.UID))
	s.untilMember("n2", func(m *v1alpha1.Member) string {
		if m.UID == old.UID {
			return "the lost member is still there"
		}
		return ""
	})
	for range 2 {
		c := s.get("pool")
		c.Status = v1alpha1.ClusterStatus{}
		if err := s.client.Status().Update(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		s.restartController()
		s.lvm.Answer("n2", backendtest.Up)
		s.settle("pool")
		if got := s.mustMember("pool", "n2").Spec.Group; got != nil && got.UUID == old.Spec.Group.UUID {
			t.Fatal("the lost group was taken back")
		}
		if got := s.get("pool").Status.LostGroups; !slices.Equal(got, []string{old.Spec.Group.UUID}) {
			t.Errorf("lost groups %v", got)
		}
	}
	// A Cluster of an earlier version has them in its status only.
	s.edit("pool", func(c *v1alpha1.Cluster) { delete(c.Annotations, v1alpha1.AnnotationLostGroups) })
	s.once("pool")
	if got := s.get("pool").Annotations[v1alpha1.AnnotationLostGroups]; got != old.Spec.Group.UUID {
		t.Errorf("annotation %q", got)
	}
}

// inherit lets the Members of two hosts have one group on record, as after disks were moved to the second and imported there.
func (s *suite) inherit(c *v1alpha1.Cluster) (lost *v1alpha1.Member) {
	s.t.Helper()
	g := *s.lvm.Group(c.UID, "n1")
	s.lvm.Lose(c.UID, "n2")
	s.lvm.Make(c.UID, "n2", g)
	m := s.mustMember("pool", "n2")
	m.Finalizers = nil
	s.update(m)
	s.delete(m)
	s.lvm.Lose(c.UID, "n1")
	s.untilMember("n2", func(m *v1alpha1.Member) string {
		if m.Spec.Group == nil || m.Spec.Group.UUID != g.UUID {
			return "the moved group is not on record"
		}
		return ""
	})
	return s.mustMember("pool", "n1")
}

// TestLost_takenBackFromAnotherHost: disks were moved to n2, imported there, and moved back to n1, which is lost now. The record of n2 is older
// than that: while n2 is silent nobody knows, and once it reports without the group, disks that come back are foreign.
func TestLost_takenBackFromAnotherHost(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	c := s.cluster("pool", "n1", "n2")
	old := s.inherit(c)
	g := s.lvm.Lose(c.UID, "n2")
	s.lvm.Make(c.UID, "n1", g)
	s.settle("pool")
	s.lvm.Answer("n1", backendtest.Dead)
	s.lvm.Answer("n2", backendtest.Silent)
	s.settle("pool")
	s.declare("n1", string(old.UID))
	s.untilMember("n1", memberHas(ready, isFalse, v1alpha1.ReasonLost, "member pool.n2 on node n2"))
	s.lvm.Answer("n2", backendtest.Early)
	s.settle("pool")
	s.lvm.Answer("n2", backendtest.Up)
	s.lvm.Blind("n2", true)
	s.settle("pool")
	if m := s.mustMember("pool", "n1"); m.UID != old.UID || len(s.get("pool").Status.LostGroups) != 0 {
		t.Fatal("decided while nobody could say what n2 has")
	}
	s.lvm.Blind("n2", false)
	s.untilMember("n1", func(m *v1alpha1.Member) string {
		if m.UID == old.UID {
			return "the lost member is still there"
		}
		return ""
	})
	if got := s.get("pool").Status.LostGroups; !slices.Equal(got, []string{g.UUID}) {
		t.Fatalf("lost groups %v", got)
	}
	s.lvm.Answer("n1", backendtest.Up)
	s.settle("pool")
	if got := s.mustMember("pool", "n1").Spec.Group; got != nil && got.UUID == g.UUID {
		t.Error("the lost group was taken back")
	}
}

// TestLost_importedByAnotherHost: the group of the lost member is in use on n2. It is not lost with n1.
func TestLost_importedByAnotherHost(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	c := s.cluster("pool", "n1", "n2")
	old := s.inherit(c)
	s.lvm.Answer("n1", backendtest.Dead)
	s.settle("pool")
	s.declare("n1", string(old.UID))
	s.untilMember("n1", func(m *v1alpha1.Member) string {
		if m.UID == old.UID {
			return "the lost member is still there"
		}
		return ""
	})
	if got := s.get("pool").Status.LostGroups; len(got) != 0 || s.mustMember("pool", "n2").Status.State != "online" {
		t.Errorf("lost groups %v", got)
	}
}
