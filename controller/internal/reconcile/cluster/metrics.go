package cluster

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/health"
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

var poolUsed = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "quarry_thin_pool_used_ratio", Help: "Part of a thin pool that is taken, of its data and of its metadata.",
}, []string{"cluster", "node", "pool", "part"})

func init() { metrics.Registry.MustRegister(members, stepsRun, poolUsed) }

// recordPools shows the pools of the hosts that report. One that does not report keeps its last value; one that left has none.
func recordPools(cluster string, hosts []health.Host) {
	for _, h := range hosts {
		if h.Removed {
			poolUsed.DeletePartialMatch(prometheus.Labels{"cluster": cluster, "node": h.Name})
			continue
		}
		for _, g := range h.Groups {
			for _, p := range g.Pools {
				poolUsed.WithLabelValues(cluster, h.Name, p.Name, "data").Set(float64(p.DataPermyriad) / 10000)
				poolUsed.WithLabelValues(cluster, h.Name, p.Name, "metadata").Set(float64(p.MetadataPermyriad) / 10000)
			}
		}
	}
}

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

func forgetMetrics(cluster string) {
	members.DeletePartialMatch(prometheus.Labels{"cluster": cluster})
	poolUsed.DeletePartialMatch(prometheus.Labels{"cluster": cluster})
}
