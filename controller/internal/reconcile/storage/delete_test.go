package storage

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/backend/backendtest"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func TestDelete_ofAPersonIsObeyedAtOnce(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	c := s.cluster("pool", "n1", "n2")
	s.list("pool", "n1")
	s.settle("pool")
	s.delete(s.mustMember("pool", "n2"))
	s.untilNoMember("n2")
	if !s.lvm.Empty("n2") || s.lvm.Group(c.UID, "n1") == nil {
		t.Errorf("steps: %v", s.lvm.Log())
	}
}

func TestDelete_failedWhileDataThenAbandonedThenGone(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.impatient()
	c := s.cluster("pool", "n1", "n2")
	s.addVolume(c, "n2", "v1")
	old := s.mustMember("pool", "n2")
	s.delete(old)
	m := s.untilMember("n2", inState("failed", "v1", "is being removed"))
	if len(m.Status.Holding) == 0 || !m.Status.Flags.ShouldDestroy || !m.Status.Flags.HasData {
		t.Errorf("status %+v", m.Status)
	}
	// The host is listed all the time, and listing it once more changes nothing: a deletion is never taken back.
	s.edit("pool", func(c *v1alpha1.Cluster) { c.Annotations = map[string]string{"touched": "yes"} })
	s.settle("pool")
	if m := s.mustMember("pool", "n2"); m.UID != old.UID || m.DeletionTimestamp.IsZero() || s.lvm.Steps("n2") != 1 {
		t.Errorf("the deletion was taken back, or data was touched: %v", s.lvm.Log())
	}
	s.lvm.Answer("n2", backendtest.Silent)
	s.removePV("v1")
	s.lvm.RemoveVolume(c.UID, "n2", "v1", 1<<30)
	s.settle("pool")
	if complaint := inState("failed", "waits for its agent")(s.mustMember("pool", "n2")); complaint != "" {
		t.Error(complaint)
	}
	release := s.lvm.Block("n2")
	s.lvm.Answer("n2", backendtest.Up)
	s.untilMember("n2", inState("abandoned", "is being removed", "used afresh"))
	release()
	m = s.untilMember("n2", func(m *v1alpha1.Member) string {
		if m.UID == old.UID {
			return "the old member is there"
		}
		return inState("online")(m) + stays(m)
	})
	if m.Spec.Group.UUID == old.Spec.Group.UUID || s.lvm.Group(c.UID, "n2").UUID != m.Spec.Group.UUID {
		t.Errorf("the new member has the old record: %+v", m.Spec.Group)
	}
}

func TestDelete_memberThatWasNeverUsed(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.lvm.Answer("n2", backendtest.Silent)
	s.create(newCluster("pool", "n1", "n2"))
	old := s.untilMember("n2", inState("offline"))
	s.list("pool", "n1")
	s.delete(old)
	s.untilNoMember("n2")
}

// usedBefore makes the Cluster pool on n1 and n2. n2 is silent, and has the label of a host: an earlier version used it, and wrote no record.
func (s *suite) usedBefore() *v1alpha1.Member {
	s.t.Helper()
	s.lvm.Answer("n2", backendtest.Silent)
	n := s.node("n2")
	n.Labels[v1alpha1.LabelStorageType] = string(v1alpha1.StorageTypeLVM)
	s.update(n)
	s.create(newCluster("pool", "n1", "n2"))
	return s.untilMember("n2", inState("offline"))
}

func TestDelete_memberOfANodeThatMayHaveBeenUsedBefore(t *testing.T) {
	for name, goes := range map[string]func(s *suite, m *v1alpha1.Member){
		"the agent reports":             func(s *suite, _ *v1alpha1.Member) { s.lvm.Answer("n2", backendtest.Up) },
		"the Node is deleted":           func(s *suite, _ *v1alpha1.Member) { s.delete(s.node("n2")) },
		"a person says that it is lost": func(s *suite, m *v1alpha1.Member) { s.declare("n2", string(m.UID)) },
		"a person takes the mark off": func(s *suite, _ *v1alpha1.Member) {
			s.editMember("n2", func(m *v1alpha1.Member) { m.Annotations = nil })
		},
		"it is lost, and the Node deleted": func(s *suite, m *v1alpha1.Member) { s.declare("n2", string(m.UID)); s.delete(s.node("n2")) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t, "n1", "n2")
			old := s.usedBefore()
			s.list("pool", "n1")
			s.settle("pool")
			s.pass(2 * delay)
			s.untilMember("n2", leaving(v1alpha1.ReasonHostNotListed, "known to hold no data", "has not reported since", "delete its Node", "lost"))
			s.settle("pool")
			m := s.mustMember("pool", "n2")
			if !m.DeletionTimestamp.IsZero() || m.UID != old.UID {
				t.Fatal("silence was taken for an empty host")
			}
			s.delete(m)
			s.untilMember("n2", inState("failed", "waits for its agent", "has not reported since"))
			s.settle("pool")
			goes(s, s.mustMember("pool", "n2"))
			s.untilNoMember("n2")
		})
	}
}

// TestDelete_memberThatReportedThatNothingIsThere: one report is enough. What is made later is on record.
func TestDelete_memberThatReportedThatNothingIsThere(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.usedBefore()
	s.editMember("n2", func(m *v1alpha1.Member) { m.Spec.Maintenance = true })
	s.lvm.Answer("n2", backendtest.Up)
	s.untilMember("n2", func(m *v1alpha1.Member) string {
		if m.Annotations[v1alpha1.AnnotationUnreported] != "" {
			return "the report is not noted"
		}
		return ""
	})
	s.lvm.Answer("n2", backendtest.Silent)
	s.list("pool", "n1")
	s.delete(s.mustMember("pool", "n2"))
	s.untilNoMember("n2")
	if s.lvm.Steps("n2") != 0 {
		t.Errorf("steps: %v", s.lvm.Log())
	}
}

// TestDelete_labelThatAnotherMemberExplains: a Cluster beside another one on a silent host was never used there.
func TestDelete_labelThatAnotherMemberExplains(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.cluster("other", "n2")
	s.lvm.Answer("n2", backendtest.Silent)
	s.create(newCluster("pool", "n1", "n2"))
	m := s.untilMember("n2", inState("offline"))
	if s.node("n2").Labels[v1alpha1.LabelStorageType] == "" || len(m.Annotations) > 0 {
		t.Errorf("labels %v, annotations %v", s.node("n2").Labels, m.Annotations)
	}
	s.list("pool", "n1")
	s.delete(m)
	s.untilNoMember("n2")
}

// TestDelete_labelThatAnotherKindDoesNotExplain: a storage of another kind has Members without a label, so that the label is from somebody else.
func TestDelete_labelThatAnotherKindDoesNotExplain(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.create(&v1alpha1.Member{
		ObjectMeta: metav1.ObjectMeta{Name: "targets-n2"},
		Spec: v1alpha1.MemberSpec{
			Of: v1alpha1.MemberOwner{Kind: "Iscsi", Name: "targets", UID: "c0ffee"}, Node: "n2",
		},
	})
	if m := s.usedBefore(); m.Annotations[v1alpha1.AnnotationUnreported] == "" {
		t.Errorf("the Member of an Iscsi explains the label of a Cluster: %v", m.Annotations)
	}
}

// TestDelete_markGoesOnceARecordIsThere: a Member that is made again while its agent is silent has neither record nor report. What the agent reports later
// is recorded, and says more than the mark.
func TestDelete_markGoesOnceARecordIsThere(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	c := s.cluster("pool", "n1", "n2")
	group := s.lvm.Group(c.UID, "n2").UUID
	s.lvm.Answer("n2", backendtest.Silent)
	s.delete(s.mustMember("pool", "n2"))
	s.editMember("n2", func(m *v1alpha1.Member) { m.Finalizers = nil })
	s.untilMember("n2", inState("offline"), func(m *v1alpha1.Member) string {
		if m.Annotations[v1alpha1.AnnotationUnreported] == "" {
			return "the Member has no mark"
		}
		return ""
	})
	s.lvm.Answer("n2", backendtest.Up)
	s.untilMember("n2", inState("online"))
	s.settle("pool")
	if m := s.mustMember("pool", "n2"); m.Annotations[v1alpha1.AnnotationUnreported] != "" || m.Spec.Group == nil || m.Spec.Group.UUID != group {
		t.Errorf("annotations %v, record %+v", m.Annotations, m.Spec.Group)
	}
}

func TestDelete_finalizerStrippedByHand(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	c := s.cluster("pool", "n1", "n2")
	s.addVolume(c, "n2", "v1")
	old := s.mustMember("pool", "n2")
	s.list("pool", "n1")
	s.delete(old)
	s.untilMember("n2", inState("failed"))
	s.editMember("n2", func(m *v1alpha1.Member) { m.Finalizers = nil })
	if s.member("pool", "n2") != nil {
		t.Fatal("the member is not gone")
	}
	m := s.untilMember("n2", leaving(v1alpha1.ReasonHostNotListed))
	if m.UID == old.UID || !m.DeletionTimestamp.IsZero() || m.Spec.Group == nil || m.Spec.Group.UUID != old.Spec.Group.UUID {
		t.Errorf("made again: %+v", m)
	}
	// The delay is the full one, and what is on the host is as it was.
	s.pass(delay / 2)
	s.settle("pool")
	s.mustMember("pool", "n2")
	s.removeVolume(c, "n2")
	s.settle("pool")
	if s.lvm.Steps("n2") != 1 {
		t.Errorf("steps: %v", s.lvm.Log())
	}
	s.pass(delay)
	s.untilNoMember("n2")
}

func TestDelete_finalizerThatIsMissingIsPutBack(t *testing.T) {
	s := newSuite(t, "n1")
	s.cluster("pool", "n1")
	s.editMember("n1", func(m *v1alpha1.Member) { m.Finalizers = []string{"example.com/mine"} })
	s.untilMember("n1", func(m *v1alpha1.Member) string {
		if len(m.Finalizers) != 2 {
			return "a deletion would be no latch any more"
		}
		return ""
	})
	// Somebody else's finalizer keeps the object, and nothing is done for it any more.
	s.list("pool", "n1", "n1x")
	s.delete(s.mustMember("pool", "n1"))
	s.untilMember("n1", func(m *v1alpha1.Member) string {
		if len(m.Finalizers) != 1 {
			return "our finalizer is still there"
		}
		return ""
	})
	steps := s.lvm.Steps("n1")
	s.settle("pool")
	if s.lvm.Steps("n1") != steps {
		t.Errorf("steps: %v", s.lvm.Log())
	}
}

// What is on a host that answers cannot be read: that is not nothing.
func TestDelete_whatCannotBeReadIsNotGone(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.cluster("pool", "n1", "n2")
	s.list("pool", "n1")
	s.lvm.Blind("n2", true)
	s.delete(s.mustMember("pool", "n2"))
	s.untilMember("n2", inState("failed", "cannot be read"))
	s.settle("pool")
	s.mustMember("pool", "n2")
	s.lvm.Blind("n2", false)
	s.untilNoMember("n2")
	if !s.lvm.Empty("n2") {
		t.Error("not torn down")
	}
}

// Something on the host cannot be removed, and there is no step for it.
func TestDelete_whatCannotBeRemovedIsNotGone(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.cluster("pool", "n1", "n2")
	s.list("pool", "n1")
	s.lvm.Stuck("n2", backend.Finding{Kind: backend.Bad, Reason: v1alpha1.ReasonVolumeGroupConflict, Message: "another group has the name"})
	s.delete(s.mustMember("pool", "n2"))
	s.untilMember("n2", inState("abandoned", "another group has the name"))
	s.settle("pool")
	s.mustMember("pool", "n2")
	s.lvm.Stuck("n2", backend.Finding{})
	s.untilNoMember("n2")
	if !s.lvm.Empty("n2") {
		t.Error("not torn down")
	}
}

// Rule 10: the group of a Member that is deleted is not on its host any more.
func TestDelete_groupThatIsGone(t *testing.T) {
	s := newSuite(t, "n1", "n2", "n3")
	c := s.cluster("pool", "n1", "n2", "n3")
	s.create(volume("pool", v1alpha1.DriverLVM, "n3", "v3"))
	for _, n := range []string{"n2", "n3"} {
		s.lvm.Lose(c.UID, n)
		s.untilMember(n, memberHas(ready, isFalse, v1alpha1.ReasonVolumeGroupLost))
	}
	s.list("pool", "n1")
	s.delete(s.mustMember("pool", "n2"))
	s.delete(s.mustMember("pool", "n3"))
	// Without a volume nothing is left of it.
	s.untilNoMember("n2")
	// With one it is failed until a person says that it is lost, and the volume is deleted.
	m := s.untilMember("n3", inState("failed", "v3"))
	s.declare("n3", string(m.UID))
	s.settle("pool")
	s.untilMember("n3", inState("failed", "v3"))
	s.removePV("v3")
	s.untilNoMember("n3")
	if got := s.get("pool").Status.LostGroups; len(got) != 1 || got[0] != m.Spec.Group.UUID {
		t.Errorf("lost groups %v", got)
	}
	if s.lvm.Steps("n2")+s.lvm.Steps("n3") != 2 {
		t.Errorf("steps %v", s.lvm.Log())
	}
}
