package storagenode

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// verdictClean is the verdict of a device that can be taken; of the others it is the first refusal.
const verdictClean = "Clean"

var devices = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "quarry_node_devices", Help: "Block devices of a node by verdict: Clean, or the first reason why it is not.",
}, []string{"node", "verdict"})

func init() { metrics.Registry.MustRegister(devices) }

func recordDevices(sn *v1alpha1.StorageNode) {
	count := map[string]int{verdictClean: 0}
	for _, d := range sn.Status.Devices {
		verdict := verdictClean
		if !d.Available {
			verdict = v1alpha1.RefusalUnreadable
		}
		if len(d.Refusals) > 0 {
			verdict = d.Refusals[0].Reason
		}
		count[verdict]++
	}
	forgetMetrics(sn.Name)
	for verdict, n := range count {
		devices.WithLabelValues(sn.Name, verdict).Set(float64(n))
	}
}

func forgetMetrics(node string) { devices.DeletePartialMatch(prometheus.Labels{"node": node}) }
