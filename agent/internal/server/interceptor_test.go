package server

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"quarry.storage/quarry/pkg/quarry"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

func TestGuard_panicIsInternal(t *testing.T) {
	var logged strings.Builder
	registry := prometheus.NewRegistry()
	g := guard{log: funcr.New(func(_, args string) { logged.WriteString(args) }, funcr.Options{}), metrics: newMetrics(registry)}
	info := &grpc.UnaryServerInfo{FullMethod: agentv1.NodeService_GetNode_FullMethodName}
	_, err := g.unary(from(t.Context(), quarry.ControllerCommonName), nil, info, func(context.Context, any) (any, error) { panic("boom") })
	if status.Code(err) != codes.Internal || strings.Contains(status.Convert(err).Message(), "boom") {
		t.Errorf("error %v", err)
	}
	if !strings.Contains(logged.String(), "boom") || !strings.Contains(logged.String(), "interceptor_test.go") {
		t.Errorf("log without the stack: %s", logged.String())
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counted := false
	for _, f := range families {
		counted = counted || f.GetName() == "quarry_agent_grpc_handled_total" && f.GetMetric()[0].GetCounter().GetValue() == 1
	}
	if !counted {
		t.Error("the call was not counted")
	}
}

func TestGuard_setsDeadline(t *testing.T) {
	g := guard{log: funcr.New(func(string, string) {}, funcr.Options{}), metrics: newMetrics(nil)}
	info := &grpc.UnaryServerInfo{FullMethod: agentv1.NodeService_GetNode_FullMethodName}
	_, err := g.unary(from(t.Context(), quarry.ControllerCommonName), nil, info, func(ctx context.Context, _ any) (any, error) {
		if at, ok := ctx.Deadline(); !ok || time.Until(at) > defaultDeadline {
			t.Errorf("deadline %v, %t", at, ok)
		}
		return nil, nil
	})
	if err != nil {
		t.Error(err)
	}
}
