package gluster

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/gluster/workload"
	servers "quarry.storage/quarry/controller/internal/gluster"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// greeter says who it is, or hangs. It can be asked for nothing else.
type greeter struct {
	servers.API
	peer string
	hang bool
}

func (g greeter) Identify(ctx context.Context) (servers.Identity, error) {
	if g.hang {
		<-ctx.Done()
		return servers.Identity{}, ctx.Err()
	}
	return servers.Identity{Peer: g.peer}, nil
}

// TestGreet_manyHang: seventy servers hang, and the others are greeted all the same.
func TestGreet_manyHang(t *testing.T) {
	t.Parallel()
	s := &scope{}
	known := map[string]greeter{}
	for i := range 80 {
		n := &v1alpha1.GlusterNode{ObjectMeta: metav1.ObjectMeta{Namespace: "here", Name: fmt.Sprintf("n%02d", i)}}
		n.Spec.Cluster, n.Spec.Peer = "pool", fmt.Sprintf("peer-%02d", i)
		known[workload.ClientAddress(n)] = greeter{peer: n.Spec.Peer, hang: i < 70}
		s.members = append(s.members, &member{node: n})
	}
	s.at = func(address string) (servers.API, error) { return known[address], nil }
	s.greet(t.Context())
	for i, m := range s.members {
		if m.itself() != (i >= 70) {
			t.Errorf("%s: %q", m.node.Name, m.says.Peer)
		}
	}
}
