// Package disks looks at whatever says whose a disk of a node of Kubernetes is. What is made of it is decided in decide/gluster/device.
package disks

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/disk"
	"quarry.storage/quarry/controller/internal/decide/gluster/device"
	"quarry.storage/quarry/controller/internal/decide/gluster/spec"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Agents know what the agents of nodes report.
type Agents interface {
	Node(name string) decide.Node
}

// Look returns what is known of the disks of a node. Nodes are those of Kubernetes with their labels. Live reads from the API server itself: a record that a cache does not have yet
// would be overlooked.
func Look(ctx context.Context, live client.Reader, agents Agents, n *v1alpha1.GlusterNode, nodes map[string]map[string]string, now time.Time) (device.Facts, error) {
	f := device.Facts{Node: n, Host: spec.Host(n, nodes), Now: now}
	if f.Host == "" {
		return f, nil
	}
	f.Labels = nodes[f.Host]
	if agents != nil {
		f.Agent = agents.Node(f.Host)
	}
	var sn v1alpha1.StorageNode
	if err := live.Get(ctx, types.NamespacedName{Name: f.Host}, &sn); client.IgnoreNotFound(err) != nil {
		return f, fmt.Errorf("get storagenode %s: %w", f.Host, err)
	}
	if sn.Spec.Maintenance {
		f.Held = fmt.Sprintf("node %s is under maintenance", f.Host)
	}
	var others v1alpha1.GlusterNodeList
	if err := live.List(ctx, &others); err != nil {
		return f, fmt.Errorf("list glusternodes: %w", err)
	}
	for i := range others.Items {
		if o := &others.Items[i]; o.Namespace != n.Namespace || o.Name != n.Name {
			f.Others = append(f.Others, disk.GivenTo([]v1alpha1.GlusterNode{*o})...)
		}
	}
	var clusters v1alpha1.ClusterList
	if err := live.List(ctx, &clusters); err != nil {
		return f, fmt.Errorf("list clusters: %w", err)
	}
	var members v1alpha1.MemberList
	if err := live.List(ctx, &members); err != nil {
		return f, fmt.Errorf("list members: %w", err)
	}
	f.Clusters, f.Members = clusters.Items, members.Items
	return f, nil
}
