package csi

import (
	"context"
	"fmt"
	"path"
	"runtime/debug"
	"time"

	"github.com/kubernetes-csi/csi-lib-utils/protosanitizer"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// handle is what every call passes: log, metrics, recovery, codes. Requests are logged without their secrets.
func (d *Driver) handle(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	start := time.Now()
	method := path.Base(info.FullMethod)
	log := d.cfg.Log.WithValues("method", method)
	log.V(4).Info("Handling call", "request", protosanitizer.StripSecrets(req))
	defer func() {
		if value := recover(); value != nil {
			log.Error(fmt.Errorf("panic: %v\n%s", value, debug.Stack()), "Recovered from a panic")
			resp, err = nil, status.Error(codes.Internal, "panic in the agent")
		}
		code := status.Code(err)
		d.metrics.handled(method, code, since(start))
		switch code {
		case codes.OK:
			log.V(1).Info("Handled call", "seconds", since(start))
		case codes.Internal, codes.Unknown:
			log.Error(err, "Failed call", "seconds", since(start))
		default:
			log.Info("Refused call", "code", code.String(), "reason", status.Convert(err).Message())
		}
	}()
	resp, err = handler(ctx, req)
	if err != nil {
		return nil, toStatus(err)
	}
	return resp, nil
}

// metrics of one driver. Methods are bounded by the services that are registered.
type metrics struct {
	calls      *prometheus.CounterVec
	duration   *prometheus.HistogramVec
	registered prometheus.Gauge
}

func newMetrics(registry prometheus.Registerer, driver string) *metrics {
	labels := prometheus.Labels{"driver": driver}
	m := &metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quarry_agent_csi_handled_total", Help: "Calls of the kubelet handled, by method and code.", ConstLabels: labels,
		}, []string{"method", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "quarry_agent_csi_duration_seconds", Help: "Time that calls of the kubelet took, by method and code.",
			ConstLabels: labels, Buckets: []float64{.005, .025, .1, .25, .5, 1, 2.5, 10, 60},
		}, []string{"method", "code"}),
		registered: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "quarry_agent_csi_registered", Help: "Whether the kubelet said that the driver is registered.", ConstLabels: labels,
		}),
	}
	if registry != nil {
		registry.MustRegister(m.calls, m.duration, m.registered)
	}
	return m
}

func (m *metrics) handled(method string, code codes.Code, seconds float64) {
	m.calls.WithLabelValues(method, code.String()).Inc()
	m.duration.WithLabelValues(method, code.String()).Observe(seconds)
}

func (m *metrics) registration(ok bool) {
	m.registered.Set(map[bool]float64{true: 1}[ok])
}
