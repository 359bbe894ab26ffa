package harborcluster

import (
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

var (
	conditionStates = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "quarry_harborcluster_condition", Help: "1 for the status that a condition of a HarborCluster has, 0 for the others.",
	}, []string{"namespace", "name", "condition", "status"})
	overall = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "quarry_harborcluster_status", Help: "1 for the overall status that a HarborCluster has, 0 for the others.",
	}, []string{"namespace", "name", "status"})
)

func init() { metrics.Registry.MustRegister(conditionStates, overall) }

func recordMetrics(c *v1alpha1.HarborCluster) {
	for _, condition := range c.Status.Conditions {
		for _, s := range []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown} {
			conditionStates.WithLabelValues(c.Namespace, c.Name, condition.Type, string(s)).Set(one(condition.Status == s))
		}
	}
	for _, s := range []v1alpha1.HarborStatus{v1alpha1.HarborHealthy, v1alpha1.HarborUnhealthy, v1alpha1.HarborCreating} {
		overall.WithLabelValues(c.Namespace, c.Name, string(s)).Set(one(c.Status.Status == s))
	}
}

func forgetMetrics(c types.NamespacedName) {
	labels := prometheus.Labels{"namespace": c.Namespace, "name": c.Name}
	conditionStates.DeletePartialMatch(labels)
	overall.DeletePartialMatch(labels)
}

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
