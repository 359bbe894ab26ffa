package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"maps"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"quarry.storage/quarry/agent/internal/server/access"
	"quarry.storage/quarry/agent/internal/server/sharedgroup"
)

// from is the context of a call with a verified certificate of that common name.
func from(ctx context.Context, commonName string) context.Context {
	leaf := &x509.Certificate{Subject: pkix.Name{CommonName: commonName}}
	state := tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{leaf}}}
	return peer.NewContext(ctx, &peer.Peer{AuthInfo: credentials.TLSInfo{State: state}})
}

// TestAccess_isComplete: whoever adds a method says who may call it, and nothing is left behind of one that is gone.
func TestAccess_isComplete(t *testing.T) {
	s := &Server{cfg: Config{Shares: noShares{}, SharedGroups: noGroups{}, Log: logr.Discard()}, metrics: newMetrics(nil)}
	served := map[string]bool{}
	s.cfg.Luns = noLuns{}
	for service, info := range s.newGRPC(&tls.Config{}).GetServiceInfo() {
		for _, m := range info.Methods {
			served["/"+service+"/"+m.Name] = true
		}
	}
	for _, method := range slices.Sorted(maps.Keys(served)) {
		if !slices.Contains(access.Methods(), method) {
			t.Errorf("%s is not in the table of package access: say who may call it", method)
		}
	}
	for _, method := range access.Methods() {
		if !served[method] {
			t.Errorf("%s is in the table of package access and not served", method)
		}
	}
}

// noShares and noGroups make the server serve the methods of shares and of shared groups.
type (
	noShares struct{ SharedDirectories }
	noGroups struct{ sharedgroup.Groups }
)
