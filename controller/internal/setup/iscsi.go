package setup

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"time"

	"quarry.storage/quarry/controller/internal/agents"
	"quarry.storage/quarry/controller/internal/agents/shared"
	"quarry.storage/quarry/controller/internal/backend/iscsi"
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/san"
	"quarry.storage/quarry/controller/internal/san/fleet"
)

// lunAgents makes the calls about shared LUNs, and knows how the connections are.
type lunAgents struct{ shared.Calls }

// Node returns what is known about a node.
func (a lunAgents) Node(name string) decide.Node { return a.Pool.Node(name) }

// sharedLuns makes the backend of shared LUNs.
func sharedLuns(m clients, pool *agents.Pool, namespace string) *iscsi.Backend {
	calls := lunAgents{shared.Calls{Pool: pool}}
	leases := san.KubernetesLeases{Client: direct{m.GetClient(), m.GetAPIReader()}, Namespace: namespace, Now: time.Now}
	groups := san.New(san.Config{
		Self: "engine/" + hex.EncodeToString(random(8)), Nodes: calls.Calls, Maker: calls.Calls,
		Fleet: fleet.Fleet{Live: m.GetAPIReader(), Reader: m.GetClient(), Agents: pool}, Leases: leases,
	})
	return iscsi.New(iscsi.Config{
		Agents: calls, Groups: groups, Records: leases, Client: m.GetClient(), Live: m.GetAPIReader(), Namespace: namespace, Now: time.Now,
		Random: func() uint64 { return binary.BigEndian.Uint64(random(8)) },
	})
}

// random returns random bytes. Go's own source never fails: it ends the process instead.
func random(n int) []byte {
	out := make([]byte, n)
	_, _ = rand.Read(out)
	return out
}
