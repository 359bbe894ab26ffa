package randomtest

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	"quarry.storage/quarry/agent/agenttest"
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/systemid"
)

// moved is a group whose disks are in another node than they were.
type moved struct {
	agenttest.Group
	at, home *host
}

// moveGroup takes all disks of a group, with what is on them, to another node. Whoever does that ends the pods first.
func (w *world) moveGroup(r *rand.Rand) {
	var all []moved
	for _, h := range w.hosts {
		for _, g := range h.Groups() {
			for _, to := range w.hosts {
				if to != h && w.movable(h, to, g.Name) {
					all = append(all, moved{g, to, h})
				}
			}
		}
	}
	m, ok := pick(r, all)
	if !ok {
		return
	}
	w.carry(m.home, m.at, m.Group)
	if r.IntN(2) == 0 {
		w.list(m.OwnerUID, m.at.name)
	}
}

// list has a Cluster take a node, as who replaces a machine does. It offers to make the moved group that node's then.
func (w *world) list(uid, node string) {
	for _, c := range w.clusters() {
		if string(c.UID) == uid && c.Spec.HostSelector == nil && !slices.Contains(c.Spec.Hosts, v1alpha1.HostName(node)) {
			w.change(&c, func(s *v1alpha1.ClusterSpec) { s.Hosts = append(s.Hosts, v1alpha1.HostName(node)) })
		}
	}
}

// movable reports whether a group is there as a whole, unused, and the other node has none of its name.
func (w *world) movable(h, to *host, name string) bool {
	named := func(g agenttest.Group) bool { return g.Name == name }
	i := slices.IndexFunc(h.Groups(), named)
	if i < 0 || slices.ContainsFunc(to.Groups(), named) {
		return false
	}
	if h.Groups()[i].Missing > 0 {
		// The model carries whole groups.
		return false
	}
	if w.lost[h.Groups()[i].UUID] {
		// What is gone for ever is nowhere else either.
		return false
	}
	busy := func(d string) bool { return w.foreign[spot{h.name, d}].busy || !h.Plugged(d) }
	if slices.ContainsFunc(h.Groups()[i].Disks, busy) {
		return false
	}
	return !slices.ContainsFunc(h.Records(), func(r agenttest.Record) bool { return r.Group == name && r.Open })
}

func (w *world) carry(h, to *host, g agenttest.Group) {
	w.carried++
	h.MoveAs(to.Host, func(d string) string {
		as := fmt.Sprintf("sd%c%c", 'a'+to.added/26, 'a'+to.added%26)
		to.added++
		if f, ok := w.foreign[spot{h.name, d}]; ok {
			delete(w.foreign, spot{h.name, d})
			w.foreign[spot{to.name, as}] = f
		}
		return as
	}, g.Disks...)
	for at, f := range w.foreign {
		// A group's state is a part of what is written, and none of its volumes is active where it has just come to.
		if at.host == to.name && !f.busy && slices.Contains(w.disksOf(to, g.Name), at.disk) {
			w.foreign[at] = foreign{written: to.Written(at.disk)}
		}
	}
}

func (w *world) disksOf(h *host, group string) []string {
	for _, g := range h.Groups() {
		if g.Name == group {
			return g.Disks
		}
	}
	return nil
}

// away returns the groups that name another node than the one that their disks are in. An approval makes them that node's.
func (w *world) away() []moved {
	var out []moved
	for _, at := range w.hosts {
		for _, g := range at.Groups() {
			for _, home := range w.hosts {
				if home != at && g.SystemID == systemid.Of(home.name) {
					out = append(out, moved{g, at, home})
				}
			}
		}
	}
	return out
}

// bringBack takes a group to the node that it names, unless that has another one of its name by now.
func (w *world) bringBack(m moved) {
	if w.movable(m.at, m.home, m.Name) {
		w.carry(m.at, m.home, m.Group)
	}
}

// isAway reports whether a group is in another node than that one.
func (w *world) isAway(uuid, node string) bool {
	return slices.ContainsFunc(w.hosts, func(h *host) bool {
		return h.name != node && slices.ContainsFunc(h.Groups(), func(g agenttest.Group) bool { return g.UUID == uuid })
	})
}

// split reports whether the disks of a claim's group are in two nodes: one of before was left where the others were. They are not brought back to it, and what it
// does not know of is not said to be deleted.
func (w *world) split(c *claim) bool {
	v := w.ledger[c.handle]
	if v == nil || !w.isAway(v.as.GroupUUID, v.host) {
		return false
	}
	return slices.ContainsFunc(w.hostOf(v.host).Groups(), func(g agenttest.Group) bool { return g.UUID == v.as.GroupUUID })
}

// stranded reports whether the group that a claim is in, or would be made in, is on another node for good. Nothing grows there, and nothing is
// made on the node that it left: its Member records a group that is not there.
func (w *world) stranded(c *claim) bool {
	if v := w.ledger[c.handle]; v != nil {
		return !c.deleting && w.isAway(v.as.GroupUUID, v.host)
	}
	return slices.ContainsFunc(w.members(), func(m v1alpha1.Member) bool {
		return string(m.Spec.Node) == c.node && m.Spec.Of.Name == c.cluster && m.Spec.Group != nil && w.isAway(m.Spec.Group.UUID, c.node)
	})
}

// readyAsReported: once an agent has reported that a group of volumes is not there or lacks a disk, and the controller has looked at that, neither the
// Member nor the Cluster says Ready=True. Nobody has to wait for that until all is calm.
func (w *world) readyAsReported() {
	if !w.ctl.settled() {
		return
	}
	members := w.members()
	for _, handle := range sorted(w.ledger) {
		v := w.ledger[handle]
		n := w.ctl.pool.Node(v.host)
		if v.released || v.forgotten || !n.Up() || whole(n, v.as) {
			continue
		}
		for _, m := range members {
			ready := meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.ConditionReady)
			if ready && string(m.Spec.Node) == v.host && string(m.Spec.Of.UID) == v.as.OwnerUID {
				w.fail("ready follows the report", "the agent reported that the group of %s is not whole, and Member %s is Ready: %+v", handle, m.Name, n.Groups)
			}
		}
	}
}

// whole reports whether a node has reported the group of a volume, with no disk missing.
func whole(n decide.Node, v agenttest.Record) bool {
	return slices.ContainsFunc(n.Groups, func(g decide.Group) bool { return g.UUID == v.GroupUUID && !g.Partial })
}

// imports counts the groups that hold a volume, and that another node than the one that it was made on was given.
func (w *world) imports() int {
	given := map[string]bool{}
	for _, v := range w.ledger {
		for _, h := range w.hosts {
			for _, g := range h.Groups() {
				if h.name != v.host && g.UUID == v.as.GroupUUID && g.SystemID == systemid.Of(h.name) {
					given[g.UUID] = true
				}
			}
		}
	}
	return len(given)
}
