package backend

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func TestUnseen(t *testing.T) {
	state := func(s metav1.ConditionStatus) *metav1.Condition { return &metav1.Condition{Status: s, Reason: "Was"} }
	for name, c := range map[string]struct {
		ready *metav1.Condition
		blind time.Duration
		want  bool
	}{
		"the first look that fails":         {state(metav1.ConditionTrue), 0, false},
		"for a while":                       {state(metav1.ConditionTrue), UntilUnseen - 1, false},
		"for long":                          {state(metav1.ConditionTrue), UntilUnseen, true},
		"it stays unknown":                  {state(metav1.ConditionUnknown), time.Hour, true},
		"what is wrong says more":           {state(metav1.ConditionFalse), time.Hour, false},
		"nothing was ever said of it":       {nil, UntilUnseen, true},
		"nor is anything said in a hurry":   {nil, UntilUnseen - 1, false},
		"a clock that was set back is none": {state(metav1.ConditionTrue), -time.Hour, false},
	} {
		got := Unseen(c.ready, c.blind, "Nobody can look.")
		if (got != nil) != c.want {
			t.Errorf("%s: %+v", name, got)
		}
		if got != nil && *got != Condition(v1alpha1.ConditionReady, metav1.ConditionUnknown, v1alpha1.ReasonNotSeen, "Nobody can look.") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
