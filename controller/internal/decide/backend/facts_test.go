package backend

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func TestVolumeOf(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	deleted := metav1.NewTime(now)
	const retain, remove = corev1.PersistentVolumeReclaimRetain, corev1.PersistentVolumeReclaimDelete
	for name, c := range map[string]struct {
		phase    corev1.PersistentVolumePhase
		policy   corev1.PersistentVolumeReclaimPolicy
		age      time.Duration
		deleting bool
		want     bool
	}{
		"bound":                             {phase: corev1.VolumeBound, policy: remove, age: time.Hour, want: true},
		"bound and being deleted":           {phase: corev1.VolumeBound, policy: remove, age: time.Hour, deleting: true, want: true},
		"bound a moment ago":                {phase: corev1.VolumeBound, policy: remove, age: reported - time.Second},
		"made by a clock that is ahead":     {phase: corev1.VolumeBound, policy: remove, age: -time.Hour},
		"bound when it can be told":         {phase: corev1.VolumeBound, policy: remove, age: reported, want: true},
		"released and retained":             {phase: corev1.VolumeReleased, policy: retain, age: time.Hour, want: true},
		"released, retained, being deleted": {phase: corev1.VolumeReleased, policy: retain, age: time.Hour, deleting: true},
		"released and deleted":              {phase: corev1.VolumeReleased, policy: remove, age: time.Hour},
		"released with a policy of old":     {phase: corev1.VolumeReleased, policy: corev1.PersistentVolumeReclaimRecycle, age: time.Hour},
		"its deletion failed":               {phase: corev1.VolumeFailed, policy: remove, age: time.Hour},
		"not bound yet":                     {phase: corev1.VolumeAvailable, policy: retain, age: time.Hour},
		"pending":                           {phase: corev1.VolumePending, policy: retain, age: time.Hour},
		"restored without a status":         {policy: retain, age: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv", CreationTimestamp: metav1.NewTime(now.Add(-c.age))}}
			v.Spec.CSI = &corev1.CSIPersistentVolumeSource{VolumeHandle: "h", VolumeAttributes: map[string]string{v1alpha1.AttributeGroupUUID: "G"}}
			v.Spec.ClaimRef, v.Spec.PersistentVolumeReclaimPolicy = &corev1.ObjectReference{Namespace: "ns", Name: "c"}, c.policy
			v.Status.Phase = c.phase
			if c.deleting {
				v.DeletionTimestamp = &deleted
			}
			want := Volume{Name: "pv", Claim: "ns/c", Handle: "h", GroupUUID: "G", Attributes: v.Spec.CSI.VolumeAttributes, Expected: c.want, Bound: c.phase == corev1.VolumeBound}
			if left := ExpectedIn(v, now); left < 0 || c.want && left != 0 || VolumeOf(v, now.Add(left)).Expected != VolumeOf(v, now.Add(24*time.Hour)).Expected {
				t.Errorf("expected in %s", left)
			}
			if d := cmp.Diff(want, VolumeOf(v, now)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

// TestFacts_Reported: whoever says that a member is lost is heard only while its host does not report what is on record. What nobody can say is no loss.
func TestFacts_Reported(t *testing.T) {
	for name, c := range map[string]struct {
		facts           Facts
		recorded, holds bool
		want            metav1.ConditionStatus
	}{
		"the host reports it":                      {Facts{Up: true, Recorded: true}, true, true, metav1.ConditionTrue},
		"the host cannot say":                      {Facts{Up: true, Unsure: true}, true, false, metav1.ConditionUnknown},
		"nobody can say yet":                       {Facts{TooEarly: true}, true, false, metav1.ConditionUnknown},
		"the host reports without it":              {Facts{Up: true}, true, true, metav1.ConditionFalse},
		"the host is silent":                       {Facts{}, true, false, metav1.ConditionFalse},
		"no record, and the host holds something":  {Facts{Up: true}, false, true, metav1.ConditionTrue},
		"no record, and the host holds nothing":    {Facts{Up: true}, false, false, metav1.ConditionFalse},
		"no record, and the host is silent":        {Facts{}, false, true, metav1.ConditionFalse},
		"no record, and the host cannot say":       {Facts{Up: true, Unsure: true}, false, false, metav1.ConditionUnknown},
		"it reports it, and has only just started": {Facts{Up: true, TooEarly: true, Recorded: true}, true, true, metav1.ConditionTrue},
	} {
		got := c.facts.Reported(c.recorded, c.holds)
		if got.Status != c.want || got.Type != v1alpha1.ConditionRecordReported || got.Reason == "" || got.Message == "" {
			t.Errorf("%s: %+v, want %s", name, got, c.want)
		}
	}
}
