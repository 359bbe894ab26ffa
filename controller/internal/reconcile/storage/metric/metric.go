// Package metric has the metrics of storages.
package metric

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

var (
	members = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "quarry_members", Help: "Members of a storage by state.",
	}, []string{"kind", "name", "state"})
	stepsRun = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "quarry_steps_total", Help: "Steps that were carried out, by action.",
	}, []string{"action"})
	poolUsed = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "quarry_thin_pool_used_ratio", Help: "Part of a thin pool that is taken, of its data and of its metadata.",
	}, []string{"kind", "name", "node", "pool", "part"})
)

func init() { metrics.Registry.MustRegister(members, stepsRun, poolUsed) }

// Members shows how many members of a storage are in which state.
func Members(o backend.Owner, s *v1alpha1.MemberStates) {
	if s == nil {
		return
	}
	for state, n := range map[nodestate.State]int32{
		nodestate.Online: s.Online, nodestate.Offline: s.Offline, nodestate.Quiesced: s.Quiesced, nodestate.Failed: s.Failed,
		nodestate.Abandoned: s.Abandoned,
	} {
		members.WithLabelValues(o.Kind, o.Name, string(state)).Set(float64(n))
	}
}

// Pools shows the pools of the hosts that report. One that does not report keeps its last value; one that left,
// or that reports without knowing it, has none.
func Pools(o backend.Owner, hosts []backend.HostHealth) {
	for _, h := range hosts {
		if h.Removed {
			poolUsed.DeletePartialMatch(prometheus.Labels{"kind": o.Kind, "name": o.Name, "node": h.Node})
			continue
		}
		p := h.Decided.ThinPool
		switch {
		case p == nil || !h.Decided.Reports:
		case !p.Known():
			poolUsed.DeletePartialMatch(prometheus.Labels{"kind": o.Kind, "name": o.Name, "node": h.Node})
		default:
			poolUsed.WithLabelValues(o.Kind, o.Name, h.Node, p.Name, "data").Set(float64(*p.DataPercent) / 100)
			poolUsed.WithLabelValues(o.Kind, o.Name, h.Node, p.Name, "metadata").Set(float64(*p.MetadataPercent) / 100)
		}
	}
}

// Steps counts steps that were carried out.
func Steps(steps []backend.Step) {
	for _, s := range steps {
		stepsRun.WithLabelValues(s.Action()).Inc()
	}
}

// Forget drops the metrics of a storage that is gone.
func Forget(kind, name string) {
	for _, v := range []*prometheus.GaugeVec{members, poolUsed} {
		v.DeletePartialMatch(prometheus.Labels{"kind": kind, "name": name})
	}
}
