package gauge

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func at(minutes int) metav1.Time {
	return metav1.NewTime(time.Date(2030, 1, 1, 12, minutes, 0, 0, time.UTC))
}

func TestMetrics(t *testing.T) {
	name := types.NamespacedName{Namespace: "ns", Name: "metrics"}
	c := &v1alpha1.StatefulCluster{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
	c.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, LastTransitionTime: at(0)}}
	defer func(now func() time.Time) { unready.now = now }(unready.now)
	unready.now = func() time.Time { return at(2).Time }
	registry := prometheus.NewRegistry()
	registry.MustRegister(replacements, states, unready)
	Measure(c)
	Replaced(name, v1alpha1.ReasonReplicaLost)
	want := []string{
		"quarry_statefulcluster_condition Ready metrics ns False 1",
		"quarry_statefulcluster_condition Ready metrics ns True 0",
		"quarry_statefulcluster_condition Ready metrics ns Unknown 0",
		"quarry_statefulcluster_replacements_total metrics ns ReplicaLost 1",
		"quarry_statefulcluster_unready_seconds metrics ns 120",
	}
	if diff := cmp.Diff(want, gather(t, registry)); diff != "" {
		t.Error(diff)
	}
	Forget(name)
	if left := gather(t, registry); len(left) != 0 {
		t.Errorf("these stay: %v", left)
	}
}

// gather returns every metric with the values of its labels.
func gather(t *testing.T, registry *prometheus.Registry) []string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			line := f.GetName()
			for _, l := range m.GetLabel() {
				line += " " + l.GetValue()
			}
			out = append(out, fmt.Sprintf("%s %v", line, m.GetGauge().GetValue()+m.GetCounter().GetValue()))
		}
	}
	return out
}
