package cluster

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

var (
	members = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "quarry_cluster_members", Help: "Members of a Cluster by state.",
	}, []string{"cluster", "state"})
	stepsRun = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "quarry_steps_total", Help: "Steps on disks that were carried out, by action.",
	}, []string{"action"})
)

func init() { metrics.Registry.MustRegister(members, stepsRun) }

func recordSteps(steps []decide.Step) {
	for _, s := range steps {
		stepsRun.WithLabelValues(s.Action).Inc()
	}
}

func recordMembers(c *v1alpha1.Cluster) {
	count := map[v1alpha1.MemberState]int{}
	for _, m := range c.Status.Members {
		count[m.State]++
	}
	for _, s := range []nodestate.State{nodestate.Online, nodestate.Offline, nodestate.Quiesced, nodestate.Failed, nodestate.Abandoned} {
		members.WithLabelValues(c.Name, string(s)).Set(float64(count[v1alpha1.MemberState(s)]))
	}
}

func forgetMetrics(cluster string) { members.DeletePartialMatch(prometheus.Labels{"cluster": cluster}) }
