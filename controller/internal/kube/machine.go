package kube

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Machine returns which machine is in a boot of a node, as status.nodeInfo of the Node has it; empty when the Node does not say, or is gone. late is true while the Node tells of another
// boot: its kubelet writes what it found after it has started, so that until then the Node may tell of an earlier machine of the name. live reads from the API server itself.
func Machine(ctx context.Context, live client.Reader, node, bootID string) (machine string, late bool, err error) {
	var n corev1.Node
	err = live.Get(ctx, types.NamespacedName{Name: node}, &n)
	if apierrors.IsNotFound(err) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("get node %s: %w", node, err)
	}
	info := n.Status.NodeInfo
	if bootID == "" || info.BootID != bootID {
		return "", info.BootID != "", nil
	}
	return info.SystemUUID, false, nil
}

// Machines returns the systemUUIDs of all Nodes, by name.
func Machines(ctx context.Context, r client.Reader) (map[string]string, error) {
	var nodes corev1.NodeList
	// Nothing here changes what a cache has.
	if err := r.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	out := make(map[string]string, len(nodes.Items))
	for i := range nodes.Items {
		out[nodes.Items[i].Name] = nodes.Items[i].Status.NodeInfo.SystemUUID
	}
	return out, nil
}
