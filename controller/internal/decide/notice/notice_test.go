package notice

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

const (
	isNormal  = corev1.EventTypeNormal
	isWarning = corev1.EventTypeWarning
)

// wipes is what a Profile says of its steps.
func wipes(action string) bool { return action == v1alpha1.ActionWipeDevice }

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

func storage(ready metav1.Condition, plan *v1alpha1.Plan) *v1alpha1.StorageStatus {
	s := &v1alpha1.StorageStatus{Plan: plan, Conditions: []metav1.Condition{ready}}
	if plan != nil {
		s.Conditions = append(s.Conditions, condition(v1alpha1.ConditionPlanApproved, metav1.ConditionFalse, v1alpha1.ReasonApprovalRequired, "approve "+plan.Digest))
	}
	return s
}

func TestStorage(t *testing.T) {
	ready := condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "fine")
	pending := condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonPending, "soon")
	broken := condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonStepFailed, "broken")
	a, b := &v1alpha1.Plan{Digest: "a"}, &v1alpha1.Plan{Digest: "b"}
	approved := &v1alpha1.Plan{Digest: "a", Approved: true}
	told := Note{isNormal, v1alpha1.ReasonApprovalRequired, "Approve", "approve a"}
	for name, c := range map[string]struct {
		before, after *v1alpha1.StorageStatus
		want          []Note
	}{
		"nothing changed":                {storage(ready, nil), storage(ready, nil), nil},
		"nothing is known yet":           {&v1alpha1.StorageStatus{}, &v1alpha1.StorageStatus{}, nil},
		"became ready":                   {storage(pending, nil), storage(ready, nil), []Note{{isNormal, v1alpha1.ReasonReady, "Reconcile", "fine"}}},
		"first look":                     {&v1alpha1.StorageStatus{}, storage(pending, nil), []Note{{isNormal, v1alpha1.ReasonPending, "Reconcile", "soon"}}},
		"broke":                          {storage(ready, nil), storage(broken, nil), []Note{{isWarning, v1alpha1.ReasonStepFailed, "Reconcile", "broken"}}},
		"still broken in another way":    {storage(broken, nil), storage(condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonStepFailed, "worse"), nil), nil},
		"a plan":                         {storage(ready, nil), storage(ready, a), []Note{told}},
		"the same plan":                  {storage(ready, a), storage(ready, a), nil},
		"another plan":                   {storage(ready, b), storage(ready, a), []Note{told}},
		"a plan that is approved":        {storage(ready, a), storage(ready, approved), nil},
		"a plan, and something is wrong": {storage(ready, nil), storage(broken, a), []Note{told, {isWarning, v1alpha1.ReasonStepFailed, "Reconcile", "broken"}}},
	} {
		if d := cmp.Diff(c.want, Storage(c.before, c.after)); d != "" {
			t.Errorf("%s, -want +got:\n%s", name, d)
		}
	}
}

func device(path string, state v1alpha1.DeviceState) v1alpha1.MemberDevice {
	return v1alpha1.MemberDevice{Path: path, State: state}
}

func member(change func(m *v1alpha1.MemberStatus)) v1alpha1.MemberStatus {
	m := v1alpha1.MemberStatus{State: "online"}
	change(&m)
	return m
}

func TestMember(t *testing.T) {
	state := func(s v1alpha1.MemberState, message string) v1alpha1.MemberStatus {
		return member(func(m *v1alpha1.MemberStatus) { m.State, m.Message = s, message })
	}
	devices := func(d ...v1alpha1.MemberDevice) v1alpha1.MemberStatus {
		return member(func(m *v1alpha1.MemberStatus) { m.Devices = d })
	}
	leaves := func(status metav1.ConditionStatus) v1alpha1.MemberStatus {
		return member(func(m *v1alpha1.MemberStatus) {
			m.Conditions = []metav1.Condition{condition(v1alpha1.ConditionLeaving, status, v1alpha1.ReasonHostNotListed, "it is not listed")}
		})
	}
	pool := func(percent int32) v1alpha1.MemberStatus {
		return member(func(m *v1alpha1.MemberStatus) {
			m.ThinPool = &v1alpha1.ThinPoolUsage{Name: "thin", DataPercent: &percent, MetadataPercent: new(int32(0)), NearlyFull: percent >= v1alpha1.ThinPoolWarnPercent}
		})
	}
	full := v1alpha1.ThinPoolUsage{Name: "thin", DataPercent: new(int32(95)), MetadataPercent: new(int32(0)), NearlyFull: true}
	left := Note{isNormal, v1alpha1.ReasonHostNotListed, "Leave", "Host n1 leaves: it is not listed"}
	back := Note{isNormal, v1alpha1.ReasonMemberStateChanged, "Leave", "Host n1 was taken back."}
	for name, c := range map[string]struct {
		before, after v1alpha1.MemberStatus
		want          []Note
	}{
		"nothing":     {state("online", ""), state("online", "a message"), nil},
		"first state": {state("", ""), state("offline", ""), nil},
		"offline": {state("online", ""), state("offline", "no answer"), []Note{
			{isWarning, v1alpha1.ReasonMemberStateChanged, "ChangeState", "Host n1 went from online to offline: no answer"},
		}},
		"failed": {state("online", ""), state("failed", ""), []Note{
			{isWarning, v1alpha1.ReasonMemberFailing, "ChangeState", "Host n1 went from online to failed"},
		}},
		"quiesced": {state("offline", ""), state("quiesced", ""), []Note{
			{isNormal, v1alpha1.ReasonMemberStateChanged, "ChangeState", "Host n1 went from offline to quiesced"},
		}},
		"devices": {
			devices(device("a", v1alpha1.DevicePresent)),
			devices(device("a", v1alpha1.DevicePresent), device("b", v1alpha1.DevicePresent), device("c", v1alpha1.DeviceMissing), device("d", v1alpha1.DevicePresent)),
			[]Note{{isNormal, v1alpha1.ReasonDisksAdded, "AddDisks", "Host n1: b, d"}},
		},
		"a device went":          {devices(device("a", v1alpha1.DevicePresent)), devices(), nil},
		"leaves":                 {member(func(*v1alpha1.MemberStatus) {}), leaves(metav1.ConditionTrue), []Note{left}},
		"still leaves":           {leaves(metav1.ConditionTrue), leaves(metav1.ConditionTrue), nil},
		"taken back":             {leaves(metav1.ConditionTrue), member(func(*v1alpha1.MemberStatus) {}), []Note{back}},
		"taken back, in words":   {leaves(metav1.ConditionTrue), leaves(metav1.ConditionFalse), []Note{back}},
		"a pool without room":    {pool(10), pool(95), []Note{{isWarning, v1alpha1.ReasonThinPoolNearlyFull, "WatchPool", "Host n1: " + full.Describe() + "."}}},
		"a new pool":             {member(func(*v1alpha1.MemberStatus) {}), pool(10), nil},
		"a pool is still full":   {pool(95), pool(96), nil},
		"a pool with room again": {pool(95), pool(10), []Note{{isNormal, v1alpha1.ReasonThinPoolsHealthy, "WatchPool", "Host n1: thin pool thin has room again."}}},
		"a pool is gone":         {pool(95), member(func(*v1alpha1.MemberStatus) {}), nil},
	} {
		if d := cmp.Diff(c.want, Member("n1", c.before, c.after, "", wipes)); d != "" {
			t.Errorf("%s, -want +got:\n%s", name, d)
		}
	}
}

func TestMember_wipedDevices(t *testing.T) {
	before := member(func(m *v1alpha1.MemberStatus) {
		m.Plan = &v1alpha1.Plan{Digest: "d", Steps: []v1alpha1.PlanStep{
			{Action: v1alpha1.ActionWipeDevice, Devices: []string{"/dev/a (model, 1Gi)"}},
			{Action: v1alpha1.ActionWipeDevice, Devices: []string{"/dev/b (model, 1Gi)"}},
			{Action: v1alpha1.ActionEnsureVolumeGroup, Devices: []string{"/dev/a (model, 1Gi)"}},
		}}
	})
	after := member(func(m *v1alpha1.MemberStatus) {
		m.Devices = []v1alpha1.MemberDevice{device("/dev/a", v1alpha1.DevicePresent)}
	})
	added := Note{isNormal, v1alpha1.ReasonDisksAdded, "AddDisks", "Host n1: /dev/a"}
	want := []Note{{isNormal, v1alpha1.ReasonDiskWiped, "WipeDevice", "Host n1: /dev/a (model, 1Gi)"}, added}
	if d := cmp.Diff(want, Member("n1", before, after, "d", wipes)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	// Without the approval somebody else wiped it.
	if d := cmp.Diff([]Note{added}, Member("n1", before, after, "", wipes)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestRemovedAndDropped(t *testing.T) {
	if got := Removed("n1"); got.Kind != isNormal || got.Reason != v1alpha1.ReasonMemberRemoved || !strings.Contains(got.Message, "n1") {
		t.Errorf("%+v", got)
	}
	got := Dropped("0123", "Cluster pool", &v1alpha1.Plan{Digest: "4567"})
	want := Note{
		isWarning, v1alpha1.ReasonApprovalDropped, "Approve",
		"The approval 0123 fits no plan of Cluster pool and was dropped. The plan that waits has the digest 4567.",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if got := Dropped("0123", "Cluster pool", nil); strings.Contains(got.Message, "waits") {
		t.Errorf("%+v", got)
	}
}

// taken is a step of which people are told what it says; an empty one tells nothing.
type taken string

func (taken) Action() string           { return "Do" }
func (s taken) Told() (string, string) { return string(s), "it is done" }

func TestTaken(t *testing.T) {
	got := Taken([]any{taken("Done"), taken(""), "a step that nobody is told of"})
	if d := cmp.Diff([]Note{{isNormal, "Done", "Do", "it is done"}}, got); d != "" {
		t.Error(d)
	}
}

// TestDropped_aStep: who chose a step reads what is wrong with that, and not that the plan is another one.
func TestDropped_aStep(t *testing.T) {
	plan := &v1alpha1.Plan{Digest: "4567", Steps: []v1alpha1.PlanStep{{Digest: "aa"}}, Whole: []string{"bb"}}
	alone := " of Cluster pool cannot be approved by itself, so the approval was dropped. To approve the plan with all of its steps, write its digest alone: 4567."
	for approval, want := range map[string]string{
		"4567/aa":   "Step aa" + alone,
		"4567/bb":   "Step bb" + alone,
		"4567/STEP": `"STEP" is not the digest of a step that the plan of Cluster pool shows, so the approval was dropped. The digest of the plan is 4567.`,
		"4567/":     `"" is not the digest of a step that the plan of Cluster pool shows, so the approval was dropped. The digest of the plan is 4567.`,
		"0123/aa":   "The approval 0123/aa fits no plan of Cluster pool and was dropped. The plan that waits has the digest 4567.",
	} {
		if got := Dropped(approval, "Cluster pool", plan); got.Message != want || got.Kind != isWarning || got.Reason != v1alpha1.ReasonApprovalDropped {
			t.Errorf("%s: %+v", approval, got)
		}
	}
}
