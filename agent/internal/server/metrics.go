package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"

	"quarry.storage/quarry/agent/internal/plan"
)

// metrics of the agent. Method names are bounded by the services that are registered.
type metrics struct {
	calls    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	devices  prometheus.Gauge
	clean    prometheus.Gauge
	refusals *prometheus.GaugeVec
}

func newMetrics(registry prometheus.Registerer) *metrics {
	m := &metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quarry_agent_grpc_handled_total", Help: "Calls handled, by method and code.",
		}, []string{"method", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "quarry_agent_grpc_duration_seconds", Help: "Time that calls took, by method; a stream counts until its end.",
			Buckets: []float64{.005, .025, .1, .25, .5, 1, 2.5, 10, 60},
		}, []string{"method"}),
		devices: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "quarry_agent_devices", Help: "Block devices of the node.",
		}),
		clean: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "quarry_agent_clean_devices", Help: "Block devices of the node that can be taken.",
		}),
		refusals: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "quarry_agent_device_refusals", Help: "Block devices that are refused, by reason; a device may have several.",
		}, []string{"reason"}),
	}
	if registry != nil {
		registry.MustRegister(m.calls, m.duration, m.devices, m.clean, m.refusals)
	}
	return m
}

func (m *metrics) handled(method string, code codes.Code, took time.Duration) {
	m.calls.WithLabelValues(method, code.String()).Inc()
	m.duration.WithLabelValues(method).Observe(took.Seconds())
}

// seen counts the devices of a view.
func (m *metrics) seen(s plan.Snapshot, p plan.Policy) {
	m.refusals.Reset()
	clean := 0
	for _, d := range s.Devices {
		refusals := plan.Judge(d, p)
		if len(refusals) == 0 {
			clean++
		}
		for _, r := range refusals {
			m.refusals.WithLabelValues(r.Reason).Inc()
		}
	}
	m.devices.Set(float64(len(s.Devices)))
	m.clean.Set(float64(clean))
}
