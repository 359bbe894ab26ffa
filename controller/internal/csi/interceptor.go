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
			resp, err = nil, status.Error(codes.Internal, "panic in the controller")
		}
		code, seconds := status.Code(err), time.Since(start).Seconds()
		d.metrics.handled(method, code, seconds)
		switch code {
		case codes.OK:
			log.V(level(method)).Info("Handled call", "seconds", seconds)
		case codes.Internal, codes.Unknown:
			log.Error(err, "Failed call", "seconds", seconds)
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

// level of the log for a call that went well: the ones that change nothing come all the time.
func level(method string) int {
	switch method {
	case "CreateVolume", "DeleteVolume", "ControllerExpandVolume", "CreateSnapshot", "DeleteSnapshot":
		return 1
	}
	return 4
}

// metrics of one driver. Methods are bounded by the services that are registered.
type metrics struct {
	calls    *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

func newMetrics(registry prometheus.Registerer, driver string) *metrics {
	labels := prometheus.Labels{"driver": driver}
	m := &metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quarry_csi_handled_total", Help: "Calls of the sidecars handled, by method and code.", ConstLabels: labels,
		}, []string{"method", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "quarry_csi_duration_seconds", Help: "Time that calls of the sidecars took, by method and code.",
			ConstLabels: labels, Buckets: []float64{.005, .025, .1, .25, .5, 1, 2.5, 10, 60},
		}, []string{"method", "code"}),
	}
	if registry != nil {
		registry.MustRegister(m.calls, m.duration)
	}
	return m
}

func (m *metrics) handled(method string, code codes.Code, seconds float64) {
	m.calls.WithLabelValues(method, code.String()).Inc()
	m.duration.WithLabelValues(method, code.String()).Observe(seconds)
}
