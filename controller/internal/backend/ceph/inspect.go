package ceph

import (
	"context"
	"sync"
	"time"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/ceph/view"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/osd"
)

// inspectAgain is how long what was said of a disk stands while the agent reports nothing new of it.
const inspectAgain = time.Minute

// inspect has the agents say what the disks on record are. Of one that nobody can look at nothing is known.
func (b *Backend) inspect(ctx context.Context, c *v1alpha1.Cluster, members []*v1alpha1.Member, nodes map[string]decide.Node, k *known) map[string]osd.Verdict {
	out := map[string]osd.Verdict{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, m := range members {
		node := nodes[string(m.Spec.Node)]
		if m.Spec.Ceph == nil || !node.Up() {
			continue
		}
		all.Go(func() {
			for _, r := range m.Spec.Ceph.OSDs {
				if v, ok := b.inspectOne(ctx, c, node, r, k); ok {
					mu.Lock()
					out[r.UUID] = v
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	return out
}

func (b *Backend) inspectOne(ctx context.Context, c *v1alpha1.Cluster, node decide.Node, r v1alpha1.MemberOSD, k *known) (osd.Verdict, bool) {
	d, there := view.Device(node, r)
	if !there {
		return osd.Verdict{}, false
	}
	k.mu.Lock()
	had, known := k.verdicts[r.UUID]
	k.mu.Unlock()
	if known && had.digest == d.Digest && b.Now().Sub(had.at) < inspectAgain {
		return had.Verdict, true
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	v, err := b.Disks.Inspect(ctx, node.Name, d, OSD{ClusterUID: string(c.UID), UUID: r.UUID, FSID: string(c.UID), ID: -1})
	if err != nil {
		return osd.Verdict{Message: "It cannot be looked at: " + err.Error()}, true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.verdicts[r.UUID] = judged{v, d.Digest, b.Now()}
	return v, true
}
