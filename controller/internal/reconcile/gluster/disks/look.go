// Package disks looks at whatever says whose a disk of a node of Kubernetes is, and writes records of disks. What is made of it is decided in decide/gluster/device.
package disks

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/disk"
	"quarry.storage/quarry/controller/internal/decide/gluster/device"
	"quarry.storage/quarry/controller/internal/decide/gluster/spec"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Agents know what the agents of nodes report.
type Agents interface {
	Node(name string) decide.Node
	// Ask asks the agent of a node for its devices at this moment.
	Ask(ctx context.Context, name string) (decide.Node, error)
	// Inspect has the agent of a node look at one device at this moment: it opens the device exclusively, and looks for users.
	Inspect(ctx context.Context, name string, d decide.Device) (decide.Device, error)
}

// Subject is a GlusterNode with disks of a node of Kubernetes, and what the pass knows of it.
type Subject struct {
	Node *v1alpha1.GlusterNode
	// Nodes are those of Kubernetes with their labels.
	Nodes map[string]map[string]string
	// Registered: glusterd2 has all disks of the node. Which Clusters choose them is not asked then, as a disk that serves is not given up for a wish.
	Registered bool
	// Absent are the disks that glusterd2 is known not to have.
	Absent map[v1alpha1.DevicePath]bool
	// Held says why the node gets no other disk now; empty when nothing keeps it.
	Held string
	Pod  device.Pod
	// Seen is since when this process knows of records.
	Seen map[v1alpha1.DevicePath]time.Time
	// Missing is since when this process has seen without a break that a disk was not there.
	Missing map[v1alpha1.DevicePath]time.Time
	// Tried is when this process last told glusterd2 of a disk in vain.
	Tried map[v1alpha1.DevicePath]time.Time
}

// agent returns what the agent of a node reports; ask has it look at this moment, as its last report may be of before. One that does not answer then is not heard.
func (k Keeper) agent(ctx context.Context, host string, ask bool) decide.Node {
	if k.Agents == nil {
		return decide.Node{}
	}
	n := k.Agents.Node(host)
	if !ask || !n.Up() {
		return n
	}
	now, err := k.Agents.Ask(ctx, host)
	if err != nil {
		n.Agent, n.Problem = decide.AgentUnreachable, err.Error()
		return n
	}
	return now
}

// inspect has the agent look at devices, all at the same time, and puts what it sees in place of what it reported. A device that it could not look at is one that could not be read.
func (k Keeper) inspect(ctx context.Context, f *device.Facts, looks []device.Look) {
	if f.Looked == nil {
		f.Looked = map[v1alpha1.DevicePath]bool{}
	}
	devices, looking := slices.Clone(f.Agent.Devices), map[int]bool{}
	var all sync.WaitGroup
	for _, l := range looks {
		f.Looked[l.Device] = true
		// Looks that began before write to the copy.
		i := slices.IndexFunc(f.Agent.Devices, func(d decide.Device) bool { return d.Is(l.Path) })
		if i < 0 || !f.Agent.Up() || looking[i] {
			// What is not there, or not heard, is refused for that. Two names of one disk have one look.
			continue
		}
		looking[i] = true
		d, seen := f.Agent.Devices[i], &devices[i]
		all.Go(func() {
			now, err := k.Agents.Inspect(ctx, f.Host, d)
			if err != nil {
				now = d
				now.Digest = ""
				now.Refusals = append(slices.Clone(d.Refusals), v1alpha1.Refusal{Reason: v1alpha1.RefusalUnreadable, Message: fmt.Sprintf("The agent could not look at it at this moment: %s.", err)})
			}
			*seen = now
		})
	}
	all.Wait()
	f.Agent.Devices = devices
}

// look returns what is known of the disks of a node. The Members of all nodes of Kubernetes are looked at, as another one may have a disk that was here. ask: r is the API server, and the agent says how things
// are at this moment; otherwise it is a cache.
func (k Keeper) look(ctx context.Context, r client.Reader, s Subject, ask bool) (device.Facts, error) {
	f := device.Facts{Node: s.Node, Host: spec.Host(s.Node, s.Nodes), Held: s.Held, Registered: s.Registered, Absent: s.Absent, Pod: s.Pod, Seen: s.Seen, Missing: s.Missing, Tried: s.Tried, Now: k.Now(), Live: ask}
	if f.Host == "" {
		return f, nil
	}
	f.Labels = s.Nodes[f.Host]
	f.Agent = k.agent(ctx, f.Host, ask)
	var sn v1alpha1.StorageNode
	if err := r.Get(ctx, types.NamespacedName{Name: f.Host}, &sn); client.IgnoreNotFound(err) != nil {
		return f, fmt.Errorf("get storagenode %s: %w", f.Host, err)
	}
	if sn.Spec.Maintenance && f.Held == "" {
		f.Held = fmt.Sprintf("node %s is under maintenance", f.Host)
	}
	others, err := kube.ListGlusterNodes(ctx, r)
	if err != nil {
		return f, err
	}
	for _, o := range others {
		if o.Namespace != s.Node.Namespace || o.Name != s.Node.Name {
			f.Others = append(f.Others, disk.RecordsOf([]v1alpha1.GlusterNode{o})...)
		}
	}
	var all v1alpha1.MemberList
	if err := r.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return f, fmt.Errorf("list members: %w", err)
	}
	f.Members = all.Items
	if s.Registered {
		return f, nil
	}
	var clusters v1alpha1.ClusterList
	if err := r.List(ctx, &clusters); err != nil {
		return f, fmt.Errorf("list clusters: %w", err)
	}
	f.Clusters = clusters.Items
	return f, nil
}
