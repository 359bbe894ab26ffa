package ceph

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/ceph/osdrecord"
	"quarry.storage/quarry/controller/internal/decide/ceph/preflight"
	"quarry.storage/quarry/controller/internal/decide/ceph/view"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/osd"
)

// inspectAgain is how long what was said of a disk stands while the agent reports nothing new of it.
const inspectAgain = time.Minute

// inspecting bounds the look at all disks: those of one host that hang take no time from what else is looked at.
const inspecting = 8 * time.Second

// inspect has the agents say what the disks on record are. Of one that nobody can look at nothing is known.
func (b *Backend) inspect(ctx context.Context, c *v1alpha1.Cluster, members []*v1alpha1.Member, nodes map[string]decide.Node, k *known) map[string]osd.Verdict {
	ctx, cancel := context.WithTimeout(ctx, inspecting)
	defer cancel()
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

// inspectUnrecorded has the agents say what those disks are that may carry OSDs which are on no record, and adds that to an observation. It reports whether there are any: nearly always there is none.
func (b *Backend) inspectUnrecorded(ctx context.Context, c *v1alpha1.Cluster, v *view.View, k *known, o *view.Observation) (more bool, err error) {
	found, suspects := v.Unrecorded(), v.Suspects()
	if len(found)+len(suspects) == 0 {
		return false, nil
	}
	// The View has the maps of before.
	o.Verdicts, o.Keyless, o.Suspected = maps.Clone(o.Verdicts), maps.Clone(o.Keyless), map[string]osd.Verdict{}
	if err := b.keyless(ctx, c, found, o.Keyless); err != nil {
		return true, err
	}
	ctx, cancel := context.WithTimeout(ctx, inspecting)
	defer cancel()
	var mu sync.Mutex
	var all sync.WaitGroup
	for name, node := range o.Nodes {
		all.Go(func() {
			said, suspected := map[string]osd.Verdict{}, map[string]osd.Verdict{}
			for _, u := range suspects {
				// Of one that cannot be looked at nothing is said: it may be ours.
				if u.Node != name {
					continue
				}
				if v, err := b.look(ctx, c, node.Name, u.Device, u.Record, u.Key(), k); err == nil {
					suspected[u.Key()] = v
				}
			}
			for _, u := range found {
				if u.Node != name {
					continue
				}
				if v, ok := b.inspectOne(ctx, c, node, u.Record, k); ok {
					said[u.Record.UUID] = v
				}
			}
			mu.Lock()
			defer mu.Unlock()
			maps.Copy(o.Verdicts, said)
			maps.Copy(o.Suspected, suspected)
		})
	}
	all.Wait()
	return true, nil
}

// keyless says of the encrypted among some disks what the Secrets with their keys lack.
func (b *Backend) keyless(ctx context.Context, c *v1alpha1.Cluster, found []osdrecord.Unrecorded, lacks map[string]string) error {
	found = slices.DeleteFunc(slices.Clone(found), func(u osdrecord.Unrecorded) bool { return !u.Record.Encrypted })
	if len(found) == 0 {
		return nil
	}
	all, err := b.diskSecrets(ctx, view.Step{Cluster: c.Name, FSID: c.FSID()})
	if err != nil {
		return err
	}
	for _, u := range found {
		if _, err := secretOf(all, c.FSID(), u.Record.UUID); err != nil {
			lacks[u.Record.UUID] = err.Error()
		}
	}
	return nil
}

// unseen is the time between two looks after which nobody can say that a disk was missing all the while.
const unseen = 5 * time.Minute

// missing says since when disks on record are missing. What is not seen to be missing now, or a host that booted again, ends that.
func (b *Backend) missing(members []*v1alpha1.Member, nodes map[string]decide.Node, k *known) map[string]time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	was := k.missing
	k.missing = map[string]absence{}
	out := map[string]time.Time{}
	for _, m := range members {
		node := nodes[string(m.Spec.Node)]
		if m.Spec.Ceph == nil || !node.Up() || node.BootID == "" {
			continue
		}
		for _, r := range m.Spec.Ceph.OSDs {
			if _, there := osdrecord.Device(node, r); there {
				continue
			}
			a, known := was[r.UUID]
			now := b.Now()
			if !known || a.boot != node.BootID || now.Sub(a.last) > unseen {
				a = absence{boot: node.BootID, since: now}
			}
			a.last = now
			k.missing[r.UUID], out[r.UUID] = a, a.since
		}
	}
	return out
}

// inspectOne has the agent say what a disk is, if it tells of one. Of a disk that it cannot look at nothing is known but why.
func (b *Backend) inspectOne(ctx context.Context, c *v1alpha1.Cluster, node decide.Node, r v1alpha1.MemberOSD, k *known) (osd.Verdict, bool) {
	d, there := osdrecord.Device(node, r)
	if !there {
		return osd.Verdict{}, false
	}
	v, err := b.look(ctx, c, node.Name, d, r, r.UUID, k)
	if err != nil {
		return osd.Verdict{Message: "It cannot be looked at: " + err.Error()}, true
	}
	return v, true
}

// look has the agent of a node look at a disk, which is this very device even if another one has its serial number, unless what it said of it is young. It is remembered under a key.
func (b *Backend) look(ctx context.Context, c *v1alpha1.Cluster, node string, d decide.Device, r v1alpha1.MemberOSD, key string, k *known) (osd.Verdict, error) {
	k.mu.Lock()
	had, known := k.verdicts[key]
	k.mu.Unlock()
	// One that is open as another device is opened anew by a pod, of which the agent reports nothing.
	if known && !had.Stale && had.digest == d.Digest && b.Now().Sub(had.at) < inspectAgain {
		return had.Verdict, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	v, err := b.Disks.Inspect(ctx, node, d, OSD{ClusterUID: c.FSID(), UUID: r.UUID, FSID: c.FSID(), ID: -1, Encrypted: r.Encrypted})
	if err != nil {
		return osd.Verdict{}, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.verdicts[key] = judged{v, d.Digest, b.Now()}
	return v, nil
}

// The clocks of nodes are read again after lookAgain while something is under way, and after calmAgain while nothing is: they matter to what is to be begun.
const (
	lookAgain = time.Minute
	calmAgain = 10 * time.Minute
)

// clocks has the agents say how the clocks of their nodes go. Of a node whose agent does not answer nothing is known.
func (b *Backend) clocks(ctx context.Context, k *known, quiet bool, o *view.Observation) {
	age := lookAgain
	if quiet {
		age = calmAgain
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	for name := range maps.Clone(o.Machines) {
		if !o.Nodes[name].Up() {
			continue
		}
		all.Go(func() {
			c, err := b.clock(ctx, name, k, age)
			mu.Lock()
			defer mu.Unlock()
			m := o.Machines[name]
			if err != nil {
				m.Problem = backend.Cut(err.Error(), 256)
			} else {
				m.Clock = &c
			}
			o.Machines[name] = m
		})
	}
	all.Wait()
}

func (b *Backend) clock(ctx context.Context, node string, k *known, age time.Duration) (preflight.Clock, error) {
	k.mu.Lock()
	had, known := k.clocks[node]
	k.mu.Unlock()
	if known && b.Now().Sub(had.at) < age {
		return had.Clock, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	c, err := b.Disks.Clock(ctx, node)
	if err != nil {
		return c, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.clocks[node] = clock{c, b.Now()}
	return c, nil
}
