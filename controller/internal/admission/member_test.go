package admission

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/apitest"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func newMember(name string) *v1alpha1.Member {
	return &v1alpha1.Member{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.MemberSpec{
			Of: v1alpha1.MemberOwner{Kind: v1alpha1.KindCluster, Name: "fast", UID: "0b0e"}, Node: "n1",
			Group: &v1alpha1.MemberGroup{UUID: "aaaa", Name: "quarry-fast"},
		},
	}
}

// policies installs the policies of Members, and returns clients of a person and of the controller.
func policies(t *testing.T) (jane, ours client.Client) {
	t.Helper()
	admin := apitest.Client(t)
	install(t, admin, "base/member-admission.yaml")
	probe := create(t, admin, "probe")
	await(t, "cannot be taken back", func() error { return admin.Delete(t.Context(), probe, client.DryRunAll) })
	await(t, "only the controller changes it", func() error {
		changed := probe.DeepCopy()
		changed.Spec.Group = nil
		return admin.Update(t.Context(), changed, client.DryRunAll)
	})
	return as(t, person), as(t, controller)
}

// create makes a Member until the end of the test. The controller removes what is left of it.
func create(t *testing.T, c client.Client, name string) *v1alpha1.Member {
	t.Helper()
	m := newMember(name)
	must(t, c.Create(t.Context(), m))
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		ours, have := as(t, controller), &v1alpha1.Member{}
		err := ours.Get(ctx, client.ObjectKeyFromObject(m), have)
		if apierrors.IsNotFound(err) {
			return
		}
		must(t, err)
		have.Finalizers = nil
		must(t, ours.Update(ctx, have))
		must(t, client.IgnoreNotFound(ours.Delete(ctx, have)))
	})
	return m
}

// leave says in the status of a Member whether it leaves.
func leave(t *testing.T, c client.Client, m *v1alpha1.Member, status metav1.ConditionStatus) {
	t.Helper()
	meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionLeaving, Status: status, Reason: "HostNotListed", Message: "The spec does not list the host.",
	})
	m.Status.State = "quiesced"
	must(t, c.Status().Update(t.Context(), m))
}

func TestMember_deletionByAPerson(t *testing.T) {
	jane, ours := policies(t)
	m := create(t, ours, "fast.n1")
	denied(t, jane.Delete(t.Context(), m), "fast.n1", "node n1", "Cluster fast",
		"kubectl annotate --overwrite members.quarry.storage fast.n1 quarry.storage/remove="+string(m.UID))
	denied(t, jane.DeleteAllOf(t.Context(), &v1alpha1.Member{}), "cannot be taken back")

	leave(t, ours, m, metav1.ConditionFalse)
	denied(t, jane.Delete(t.Context(), m), "Take the node off the spec")
	leave(t, ours, m, metav1.ConditionTrue)
	must(t, jane.Delete(t.Context(), m))
}

func TestMember_deletionThatIsMeant(t *testing.T) {
	jane, ours := policies(t)
	m := create(t, ours, "fast.n1")
	for _, value := range []string{"", "true", "fast.n1", string(m.Spec.Of.UID), strings.ToUpper(string(m.UID))} {
		m.Annotations = map[string]string{v1alpha1.AnnotationRemove: value}
		must(t, jane.Update(t.Context(), m))
		denied(t, jane.Delete(t.Context(), m), string(m.UID))
	}
	m.Annotations[v1alpha1.AnnotationRemove] = string(m.UID)
	must(t, jane.Update(t.Context(), m))
	must(t, jane.Delete(t.Context(), m))
}

func TestMember_deletionByOthers(t *testing.T) {
	jane, ours := policies(t)
	m := create(t, ours, "fast.n1")
	for _, user := range []string{
		garbageCollector, "system:serviceaccount:kube-system:namespace-controller", "quarry-controller",
		"system:serviceaccount:default:quarry-controller", "system:serviceaccount:quarry-system:quarry-csi",
	} {
		denied(t, as(t, user).Delete(t.Context(), m), "cannot be taken back")
	}
	m.Finalizers = []string{v1alpha1.FinalizerMember}
	must(t, ours.Update(t.Context(), m))
	must(t, ours.Delete(t.Context(), m, client.Preconditions{UID: &m.UID, ResourceVersion: &m.ResourceVersion}))
	// It is being deleted. To say so once more changes nothing, and is no reason to refuse.
	must(t, jane.Delete(t.Context(), m))
	must(t, ours.Get(t.Context(), client.ObjectKeyFromObject(m), m))
	if m.DeletionTimestamp.IsZero() || len(m.Finalizers) != 1 {
		t.Errorf("%+v", m.ObjectMeta)
	}
}

func TestMember_lost(t *testing.T) {
	jane, ours := policies(t)
	restored := newMember("fast.n2")
	restored.UID, restored.Spec.Lost = "1234", "1234"
	denied(t, jane.Create(t.Context(), restored), "must be empty when a Member is made")
	denied(t, ours.Create(t.Context(), restored), "must be empty when a Member is made")

	m := create(t, jane, "fast.n1")
	for _, value := range []string{"true", "fast.n1", string(m.Spec.Of.UID), strings.ToUpper(string(m.UID))} {
		wrong := m.DeepCopy()
		wrong.Spec.Lost = value
		denied(t, jane.Update(t.Context(), wrong), string(m.UID), "node n1", "gone for ever")
	}
	ready(t, m, metav1.ConditionTrue)
	m.Spec.Lost = string(m.UID)
	denied(t, jane.Update(t.Context(), m.DeepCopy()), "node n1 reports what Member fast.n1 has on record", "instead")
	m.Spec.Lost = ""
	ready(t, m, metav1.ConditionFalse)
	// A Member may be not Ready for another reason. What counts is what the node reports of the record.
	for _, status := range []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionUnknown} {
		reported(t, m, status)
		word := m.DeepCopy()
		word.Spec.Lost = string(m.UID)
		denied(t, jane.Update(t.Context(), word), "spec.lost is refused", "cannot say that it is not there", "switch it off first")
		// The controller does not say it either.
		denied(t, ours.Update(t.Context(), word), "spec.lost is refused")
		m.Spec.Maintenance = status == metav1.ConditionTrue
		must(t, jane.Update(t.Context(), m))
	}
	staleReports(t, jane, m)
	reported(t, m, metav1.ConditionFalse)
	// It can be taken back until somebody acts upon it.
	for _, value := range []string{string(m.UID), "", string(m.UID)} {
		m.Spec.Lost = value
		must(t, jane.Update(t.Context(), m))
	}
	m.Finalizers = []string{v1alpha1.FinalizerMember}
	must(t, ours.Update(t.Context(), m))
	must(t, ours.Delete(t.Context(), m))
	must(t, ours.Get(t.Context(), client.ObjectKeyFromObject(m), m))
	// One that is deleted for another reason was not condemned by the word.
	for _, value := range []string{"", string(m.UID)} {
		m.Spec.Lost = value
		must(t, jane.Update(t.Context(), m))
	}
	meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionLeaving, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonLost, LastTransitionTime: metav1.Now(),
	})
	must(t, apitest.Client(t).Status().Update(t.Context(), m))
	for _, value := range []string{"", "1234"} {
		back := m.DeepCopy()
		back.Spec.Lost = value
		denied(t, ours.Update(t.Context(), back), "lost")
	}
	// Everything else may be changed as before.
	m.Spec.Maintenance = true
	must(t, jane.Update(t.Context(), m))
}

// staleReports: a controller of before the condition, after a roll-back, keeps the flags and not the condition. A silent node reports nothing, so the condition
// is old, unless it says that nobody can say yet, and is of the generation that the rest of the status is of. An Iscsi knows from its other nodes what is on record.
func staleReports(t *testing.T, jane client.Client, m *v1alpha1.Member) {
	t.Helper()
	luns := newMember("luns.n1")
	luns.Spec.Of.Kind, luns.Spec.Group = v1alpha1.KindIscsi, nil
	must(t, jane.Create(t.Context(), luns))
	t.Cleanup(func() { must(t, as(t, controller).Delete(context.WithoutCancel(t.Context()), luns)) })
	for name, c := range map[string]struct {
		of     *v1alpha1.Member
		up     bool
		status metav1.ConditionStatus
		reason string
		// newer: the controller looked at a later spec, and wrote the rest of the status only.
		newer  int64
		denied bool
	}{
		"it answers, and reports the record":      {m, true, metav1.ConditionTrue, v1alpha1.ReasonRecordReported, 0, true},
		"it answers, and cannot say":              {m, true, metav1.ConditionUnknown, v1alpha1.ReasonRecordUnsure, 0, true},
		"it is silent, and reported the record":   {m, false, metav1.ConditionTrue, v1alpha1.ReasonRecordReported, 0, false},
		"it is silent, and could not say":         {m, false, metav1.ConditionUnknown, v1alpha1.ReasonRecordUnsure, 0, false},
		"it is silent, and nobody can say yet":    {m, false, metav1.ConditionUnknown, v1alpha1.ReasonRecordTooEarly, 0, true},
		"nobody could say, and that was long ago": {m, false, metav1.ConditionUnknown, v1alpha1.ReasonRecordTooEarly, 1, false},
		"it answers, and what it says is old":     {m, true, metav1.ConditionTrue, v1alpha1.ReasonRecordReported, 1, true},
		"that of an Iscsi, which others can tell": {luns, false, metav1.ConditionTrue, v1alpha1.ReasonRecordReported, 0, true},
	} {
		c.of.Status.Flags = &v1alpha1.MemberFlags{IsUp: c.up}
		c.of.Status.ObservedGeneration = c.of.Generation + c.newer
		meta.SetStatusCondition(&c.of.Status.Conditions, metav1.Condition{
			Type: v1alpha1.ConditionRecordReported, Status: c.status, Reason: c.reason, LastTransitionTime: metav1.Now(), ObservedGeneration: c.of.Generation,
		})
		must(t, apitest.Client(t).Status().Update(t.Context(), c.of))
		word := c.of.DeepCopy()
		word.Spec.Lost = string(word.UID)
		err := jane.Update(t.Context(), word, client.DryRunAll)
		if c.denied {
			denied(t, err, "spec.lost is refused")
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	m.Status.Flags, m.Status.ObservedGeneration = nil, 0
	must(t, apitest.Client(t).Status().Update(t.Context(), m))
}

// ready writes the condition as the controller does.
func ready(t *testing.T, m *v1alpha1.Member, status metav1.ConditionStatus) {
	t.Helper()
	meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: status, Reason: v1alpha1.ReasonReady, LastTransitionTime: metav1.Now(),
	})
	must(t, apitest.Client(t).Status().Update(t.Context(), m))
}

// reported writes the condition that says whether the node reports the record.
func reported(t *testing.T, m *v1alpha1.Member, status metav1.ConditionStatus) {
	t.Helper()
	meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionRecordReported, Status: status, Reason: v1alpha1.ReasonRecordUnsure, LastTransitionTime: metav1.Now(),
	})
	must(t, apitest.Client(t).Status().Update(t.Context(), m))
}

// A value that was stored before the policy was there must not wedge the Member: its finalizer has to go one day.
func TestMember_lostFromBeforeThePolicy(t *testing.T) {
	admin := apitest.Client(t)
	m := create(t, admin, "fast.n1")
	m.Spec.Lost, m.Finalizers = "yes", []string{v1alpha1.FinalizerMember}
	// The policy of an earlier test may be in force for a moment longer.
	retry(t, func() error { return admin.Update(t.Context(), m) })
	jane, ours := policies(t)
	m.Spec.Maintenance = true
	must(t, jane.Update(t.Context(), m))
	must(t, ours.Delete(t.Context(), m))
	must(t, ours.Get(t.Context(), client.ObjectKeyFromObject(m), m))
	m.Finalizers = nil
	must(t, ours.Update(t.Context(), m))
}

func TestMember_record(t *testing.T) {
	jane, ours := policies(t)
	const message = "only the controller changes it"
	m := create(t, jane, "fast.n1")
	for name, change := range map[string]func(*v1alpha1.MemberSpec){
		"dropped":        func(s *v1alpha1.MemberSpec) { s.Group = nil },
		"renamed":        func(s *v1alpha1.MemberSpec) { s.Group.Name = "other" },
		"formed":         func(s *v1alpha1.MemberSpec) { s.Group.Forming = []string{"pv1"} },
		"another group":  func(s *v1alpha1.MemberSpec) { s.Group.UUID = "bbbb" },
		"emptied record": func(s *v1alpha1.MemberSpec) { s.Group = &v1alpha1.MemberGroup{} },
	} {
		t.Run(name, func(t *testing.T) {
			changed := m.DeepCopy()
			change(&changed.Spec)
			err := jane.Update(t.Context(), changed)
			if name == "another group" || name == "emptied record" {
				// Nobody may do that; which of the two rules says so does not matter.
				denied(t, err)
				denied(t, ours.Update(t.Context(), changed.DeepCopy()))
				return
			}
			denied(t, err, message)
		})
	}
	m.Spec.Group.Name = "renamed-by-the-controller"
	must(t, ours.Update(t.Context(), m))
	must(t, jane.Patch(t.Context(), m, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))))

	none := newMember("fast.n3")
	none.Spec.Group = nil
	must(t, ours.Create(t.Context(), none))
	t.Cleanup(func() { must(t, ours.Delete(context.WithoutCancel(t.Context()), none)) })
	none.Spec.Maintenance = true
	must(t, jane.Update(t.Context(), none))
	none.Spec.Group = &v1alpha1.MemberGroup{UUID: "cccc"}
	denied(t, jane.Update(t.Context(), none.DeepCopy()), message)
	must(t, ours.Update(t.Context(), none))
}

// TestMember_adoption: the record names another group only if a person approved a plan for exactly that group, and only the controller writes it.
// Which groups were given up stays on record.
func TestMember_adoption(t *testing.T) {
	jane, ours := policies(t)
	m := create(t, ours, "fast.n1")
	const digest = "d1"
	plan := &v1alpha1.Plan{Digest: digest, Steps: []v1alpha1.PlanStep{
		{Host: "n1", Action: v1alpha1.ActionAdoptVolumeGroup, GroupUUID: "bbbb", Replaces: []string{"aaaa"}, Reason: "r", Digest: "s1"},
	}}
	adopt := func(c client.Client, uuid string, earlier ...string) error {
		changed := m.DeepCopy()
		changed.Spec.Group.UUID, changed.Spec.Group.Earlier = uuid, earlier
		return c.Update(t.Context(), changed)
	}
	const message = "only after a person approved the plan"
	forged := &v1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: "fast.n2"}, Spec: *m.Spec.DeepCopy()}
	forged.Spec.Node, forged.Spec.Group.Earlier = "n2", []string{"cccc"}
	denied(t, jane.Create(t.Context(), forged), "must be empty when a Member is made")
	denied(t, adopt(ours, "bbbb", "aaaa"), message)
	denied(t, adopt(ours, "aaaa", "cccc"), message)
	m.Status.State, m.Status.Plan = "online", plan
	must(t, ours.Status().Update(t.Context(), m))
	denied(t, adopt(ours, "bbbb", "aaaa"), message)
	approve := func(value string) {
		m.Annotations = map[string]string{v1alpha1.AnnotationApprove: value}
		must(t, jane.Update(t.Context(), m))
	}
	approve("another plan")
	denied(t, adopt(ours, "bbbb", "aaaa"), message)
	approve(digest)
	denied(t, adopt(jane, "bbbb", "aaaa"), "only the controller changes it")
	denied(t, adopt(ours, "cccc", "aaaa"), message)
	denied(t, adopt(ours, "bbbb", "aaaa", "cccc"), message)
	denied(t, adopt(ours, "bbbb"), "it goes to earlier")
	denied(t, adopt(ours, "", "aaaa"))
	must(t, adopt(ours, "bbbb", "aaaa"))
	must(t, ours.Get(t.Context(), client.ObjectKeyFromObject(m), m))
	denied(t, adopt(ours, "bbbb"), "no group is taken off earlier")
	denied(t, adopt(ours, "aaaa", "bbbb"), message)

	// Back to the group that was given up, by another plan.
	m.Status.Plan = plan.DeepCopy()
	m.Status.Plan.Steps[0].GroupUUID, m.Status.Plan.Steps[0].Replaces = "aaaa", []string{"bbbb"}
	must(t, ours.Status().Update(t.Context(), m))
	must(t, adopt(ours, "aaaa", "bbbb"))
}

func TestMember_statusIsNotHeldUp(t *testing.T) {
	_, ours := policies(t)
	m := create(t, ours, "fast.n1")
	leave(t, ours, m, metav1.ConditionTrue)
	if err := ours.Get(t.Context(), client.ObjectKeyFromObject(m), m); err != nil || len(m.Status.Conditions) != 1 {
		t.Errorf("%v: %+v", err, m.Status)
	}
}

// TestMember_lunRecord: who may write to a LUN, and which LUN it is, is the controller's to record.
func TestMember_lunRecord(t *testing.T) {
	jane, ours := policies(t)
	m := create(t, ours, "lun-record")
	m.Spec.Lun = &v1alpha1.MemberLun{WWID: "naa.1", Serial: "s", Size: 1, IQN: "iqn.2026-01.lab:a"}
	m.Spec.Reservation = &v1alpha1.MemberReservation{Key: "00000000000000a1", BootID: "b"}
	must(t, ours.Update(t.Context(), m))
	for name, change := range map[string]func(*v1alpha1.MemberSpec){
		"no LUN":       func(s *v1alpha1.MemberSpec) { s.Lun = nil },
		"another size": func(s *v1alpha1.MemberSpec) { s.Lun.Size = 2 },
		"no key":       func(s *v1alpha1.MemberSpec) { s.Reservation = nil },
		"fenced":       func(s *v1alpha1.MemberSpec) { s.Reservation.Fenced = true },
	} {
		changed := m.DeepCopy()
		change(&changed.Spec)
		if err := jane.Update(t.Context(), changed.DeepCopy(), client.DryRunAll); err == nil {
			t.Errorf("%s is allowed for a person", name)
		} else {
			denied(t, err, "only the controller changes them")
		}
		must(t, ours.Update(t.Context(), changed, client.DryRunAll))
	}
	for name, change := range map[string]func(*v1alpha1.MemberSpec){
		"another LUN":         func(s *v1alpha1.MemberSpec) { s.Lun.WWID = "naa.2" },
		"another target":      func(s *v1alpha1.MemberSpec) { s.Lun.IQN = "iqn.2026-01.lab:b" },
		"no fencing any more": func(s *v1alpha1.MemberSpec) { s.Reservation.Unfenced = true },
		"a key of no digits":  func(s *v1alpha1.MemberSpec) { s.Reservation.Key = "xyz" },
	} {
		changed := m.DeepCopy()
		change(&changed.Spec)
		if err := ours.Update(t.Context(), changed, client.DryRunAll); err == nil {
			t.Errorf("%s is allowed", name)
		}
	}
}

func TestMember_cephRecord(t *testing.T) {
	jane, ours := policies(t)
	m := create(t, ours, "ceph-record")
	m.Spec.Ceph = &v1alpha1.MemberCeph{
		Monitor: &v1alpha1.MemberMonitor{Name: "a", Address: "10.0.0.1"},
		OSDs:    []v1alpha1.MemberOSD{{UUID: "11111111-2222-3333-4444-555555555555", Path: "/dev/sdb", Size: 1}},
	}
	must(t, ours.Update(t.Context(), m))
	for name, change := range map[string]func(*v1alpha1.MemberSpec){
		"no monitor":              func(s *v1alpha1.MemberSpec) { s.Ceph.Monitor = nil },
		"an OSD that is purged":   func(s *v1alpha1.MemberSpec) { s.Ceph.OSDs[0].Purged = true },
		"a monitor to be swept":   func(s *v1alpha1.MemberSpec) { s.Ceph.Swept = []string{"a"} },
		"a host that is in noout": func(s *v1alpha1.MemberSpec) { s.Ceph.NoOut = true },
		"an OSD that is outed":    func(s *v1alpha1.MemberSpec) { s.Ceph.OSDs[0].Outed = true },
		"a disk of another path":  func(s *v1alpha1.MemberSpec) { s.Ceph.OSDs[0].Path = "/dev/sdc" },
	} {
		changed := m.DeepCopy()
		change(&changed.Spec)
		if err := jane.Update(t.Context(), changed.DeepCopy(), client.DryRunAll); err == nil {
			t.Errorf("%s is allowed for a person", name)
		} else {
			denied(t, err, "only the controller changes it")
		}
		must(t, ours.Update(t.Context(), changed, client.DryRunAll))
	}
	none := m.DeepCopy()
	none.Spec.Ceph = nil
	for _, c := range []client.Client{jane, ours} {
		if err := c.Update(t.Context(), none.DeepCopy(), client.DryRunAll); err == nil || !strings.Contains(err.Error(), "an OSD stays on record until it is purged") {
			t.Errorf("the whole record is taken off: %v", err)
		}
	}
	m.Spec.Ceph.OSDs[0].Purged = true
	must(t, ours.Update(t.Context(), m))
	m.Spec.Ceph = nil
	denied(t, jane.Update(t.Context(), m.DeepCopy(), client.DryRunAll), "only the controller changes it")
	must(t, ours.Update(t.Context(), m, client.DryRunAll))
	// A backup brings a record back.
	restored := newMember("ceph-restored")
	restored.Spec.Ceph = &v1alpha1.MemberCeph{OSDs: []v1alpha1.MemberOSD{{UUID: "11111111-2222-3333-4444-555555555555", Path: "/dev/sdb", Size: 1}}}
	must(t, jane.Create(t.Context(), restored, client.DryRunAll))
}
