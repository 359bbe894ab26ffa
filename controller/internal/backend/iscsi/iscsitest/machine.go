package iscsitest

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide"
)

// Kubelets is an API server whose Nodes have what the kubelets of the SAN's nodes write to them.
type Kubelets struct {
	client.Reader
	SAN *SAN
}

// Get reads one object.
func (k Kubelets) Get(ctx context.Context, key types.NamespacedName, o client.Object, options ...client.GetOption) error {
	err := k.Reader.Get(ctx, key, o, options...)
	if n, is := o.(*corev1.Node); is && err == nil {
		k.SAN.mu.Lock()
		defer k.SAN.mu.Unlock()
		if known := k.SAN.nodes[key.Name]; known != nil {
			n.Status.NodeInfo.BootID, n.Status.NodeInfo.SystemUUID = known.boot, known.machine
		}
	}
	return err
}

// Boot boots a node: its sessions and devices are gone, its key at the target is not.
func (s *SAN) Boot(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[name]
	n.boot += "+"
	n.agent = decide.AgentUp
	clear(n.sessions)
	clear(n.mapped)
	clear(n.cut)
	clear(n.open)
}

// Replace boots another machine under the name of a node. What the first one has at the target stays. The Node does not tell which machine it is if its name is empty.
func (s *SAN) Replace(name, machine string) {
	s.Boot(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes[name].machine = machine
}
