package storagenode

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Verdicts of a device that can be taken and of one that a storage uses. The verdict of any other device is its first refusal.
const (
	verdictClean = "Clean"
	verdictInUse = "InUse"
)

var devices = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "quarry_node_devices", Help: "Listed block devices of a node by verdict: Clean, InUse, or the first reason why it is refused.",
}, []string{"node", "verdict"})

func init() { metrics.Registry.MustRegister(devices) }

func recordDevices(sn *v1alpha1.StorageNode) {
	count := map[string]int{verdictClean: 0}
	for _, d := range sn.Status.Devices {
		count[verdictOf(d)]++
	}
	forgetMetrics(sn.Name)
	for verdict, n := range count {
		devices.WithLabelValues(sn.Name, verdict).Set(float64(n))
	}
}

func verdictOf(d v1alpha1.NodeDevice) string {
	switch {
	case d.InUseBy != "":
		return verdictInUse
	case d.Available:
		return verdictClean
	case len(d.Refusals) > 0:
		return d.Refusals[0].Reason
	}
	return v1alpha1.RefusalUnreadable
}

func forgetMetrics(node string) { devices.DeletePartialMatch(prometheus.Labels{"node": node}) }
