package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"quarry.storage/quarry/pkg/quarry"
)

func fromController(ctx context.Context) context.Context {
	leaf := &x509.Certificate{Subject: pkix.Name{CommonName: quarry.ControllerCommonName}}
	state := tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{leaf}}}
	return peer.NewContext(ctx, &peer.Peer{AuthInfo: credentials.TLSInfo{State: state}})
}

func TestGuard_panicIsInternal(t *testing.T) {
	var logged strings.Builder
	registry := prometheus.NewRegistry()
	g := guard{log: funcr.New(func(_, args string) { logged.WriteString(args) }, funcr.Options{}), metrics: newMetrics(registry)}
	info := &grpc.UnaryServerInfo{FullMethod: "/x/Panic"}
	_, err := g.unary(fromController(t.Context()), nil, info, func(context.Context, any) (any, error) { panic("boom") })
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
	info := &grpc.UnaryServerInfo{FullMethod: "/x/Y"}
	_, err := g.unary(fromController(t.Context()), nil, info, func(ctx context.Context, _ any) (any, error) {
		if at, ok := ctx.Deadline(); !ok || time.Until(at) > defaultDeadline {
			t.Errorf("deadline %v, %t", at, ok)
		}
		return nil, nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAuthorize_withoutTLS(t *testing.T) {
	for name, ctx := range map[string]context.Context{
		"no peer":     t.Context(),
		"no TLS":      peer.NewContext(t.Context(), &peer.Peer{}),
		"no verified": peer.NewContext(t.Context(), &peer.Peer{AuthInfo: credentials.TLSInfo{}}),
	} {
		if err := authorize(ctx); status.Code(err) != codes.Unauthenticated {
			t.Errorf("%s: %v", name, err)
		}
	}
}
