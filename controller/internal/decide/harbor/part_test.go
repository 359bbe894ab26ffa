package harbor

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func conditions(statuses [Count]metav1.ConditionStatus) []metav1.Condition {
	// What does not count says the opposite of what is expected.
	list := []metav1.Condition{{Type: "ConfigurationReady", Status: metav1.ConditionFalse}, {Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse}}
	for p, s := range statuses {
		if s != "" {
			list = append(list, metav1.Condition{Type: Part(p).Condition(), Status: s})
		}
	}
	return list
}

func TestOverall_everyCombination(t *testing.T) {
	possible := []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown, ""}
	count := map[v1alpha1.HarborStatus]int{}
	for _, storage := range possible {
		for _, database := range possible {
			for _, cache := range possible {
				for _, service := range possible {
					statuses := [Count]metav1.ConditionStatus{storage, database, cache, service}
					all := strings.Join([]string{string(storage), string(database), string(cache), string(service)}, " ")
					want := v1alpha1.HarborCreating
					switch {
					case strings.Contains(all, "False"):
						want = v1alpha1.HarborUnhealthy
					case all == "True True True True":
						want = v1alpha1.HarborHealthy
					}
					got := Overall(conditions(statuses))
					count[got]++
					if got != want {
						t.Errorf("%v: %s, want %s", statuses, got, want)
					}
				}
			}
		}
	}
	if count[v1alpha1.HarborHealthy] != 1 || count[v1alpha1.HarborUnhealthy] != 175 || count[v1alpha1.HarborCreating] != 80 {
		t.Errorf("the 256 combinations fall into %v", count)
	}
}

func TestConditions_readyFollows(t *testing.T) {
	good, bad, slow := Running("It runs."), Failed("Broken", "It broke."), Pending("Slow", "It starts.")
	for name, tt := range map[string]struct {
		states  [Count]State
		status  metav1.ConditionStatus
		reason  string
		message string
	}{
		"all run":                   {[Count]State{good, good, good, good}, metav1.ConditionTrue, "Healthy", "Harbor and its services run."},
		"one broke":                 {[Count]State{good, bad, slow, slow}, metav1.ConditionFalse, "Unhealthy", "database: It broke."},
		"two broke":                 {[Count]State{bad, good, bad, slow}, metav1.ConditionFalse, "Unhealthy", "storage: It broke.\ncache: It broke."},
		"one starts":                {[Count]State{good, good, good, slow}, metav1.ConditionUnknown, "Creating", "service: It starts."},
		"nothing was looked at yet": {[Count]State{good, good, good}, metav1.ConditionUnknown, "Creating", "service: Not looked at yet."},
	} {
		t.Run(name, func(t *testing.T) {
			all := Conditions(tt.states)
			got := all[len(all)-1]
			if len(all) != Count+1 || got.Type != v1alpha1.ConditionReady || got.Status != tt.status || got.Reason != tt.reason || got.Message != tt.message {
				t.Errorf("%+v", got)
			}
		})
	}
}
