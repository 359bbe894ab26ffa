package csirpc

import (
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
)

// Metrics of the calls of one driver. Methods are bounded by the services that are registered.
type Metrics struct {
	calls    *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// NewMetrics makes the metrics prefix_handled_total and prefix_duration_seconds. Their help text names the caller. A nil registry
// keeps them from being published.
func NewMetrics(registry prometheus.Registerer, prefix, caller, driver string) *Metrics {
	labels := prometheus.Labels{"driver": driver}
	m := &Metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "_handled_total", Help: "Calls of " + caller + " handled, by method and code.", ConstLabels: labels,
		}, []string{"method", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: prefix + "_duration_seconds", Help: "Time that calls of " + caller + " took, by method and code.",
			ConstLabels: labels, Buckets: []float64{.005, .025, .1, .25, .5, 1, 2.5, 10, 60},
		}, []string{"method", "code"}),
	}
	if registry != nil {
		registry.MustRegister(m.calls, m.duration)
	}
	return m
}

func (m *Metrics) handled(method string, code codes.Code, seconds float64) {
	if m == nil {
		return
	}
	m.calls.WithLabelValues(method, code.String()).Inc()
	m.duration.WithLabelValues(method, code.String()).Observe(seconds)
}
