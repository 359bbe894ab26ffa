package storage

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/backend/backendtest"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func TestMembers_areMadeForTheHostsOfTheSpec(t *testing.T) {
	s := newSuite(t, "n1", "n2", "n3")
	c := newCluster("pool", "n1", "n2")
	c.Labels, c.Annotations = map[string]string{"app": "x"}, map[string]string{"argocd": "y"}
	s.create(c)
	c = s.until("pool", hasPhase(v1alpha1.PhaseRunning), has(ready, isTrue, v1alpha1.ReasonReady), has(v1alpha1.ConditionHostsValid, isTrue, v1alpha1.ReasonHostsValid))
	for _, n := range []string{"n1", "n2"} {
		m := s.mustMember("pool", n)
		of := v1alpha1.MemberOwner{Kind: "Cluster", Name: "pool", UID: c.UID}
		if d := cmp.Diff(v1alpha1.MemberSpec{Of: of, Node: v1alpha1.HostName(n), Group: m.Spec.Group}, m.Spec); d != "" {
			t.Errorf("spec of %s, -want +got:\n%s", m.Name, d)
		}
		// With ownerReferences the garbage collector could condemn it; with copied labels somebody else could prune it.
		meta := metav1.ObjectMeta{
			Name: "pool." + n, Finalizers: []string{v1alpha1.FinalizerMember}, UID: m.UID, ResourceVersion: m.ResourceVersion,
			Generation: m.Generation, CreationTimestamp: m.CreationTimestamp, ManagedFields: m.ManagedFields,
		}
		if d := cmp.Diff(meta, m.ObjectMeta); d != "" {
			t.Errorf("metadata of %s, -want +got:\n%s", m.Name, d)
		}
		if complaint := inState("online")(m) + stays(m); complaint != "" {
			t.Error(complaint)
		}
		if !s.joined(c, n) || s.node(n).Labels["kept"] != "yes" || len(m.Spec.Group.Forming) != 0 {
			t.Errorf("record of %s: %+v, labels of its node: %v", m.Name, m.Spec.Group, s.node(n).Labels)
		}
	}
	if s.member("pool", "n3") != nil || s.class("pool") == nil || c.Status.HostCount != 2 || c.Status.MemberStates.Online != 2 || c.Status.DeviceCount != 2 {
		t.Errorf("a member of n3 %+v, class %+v, status %+v", s.member("pool", "n3"), s.class("pool"), c.Status)
	}
}

func TestMembers_nameOfAnOwnerWithADot(t *testing.T) {
	s := newSuite(t, "n1")
	s.create(newCluster("a.b", "n1"))
	c := s.until("a.b", hasPhase(v1alpha1.PhaseRunning))
	m := &v1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: backend.OwnerOf(c).MemberName("n1")}}
	if !s.fetch(m) || !strings.HasPrefix(m.Name, "a.b.n1-") {
		t.Errorf("member %q", m.Name)
	}
}

func TestMembers_takenNameIsReportedAndNeverUsed(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	other := &v1alpha1.Member{
		ObjectMeta: metav1.ObjectMeta{Name: "pool.n1", Finalizers: []string{v1alpha1.FinalizerMember}},
		Spec:       v1alpha1.MemberSpec{Of: v1alpha1.MemberOwner{Kind: "Cluster", Name: "pool", UID: "gone"}, Node: "n1"},
	}
	s.create(other)
	s.create(newCluster("pool", "n1", "n2"))
	c := s.until("pool", has(v1alpha1.ConditionHostsValid, isFalse, v1alpha1.ReasonNameTaken, "n1", "gone"), hasPhase(v1alpha1.PhaseWarning))
	m := s.mustMember("pool", "n1")
	if m.UID != other.UID || m.ResourceVersion != other.ResourceVersion {
		t.Errorf("the member of another owner was changed: %+v", m)
	}
	if s.lvm.Steps("n1") != 0 || s.lvm.Group(c.UID, "n2") == nil {
		t.Errorf("steps: %v", s.lvm.Log())
	}
}

func TestMembers_noneForANodeThatNobodyKnows(t *testing.T) {
	s := newSuite(t, "n1")
	s.create(newCluster("pool", "n1", "typo"))
	s.until("pool", has(v1alpha1.ConditionHostsValid, isFalse, v1alpha1.ReasonHostNotFound, "typo: "), hasPhase(v1alpha1.PhaseWarning))
	if s.member("pool", "typo") != nil {
		t.Error("a member was made for a node that does not exist")
	}
	s.addHosts("typo")
	s.until("pool", hasPhase(v1alpha1.PhaseRunning), has(v1alpha1.ConditionHostsValid, isTrue, v1alpha1.ReasonHostsValid))
	s.mustMember("pool", "typo")
}

func TestMembers_unknownHostUnderMaintenanceIsTold(t *testing.T) {
	s := newSuite(t, "n1")
	s.cluster("pool", "n1")
	s.edit("pool", func(c *v1alpha1.Cluster) { c.Spec.Maintenance = hostNames("n-one") })
	s.until("pool", has(v1alpha1.ConditionHostsValid, isFalse, v1alpha1.ReasonMaintenanceUnknown, "n-one"))
	s.edit("pool", func(c *v1alpha1.Cluster) { c.Spec.Maintenance = nil })
	s.until("pool", has(v1alpha1.ConditionHostsValid, isTrue, v1alpha1.ReasonHostsValid))
}

func TestMembers_ofHostsThatTheSelectorChooses(t *testing.T) {
	s := newSuite(t, "n1", "n2", "n3")
	for _, n := range []string{"n1", "n2"} {
		s.label(n, "yes")
	}
	c := newCluster("pool")
	c.Spec.HostSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"disks": "yes"}}
	s.create(c)
	c = s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	if c.Status.HostCount != 2 || s.member("pool", "n3") != nil {
		t.Errorf("members: %+v", c.Status.MemberStates)
	}
	s.label("n3", "yes")
	s.untilMember("n3", inState("online"))
	s.label("n2", "")
	s.untilMember("n2", leaving(v1alpha1.ReasonHostNotSelected, "hostSelector"))
	s.label("n2", "yes")
	s.untilMember("n2", stays)
	// A node that does not exist says nothing about its labels: the machine may come back.
	s.delete(s.node("n2"))
	s.lvm.Answer("n2", backendtest.Dead)
	s.settle("pool")
	s.pass(2 * backend.DefaultRemovalDelay)
	s.settle("pool")
	m := s.mustMember("pool", "n2")
	if complaint := stays(m) + inState("offline")(m); complaint != "" {
		t.Error(complaint)
	}
}

func TestMembers_ofHostsWithAGroupOrAVolume(t *testing.T) {
	s := newSuite(t, "n1", "n2", "n3")
	c := s.cluster("pool", "n1")
	// Disks that carry the tag of the storage, and a volume: both came before any Member, as with the version before.
	s.lvm.Make(c.UID, "n2", groupOf("old-2"))
	s.create(volume("pool", v1alpha1.DriverLVM, "n3", "v3"))
	s.untilMember("n2", leaving(v1alpha1.ReasonHostNotListed))
	s.untilMember("n3", leaving(v1alpha1.ReasonHostNotListed))
	if got := s.mustMember("pool", "n2").Spec.Group; got == nil || got.UUID != "old-2" {
		t.Errorf("record: %+v", got)
	}
	if s.lvm.Steps("n2")+s.lvm.Steps("n3") != 0 {
		t.Errorf("a step was taken on a disk: %v", s.lvm.Log())
	}
}

func TestMembers_oneThatCannotBeMadeDelaysNoOther(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.cached = deny(s.client, func(verb string, name string) error {
		if verb == "create" && name == "pool.n1" {
			return fmt.Errorf("a webhook says no")
		}
		return nil
	})
	s.restartController()
	s.create(newCluster("pool", "n1", "n2"))
	s.await("n2", func() string {
		_, err := s.reconcile("pool")
		c := s.get("pool")
		if m := s.member("pool", "n2"); m == nil || inState("online")(m) != "" || s.class("pool") == nil {
			return fmt.Sprintf("n2 is %+v, error %v, message %s", m, err, c.Status.Message)
		}
		if err == nil {
			return "nobody learns of the error"
		}
		return ""
	})
}

// A selector with an operator that does not exist, or with a value that no label has, chooses no node and says nothing about any.
func TestMembers_selectorThatCannotBeReadIsToldAndCondemnsNothing(t *testing.T) {
	s := newSuite(t, "n1")
	s.label("n1", "yes")
	c := newCluster("pool")
	c.Spec.HostSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"disks": "yes"}}
	s.create(c)
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	for _, bad := range []metav1.LabelSelectorRequirement{
		{Key: "disks", Operator: "Near", Values: []string{"yes"}}, {Key: "disks", Operator: "In", Values: []string{"no such value"}},
	} {
		s.edit("pool", func(c *v1alpha1.Cluster) {
			c.Spec.HostSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{bad}}
		})
		s.until("pool", hasPhase(v1alpha1.PhaseWarning), has(v1alpha1.ConditionHostsValid, isFalse, v1alpha1.ReasonSelectorInvalid, "hostSelector"),
			has(ready, isFalse, v1alpha1.ReasonSelectorInvalid, "hostSelector"))
		s.pass(10 * delay)
		s.settle("pool")
		if m := s.mustMember("pool", "n1"); stays(m) != "" || s.class("pool") == nil {
			t.Errorf("%+v: %s", bad, stays(m))
		}
	}
	s.driver.install(false)
	s.delete(s.get("pool"))
	s.untilGone("pool")
	if !s.lvm.Empty("n1") {
		t.Error("not torn down")
	}
}

// A selector that selects nothing is told at once, and on a storage that serves too.
func TestMembers_selectorOfNoNodeIsTold(t *testing.T) {
	s := newSuite(t, "n1")
	c := newCluster("pool")
	c.Spec.HostSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"disks": "yes"}}
	s.create(c)
	none := has(v1alpha1.ConditionHostsValid, isFalse, v1alpha1.ReasonNoHost, "--selector='disks=yes'")
	s.until("pool", hasPhase(v1alpha1.PhaseFailed), none, has(ready, isFalse, v1alpha1.ReasonNoHost, "selects no node"))
	s.label("n1", "yes")
	s.until("pool", hasPhase(v1alpha1.PhaseRunning), has(v1alpha1.ConditionHostsValid, isTrue, v1alpha1.ReasonHostsValid))
	s.edit("pool", func(c *v1alpha1.Cluster) { c.Spec.HostSelector.MatchLabels["disks"] = "no" })
	s.until("pool", hasPhase(v1alpha1.PhaseWarning), has(v1alpha1.ConditionHostsValid, isFalse, v1alpha1.ReasonNoHost, "disks=no"))
	s.untilMember("n1", leaving(v1alpha1.ReasonHostNotSelected))
}

// The cache does not know yet that the name is taken.
func TestMembers_takenNameIsNeverUsedByAStaleCache(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	other := &v1alpha1.Member{
		ObjectMeta: metav1.ObjectMeta{Name: "pool.n1"},
		Spec:       v1alpha1.MemberSpec{Of: v1alpha1.MemberOwner{Kind: "Cluster", Name: "pool", UID: "gone"}, Node: "n1"},
	}
	s.create(other)
	s.cached = hideMember(s.client, "pool.n1")
	s.restartController()
	s.create(newCluster("pool", "n1", "n2"))
	s.until2(func() string {
		m := s.member("pool", "n2")
		if m == nil {
			return "no member of n2"
		}
		return has(v1alpha1.ConditionDisksReady, isFalse, v1alpha1.ReasonStepFailed, "n1: ", "gone")(s.get("pool")) + inState("online")(m)
	})
	if m := s.mustMember("pool", "n1"); m.ResourceVersion != other.ResourceVersion || s.lvm.Attempts("n1") != 0 {
		t.Errorf("the member of another owner was used: %+v, steps %v", m, s.lvm.Log())
	}
}

// The cache does not know yet that the Member exists: it is taken as it is, with its record.
func TestMembers_staleCacheMakesNoSecondOne(t *testing.T) {
	s := newSuite(t, "n1")
	c := s.cluster("pool", "n1")
	before := s.mustMember("pool", "n1")
	hide := true
	s.cached = filterMembers(s.client, func(*v1alpha1.Member) bool { return !hide })
	s.restartController()
	s.settle("pool")
	hide = false
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	if m := s.mustMember("pool", "n1"); m.UID != before.UID || m.Spec.Group.UUID != s.lvm.Group(c.UID, "n1").UUID || s.lvm.Steps("n1") != 1 {
		t.Errorf("member %+v, steps %v", m, s.lvm.Log())
	}
}

// A second Member of a node, made by hand, is not used, and is told of when it holds the deletion up.
func TestMembers_secondOneOfANode(t *testing.T) {
	s := newSuite(t, "n1")
	c := s.cluster("pool", "n1")
	for _, name := range []string{"a-second", "z-second"} {
		s.create(&v1alpha1.Member{
			ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{"example.com/mine"}},
			Spec:       v1alpha1.MemberSpec{Of: v1alpha1.MemberOwner{Kind: "Cluster", Name: "pool", UID: c.UID}, Node: "n1"},
		})
	}
	s.settle("pool")
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	for _, name := range []string{"a-second", "z-second"} {
		m := &v1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if !s.fetch(m) || m.Spec.Group != nil || m.Status.State != "" {
			t.Errorf("%s is used: %+v", name, m)
		}
	}
	s.driver.install(false)
	s.delete(s.get("pool"))
	s.until("pool", has(ready, isFalse, v1alpha1.ReasonDeleting, "-second"))
	for _, name := range []string{"a-second", "z-second"} {
		m := &v1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: name}}
		s.fetch(m)
		m.Finalizers = nil
		s.update(m)
		if m.DeletionTimestamp.IsZero() && s.fetch(m) {
			s.delete(m)
		}
	}
	s.untilGone("pool")
}
