package csirpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"quarry.storage/quarry/pkg/csirpc"
)

var errGone = errors.New("gone")

func call(t *testing.T, c *csirpc.Calls, method string, handler grpc.UnaryHandler) (any, error) {
	t.Helper()
	req := &csi.DeleteVolumeRequest{VolumeId: "v", Secrets: map[string]string{"passphrase": "hunter2"}}
	return c.Handle(t.Context(), req, &grpc.UnaryServerInfo{FullMethod: "/csi.v1.Controller/" + method}, handler)
}

func TestCalls_codesLogAndMetrics(t *testing.T) {
	for name, c := range map[string]struct {
		method  string
		handler grpc.UnaryHandler
		code    codes.Code
		says    string
		silent  bool
	}{
		"a change": {
			method: "DeleteVolume", handler: func(context.Context, any) (any, error) { return "ok", nil },
			code: codes.OK, says: "Handled call",
		},
		"a look": {
			method: "ListVolumes", handler: func(context.Context, any) (any, error) { return "ok", nil }, code: codes.OK, silent: true,
		},
		"a known error": {
			method: "DeleteVolume", handler: func(context.Context, any) (any, error) { return nil, fmt.Errorf("v: %w", errGone) },
			code: codes.NotFound, says: "v: gone",
		},
		"a status": {
			method: "DeleteVolume", handler: func(context.Context, any) (any, error) { return nil, status.Error(codes.DataLoss, "x") },
			code: codes.DataLoss, says: "Refused call",
		},
		"an unknown error": {
			method: "DeleteVolume", handler: func(context.Context, any) (any, error) { return nil, errors.New("odd") },
			code: codes.Internal, says: "Failed call",
		},
		"a panic": {
			method: "ListVolumes", handler: func(context.Context, any) (any, error) { panic("odd") },
			code: codes.Internal, says: "Recovered from a panic",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			registry := prometheus.NewRegistry()
			calls := &csirpc.Calls{
				Process: "test", Code: csirpc.Table{{Err: errGone, Code: codes.NotFound}}.Code,
				Metrics: csirpc.NewMetrics(registry, "quarry_test", "the test", "d"),
				Log:     funcr.New(func(p, args string) { log.WriteString(p + args + "\n") }, funcr.Options{Verbosity: 1}),
			}
			resp, err := call(t, calls, c.method, c.handler)
			if status.Code(err) != c.code || (resp == "ok") != (err == nil) {
				t.Errorf("%v, %v, want %s", resp, err, c.code)
			}
			if !strings.Contains(log.String(), c.says) || c.silent && log.Len() > 0 {
				t.Errorf("log is %q, want %q", log.String(), c.says)
			}
			if got := counted(t, registry); got != c.code.String()+" d "+c.method {
				t.Errorf("counted %q", got)
			}
		})
	}
}

// counted is the one call that the metrics know.
func counted(t *testing.T, registry *prometheus.Registry) string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			if f.GetName() == "quarry_test_handled_total" && m.GetCounter().GetValue() == 1 {
				found = append(found, strings.Join(labels, " "))
			}
		}
	}
	return strings.Join(found, ",")
}

func TestCalls_logShowsNoSecret(t *testing.T) {
	var log bytes.Buffer
	calls := &csirpc.Calls{Log: funcr.New(func(p, args string) { log.WriteString(p + args) }, funcr.Options{Verbosity: 10})}
	if _, err := call(t, calls, "DeleteVolume", func(context.Context, any) (any, error) { return "ok", nil }); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "volume_id") || strings.Contains(log.String(), "hunter2") {
		t.Errorf("log is %s", log.String())
	}
}

func TestCalls_boundsACallWithoutDeadline(t *testing.T) {
	calls := &csirpc.Calls{Longest: 10 * time.Millisecond}
	_, err := call(t, calls, "DeleteVolume", func(ctx context.Context, _ any) (any, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	if status.Code(err) != codes.DeadlineExceeded {
		t.Error(err)
	}
}
