package iscsitest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

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
		k.SAN.tell(n)
	}
	return err
}

// List reads all objects of a kind.
func (k Kubelets) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := k.Reader.List(ctx, list, options...)
	if nodes, are := list.(*corev1.NodeList); are && err == nil {
		for i := range nodes.Items {
			k.SAN.tell(&nodes.Items[i])
		}
	}
	return err
}

// tell writes to a Node what its kubelet does, if it is one of the SAN's nodes.
func (s *SAN) tell(n *corev1.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.nodes[n.Name]; known != nil {
		n.Status.NodeInfo.BootID, n.Status.NodeInfo.SystemUUID = known.boot, known.machine
	}
}

// Machine is the systemUUID of a machine of a name.
func Machine(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:16])
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

// Replace boots another machine under the name of a node. What the first one has at the target stays. The Node tells its systemUUID, as Machine has it, or nothing if that is empty.
func (s *SAN) Replace(name, machine string) {
	s.Boot(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes[name].machine = machine
}
