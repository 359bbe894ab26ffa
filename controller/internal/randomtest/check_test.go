package randomtest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// check says what is wrong with the world. Its name is in what it says.
type check struct {
	name string
	do   func(w *world)
}

// always are the checks after every event, whatever happens at that moment.
var always = []check{
	{"volumes are kept", (*world).volumesKept},
	{"volumes are kept", (*world).snapshotsKept},
	{"retired disks stay out", (*world).retiredStayOut},
	{"foreign disks are unchanged", (*world).foreignUnchanged},
	{"what holds volumes stays", (*world).holdersStay},
}

// whenReported are the checks after every event that count what an agent has reported, once the controller has looked at that.
var whenReported = []check{{"ready follows the report", (*world).readyAsReported}}

// whenCalm are the checks after a while in which everybody could notice what happened.
var whenCalm = []check{{"ready means that volumes are there", (*world).readyIsTrue}, {"a volume that is gone is told", (*world).goneIsTold}}

// whenHealed are the checks a long time after the last fault.
var whenHealed = []check{
	{"claims are served", (*world).claimsServed},
	{"claims are served", (*world).snapshotsServed},
	{"what is deleted goes", (*world).deletedGo},
	{"members with volumes are ready", (*world).membersReady},
	{"strays go", (*world).straysGo},
}

// volumesKept: a volume that somebody was told of is there, as it was made, until its removal was asked for; one that is in use even then.
func (w *world) volumesKept() {
	for _, handle := range sorted(w.ledger) {
		v := w.ledger[handle]
		have, ok := w.record(v.host, handle)
		switch {
		case !ok && v.released && !v.claim.open:
		case !ok && v.forgotten && !v.used:
			// Nobody was ever shown what is on it.
		case !ok:
			w.fail("volumes are kept", "%s is gone (released %t, in use %t, forgotten %t, used %t)", handle, v.released, v.claim.open, v.forgotten, v.used)
		case have.GroupUUID != v.as.GroupUUID || have.Created != v.as.Created:
			w.fail("volumes are kept", "%s is another volume: %+v, was %+v", handle, have, v.as)
		case !have.Whole:
			w.fail("volumes are kept", "%s has lost a part: %+v, was %+v", handle, have, v.as)
		case have.SizeBytes < v.as.SizeBytes:
			w.fail("volumes are kept", "%s has %d bytes, had %d", handle, have.SizeBytes, v.as.SizeBytes)
		}
	}
}

// foreignUnchanged: a disk that is somebody else's has on it what they wrote.
func (w *world) foreignUnchanged() {
	byName := func(a, b spot) int { return strings.Compare(a.host+a.disk, b.host+b.disk) }
	for _, s := range slices.SortedFunc(maps.Keys(w.foreign), byName) {
		f := w.foreign[s]
		if now := w.hostOf(s.host).Written(s.disk); now != f.written {
			w.fail("foreign disks are unchanged", "%s of %s (in use %t) has %s, had %s", s.disk, s.host, f.busy, now, f.written)
		}
	}
}

// holdersStay: the Cluster and the Member of a volume are there as long as it is.
func (w *world) holdersStay() {
	clusters, members := map[string]bool{}, map[string]string{}
	for _, c := range w.clusters() {
		clusters[string(c.UID)] = true
	}
	for _, m := range w.members() {
		if g := m.Spec.Group; g != nil {
			members[string(m.Spec.Node)+" "+string(m.Spec.Of.UID)] = g.UUID
		}
	}
	for _, handle := range sorted(w.ledger) {
		v := w.ledger[handle]
		if v.released || v.forgotten {
			continue
		}
		if !clusters[v.as.OwnerUID] {
			w.fail("what holds volumes stays", "the Cluster of %s is gone", handle)
		}
		if uuid := members[v.host+" "+v.as.OwnerUID]; uuid != v.as.GroupUUID {
			w.fail("what holds volumes stays", "the Member of %s records group %q, it is in %s", handle, uuid, v.as.GroupUUID)
		}
	}
}

// readyIsTrue: a Cluster or Member that says Ready=True has its volumes: their disks are plugged in, and an agent can serve them. A Cluster
// stays ready while a host is away under maintenance: a person said that it may be, and the message names it. The Member does not.
func (w *world) readyIsTrue() {
	ready, away := map[string]bool{}, map[string]bool{}
	for _, c := range w.clusters() {
		ready[string(c.UID)] = meta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ConditionReady)
	}
	for _, m := range w.members() {
		key := string(m.Spec.Node) + " " + string(m.Spec.Of.UID)
		ready[key] = meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.ConditionReady)
		away[key] = len(m.Status.Maintenance) > 0
	}
	for _, handle := range sorted(w.ledger) {
		v := w.ledger[handle]
		have, ok := w.record(v.host, handle)
		if ok && have.Present && w.hostOf(v.host).Alive() || v.released || v.forgotten {
			continue
		}
		key := v.host + " " + v.as.OwnerUID
		if ready[key] || ready[v.as.OwnerUID] && !away[key] {
			w.fail("ready means that volumes are there", "the Member is Ready (%t), the Cluster is (%t), and %s is not there: %+v, agent alive %t",
				ready[key], ready[v.as.OwnerUID], handle, have, w.hostOf(v.host).Alive())
		}
	}
}

// claimsServed: every claim has its volume, or was told why it cannot have one.
func (w *world) claimsServed() {
	for _, c := range w.claims {
		switch {
		case c.deleting && !c.open && (c.handle != "" && !w.split(c) || c.handle == "" && !w.waits(c) && !w.stranded(c)):
			w.fail("claims are served", "%s is deleted, and its volume %s stays: %v", c.name, c.handle, c.refused)
		case w.stranded(c):
		case c.handle == "" && !w.legitimate(c):
			w.fail("claims are served", "%s, a copy of %q on %s, has no volume: %v", c.name, c.from, c.node, c.refused)
		case c.handle != "" && c.wants > c.bytes && !w.retires(c.handle):
			w.fail("claims are served", "%s has %d bytes and wants %d: %v", c.name, c.bytes, c.wants, c.refused)
		}
	}
}

// legitimate reports whether a claim was refused for a good reason: there is no room, or no Cluster.
func (w *world) legitimate(c *claim) bool {
	if apierrors.IsNotFound(c.refused) {
		return true
	}
	switch status.Code(c.refused) {
	case codes.ResourceExhausted, codes.OutOfRange, codes.InvalidArgument:
		return true
	case codes.NotFound:
		return c.from != ""
	case codes.Unavailable:
		return w.waits(c)
	}
	return false
}

// waits reports whether a claim waits for a node that takes nothing new. A copy has to be where its source is, also if that node leaves or does not have the
// group of the source, and waits until somebody lists it again or brings the group back. The provisioner goes on asking for it when its claim is deleted.
func (w *world) waits(c *claim) bool {
	if status.Code(c.refused) != codes.Unavailable {
		return false
	}
	return w.retiring(c.node, c.cluster) || c.from != "" && (w.leaves(c.node, c.cluster) || w.sourceAway(c))
}

// sourceAway reports whether the volume or snapshot that a copy begins as is not on the node that the copy has to be on. It may have been deleted there, which
// nobody can tell of a node without the group: unknown is not absent.
func (w *world) sourceAway(c *claim) bool {
	have, ok := w.record(c.node, c.from)
	return !ok || !have.Present
}

// leaves reports whether a node leaves a Cluster, or has no Member of it any more.
func (w *world) leaves(node, cluster string) bool {
	return !slices.ContainsFunc(w.members(), func(m v1alpha1.Member) bool {
		return string(m.Spec.Node) == node && m.Spec.Of.Name == cluster && m.DeletionTimestamp.IsZero() &&
			!meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.ConditionLeaving)
	})
}

// deletedGo: a Cluster that is deleted goes once it has no volumes, and so does a Member.
func (w *world) deletedGo() {
	for _, left := range w.left() {
		w.fail("what is deleted goes", "%s", left)
	}
}

// left names the Clusters and Members that are deleted and stay without volumes.
func (w *world) left() []string {
	holds, deleting := w.holding(), map[string]bool{}
	var out []string
	for _, c := range w.clusters() {
		deleting[string(c.UID)] = !c.DeletionTimestamp.IsZero()
		if !c.DeletionTimestamp.IsZero() && !holds[string(c.UID)] {
			out = append(out, fmt.Sprintf("Cluster %s: %s", c.Name, shown(&c)))
		}
	}
	for _, m := range w.members() {
		// Of a Cluster that is being deleted nothing is torn down before its last volume is gone.
		held := holds[string(m.Spec.Node)+" "+string(m.Spec.Of.UID)] || deleting[string(m.Spec.Of.UID)] && holds[string(m.Spec.Of.UID)]
		if !m.DeletionTimestamp.IsZero() && !held {
			out = append(out, fmt.Sprintf("Member %s: %s, %+v", m.Name, m.Status.Message, m.Status.Conditions))
		}
	}
	return out
}

// holding returns the owners, and the nodes with their owners, that hold volumes.
func (w *world) holding() map[string]bool {
	holds := map[string]bool{}
	for _, v := range w.ledger {
		holds[v.as.OwnerUID], holds[v.host+" "+v.as.OwnerUID] = true, true
	}
	for _, s := range w.snapshots {
		holds[s.as.OwnerUID], holds[s.host+" "+s.as.OwnerUID] = true, true
	}
	for _, h := range w.hosts {
		for _, r := range h.Records() {
			if slices.Contains(w.orphans, r.Name) {
				holds[r.OwnerUID], holds[h.name+" "+r.OwnerUID] = true, true
			}
		}
	}
	return holds
}

// straysGo: a claim that has its volume has it once, wherever earlier calls made one.
func (w *world) straysGo() {
	for _, handle := range sorted(w.ledger) {
		name := handle[strings.LastIndex(handle, "/")+1:]
		for _, h := range w.hosts {
			for _, r := range h.Records() {
				if r.Name == name && r.ID != handle && r.Present && strings.HasPrefix(r.ID, h.name+"/") && w.member(h.name, r.OwnerUID) {
					w.fail("strays go", "%s has %s, and %s is still there", w.ledger[handle].claim.name, handle, r.ID)
				}
			}
		}
	}
}

// member reports whether a Cluster has a Member on a node.
func (w *world) member(node, owner string) bool {
	return slices.ContainsFunc(w.members(), func(m v1alpha1.Member) bool {
		return string(m.Spec.Node) == node && string(m.Spec.Of.UID) == owner
	})
}

// membersReady: a member whose group exists is ready, unless it leaves, or its plan waits for a person.
func (w *world) membersReady() {
	for _, m := range w.members() {
		leaves := !m.DeletionTimestamp.IsZero() || meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.ConditionLeaving)
		waits := m.Status.Plan != nil && !m.Status.Plan.Approved
		recorded := m.Spec.Group != nil && m.Spec.Group.UUID != ""
		if recorded && !w.isAway(m.Spec.Group.UUID, string(m.Spec.Node)) && !leaves && !waits && !meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.ConditionReady) {
			w.fail("members with volumes are ready", "Member %s: %s, %+v", m.Name, m.Status.Message, m.Status.Conditions)
		}
	}
}

// healed is how long everything may take to be well again: hosts that leave wait for 5 minutes, work that failed often for 2.
const healed = 12 * time.Minute

// converge ends all faults, and looks whether all is well again after a while, and stays as it is then.
func (w *world) converge(r *rand.Rand) {
	w.heal()
	w.run(healed, r)
	if w.bury() {
		w.run(healed, r)
	}
	if len(w.left()) > 0 {
		// A group that was removed by an agent that died then may be on any disk that cannot be understood. A person is told to clean it.
		for _, s := range w.spots(func(h *host, d string) bool { return w.given(h, d) }) {
			w.clean(s)
		}
		w.run(healed, r)
	}
	if w.restored > 0 {
		w.inspect(always, whenCalm)
		return
	}
	w.inspect(always, whenCalm, whenHealed)
	w.leftGroups()
	before, unserved := w.api.version, len(w.unserved())
	w.run(3*time.Minute, r)
	if n := w.api.version - before; n > 0 && len(w.unserved()) == unserved {
		w.fail("nothing is written while nothing changes", "%d writes: %s", n, w.written(n))
	}
}

// unserved are the claims that are still worked on.
func (w *world) unserved() []*claim {
	return w.claimsThat(func(c *claim) bool { return c.handle == "" || c.deleting || c.wants > c.bytes })
}

// written names the objects of the last writes.
func (w *world) written(n int) string {
	var out []string
	for _, ch := range w.api.changes[max(0, len(w.api.changes)-n):] {
		o := ch.after
		if o == nil {
			o = ch.before
		}
		out = append(out, fmt.Sprintf("%s %s", ch.kind, o.GetName()))
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), ", ")
}

// inspect runs checks.
func (w *world) inspect(lists ...[]check) {
	for _, list := range lists {
		for _, c := range list {
			c.do(w)
		}
	}
}
