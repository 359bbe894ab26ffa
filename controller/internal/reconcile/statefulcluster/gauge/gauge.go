// Package gauge has the metrics of StatefulClusters: what is replaced, the conditions, and for how long each has not been Ready.
package gauge

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

var (
	replacements = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "quarry_statefulcluster_replacements_total",
		Help: "Replicas that were given up and replaced, by reason: ReplicaLost, ReplicaUnhealthy or ReplicaFinished.",
	}, []string{"namespace", "name", "reason"})
	states = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "quarry_statefulcluster_condition", Help: "1 for the status that a condition of a StatefulCluster has, 0 for the others.",
	}, []string{"namespace", "name", "condition", "status"})
	unready = &clock{now: time.Now, since: map[types.NamespacedName]time.Time{}}
)

func init() { metrics.Registry.MustRegister(replacements, states, unready) }

// Replaced counts a replica that was given up and is still wanted.
func Replaced(name types.NamespacedName, reason string) {
	replacements.WithLabelValues(name.Namespace, name.Name, reason).Inc()
}

// Measure takes up the conditions of a StatefulCluster.
func Measure(c *v1alpha1.StatefulCluster) {
	states.DeletePartialMatch(prometheus.Labels{"namespace": c.Namespace, "name": c.Name})
	for _, is := range c.Status.Conditions {
		for _, s := range []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown} {
			states.WithLabelValues(c.Namespace, c.Name, is.Type, string(s)).Set(0)
		}
		states.WithLabelValues(c.Namespace, c.Name, is.Type, string(is.Status)).Set(1)
	}
	var since time.Time
	if ready := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionReady); ready != nil && ready.Status != metav1.ConditionTrue {
		since = ready.LastTransitionTime.Time
	}
	unready.set(types.NamespacedName{Namespace: c.Namespace, Name: c.Name}, since)
}

// Forget drops all that is told of a StatefulCluster.
func Forget(name types.NamespacedName) {
	of := prometheus.Labels{"namespace": name.Namespace, "name": name.Name}
	replacements.DeletePartialMatch(of)
	states.DeletePartialMatch(of)
	unready.forget(name)
}

// clock tells for how long StatefulClusters have not been Ready, as of the moment it is asked.
type clock struct {
	now   func() time.Time
	mu    sync.Mutex
	since map[types.NamespacedName]time.Time
}

var unreadySeconds = prometheus.NewDesc(
	"quarry_statefulcluster_unready_seconds", "How long a StatefulCluster has not been Ready; 0 while it is.", []string{"namespace", "name"}, nil,
)

// Describe tells which metric there is.
func (c *clock) Describe(out chan<- *prometheus.Desc) { out <- unreadySeconds }

// Collect tells the value of each StatefulCluster.
func (c *clock) Collect(out chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, since := range c.since {
		var seconds float64
		if !since.IsZero() {
			seconds = max(0, c.now().Sub(since).Seconds())
		}
		out <- prometheus.MustNewConstMetric(unreadySeconds, prometheus.GaugeValue, seconds, name.Namespace, name.Name)
	}
}

// set says since when a StatefulCluster has not been Ready; zero when it is.
func (c *clock) set(name types.NamespacedName, since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since[name] = since
}

func (c *clock) forget(name types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.since, name)
}
