package iscsi

import (
	"fmt"
	"slices"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/iscsi/recorded"
	"quarry.storage/quarry/controller/internal/decide/writer"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedlun"
)

// fence takes the key of a node off that a person says is off, and that something waits for.
func (v *View) fence(hosts []backend.HostHealth) []backend.Step {
	var out []backend.Step
	for _, h := range hosts {
		m := h.Object
		if m == nil || !v.fences(m) {
			continue
		}
		// Nobody can take the step while no node works: that it is needed is known all the same, and what a person vouched for stands.
		if s := v.fenceNode(v.worker(hosts, h.Node), m); s.Runs != "" || s.Vouched {
			out = append(out, s)
		}
	}
	return out
}

// fences reports whether the key of a member has to be taken off, and may be. That of one that is fenced goes again if it is on the LUN: a command to register it
// came late.
func (v *View) fences(m *v1alpha1.Member) bool {
	node, r := string(m.Spec.Node), m.Spec.Reservation
	if r == nil {
		// Nothing is known of it: without a record nobody could say that it is fenced.
		return v.off(node) && v.awaits(node) && v.rec.group != ""
	}
	if r.Fenced && r.Registering == "" && v.hasKeyOf(r) {
		return true
	}
	if v.gone() && slices.Contains(v.stranded(), node) {
		return true
	}
	if r.Fenced && r.Registering == "" || !v.off(node) {
		return false
	}
	return v.awaits(node) || !m.DeletionTimestamp.IsZero() || backend.Lost(m)
}

// hasKeyOf reports whether a key that a member has on record is on the LUN.
func (v *View) hasKeyOf(r *v1alpha1.MemberReservation) bool {
	return v.seen.Reading.Known && !r.Unfenced && (v.seen.Reading.Keys.Has(keyOf(r.Key)) || len(v.earlier(r)) > 0)
}

// earlier are the keys of earlier boots of a member that are on the LUN.
func (v *View) earlier(r *v1alpha1.MemberReservation) []string {
	var out []string
	for _, text := range r.Previous {
		if v.seen.Reading.Known && v.seen.Reading.Keys.Has(keyOf(text)) {
			out = append(out, text)
		}
	}
	return out
}

// before are the keys of boots before the one that a node reports which are on the LUN. Of one that does not answer, or is fenced, there are none that matter.
func (v *View) before(node string) []string {
	m, h := v.members[node], v.seen.Hosts[node]
	if m == nil || m.Spec.Reservation == nil || m.Spec.Reservation.Fenced || !h.Up() {
		return nil
	}
	r := m.Spec.Reservation
	out := v.earlier(r)
	if r.BootID != h.BootID && v.registered(m) {
		out = append(out, r.Key)
	}
	return out
}

// fenceCounts reports whether the fence of a node counts by what was read last, as the node via would judge it. The turn in which a volume is taken from it looks
// again; a step that it would refuse keeps those after it from being taken, among them the one that ends the doubt.
func (v *View) fenceCounts(node, via string) bool {
	m, by := v.members[node], v.members[via]
	if m == nil || m.Spec.Reservation == nil || !m.Spec.Reservation.Fenced || by == nil || by.Spec.Reservation == nil || !v.seen.Reading.Known {
		return false
	}
	return writer.Doubt(node, v.records(), recordOfKey(via, by.Spec.Reservation).Key, v.seen.Reading.Keys) == ""
}

// believed reports whether what a node says counts by what was read last: no key of an earlier boot of it is on the LUN, and none that is no member's. The turn in
// which that is used looks again.
func (v *View) believed(node string) bool {
	if v.foreign() > 0 {
		return false
	}
	m := v.members[node]
	if m == nil || m.Spec.Reservation == nil {
		return true
	}
	r := m.Spec.Reservation
	return v.stranger(m) == "" && len(v.earlier(r)) == 0 && (r.BootID == v.seen.Hosts[node].BootID || !v.hasKeyOf(r))
}

// exists reports whether Kubernetes knows a node.
func (v *View) exists(node string) bool { return v.seen.World.Nodes[node].Exists }

// fenceNode is the step that takes the key of a node off. Where no key proves that the node cannot write, a person vouches that it is off.
func (v *View) fenceNode(via string, m *v1alpha1.Member) Step {
	node, r := string(m.Spec.Node), m.Spec.Reservation
	s := v.step(via, v1alpha1.ActionFenceNode, "Node "+node+" is tainted as out of service, and its volumes wait for it.")
	if r == nil {
		s.Victim, s.Member, s.RecordOnly, s.Vouched = node, m.Name, !v.rec.Reserves, true
		s.Why = "Node " + node + " has volumes, or may still change the volume group, and no key of it is on record, as after a restore of the API server."
		s.Consent = vouchesOff(node)
		return s
	}
	s.Victim, s.Key, s.Member, s.RecordOnly = node, r.Key, m.Name, r.Unfenced
	switch {
	case r.Fenced && r.Registering == "":
		s.Again, s.Why = true, "Node "+node+" is fenced, and a key of it came back to the LUN."
	case v.gone():
		s.GroupGone, s.Why = true, "The volume group is gone with the Iscsi. Node "+node+" does not answer: its key is taken off, so that others can use the LUN."
	case r.Unfenced:
		s.Vouched, s.Why = true, "Node "+node+" is silent, its volumes wait for it, and the target keeps no reservations by which it could be kept from writing."
		s.Consent = vouchesOff(node)
	case r.Registering != "":
		s.Vouched, s.Why = true, "Node "+node+" did not answer when it was asked to register its key, so that the key may come back once it is taken off."
		s.Consent = vouchesOff(node)
	case !v.exists(node):
		s.Vouched, s.Why = true, "Kubernetes does not know node "+node+" any more."
		s.Consent = vouchesOff(node)
	}
	return s
}

// vouchesOff is what a person vouches for by approving that a node is fenced of which no key tells whether it writes.
func vouchesOff(node string) string {
	return "Whoever approves vouches that node " + node + " is off, and stays off until it was booted."
}

// awaits reports whether something cannot go on without a node: a change that it may still make, or a volume that it has.
func (v *View) awaits(node string) bool { return v.seen.Record.Names(node) || len(v.heldBy(node)) > 0 }

// detained reports whether a node has to stay a member: the record of the group waits for it, and without its key and its Member it could be neither asked nor
// fenced. Once the group is gone with the Iscsi, nothing waits.
func (v *View) detained(node string) bool {
	return v.seen.Record.Names(node) && (!v.deleting() || !v.groupless())
}

// preemptKeys takes the keys off that no Member has, by approval. As long as one of them is there no fence counts: it may be that of any node.
func (v *View) preemptKeys(hosts []backend.HostHealth) []backend.Step {
	foreign := v.foreignKeys()
	if len(foreign) == 0 || v.rec.group == "" {
		return nil
	}
	s := v.step(v.worker(hosts, ""), v1alpha1.ActionPreemptKeys, "")
	for _, key := range foreign {
		s.Keys = append(s.Keys, sharedlun.FormatKey(key))
	}
	s.Why = fmt.Sprintf("Keys that no Member has on record are on the LUN, so that no fence counts and no node's word: %s.", backend.Shorten(s.Keys, maxKeys))
	s.Consent = "Whoever approves vouches that nobody but the nodes of this Iscsi uses the LUN. A node that writes with one of the keys that are taken off, as after a restore of the " +
		"API server, cannot write until it is booted."
	return []backend.Step{s}
}

// preemptEarlier takes the keys of earlier boots of a node off that stay on the LUN, if something waits for the node's word, which does not count before, or if the node is to leave. It needs an
// approval where another machine that had the node's name may have such a key.
func (v *View) preemptEarlier(hosts []backend.HostHealth) []backend.Step {
	var out []backend.Step
	for _, h := range hosts {
		m, keys := h.Object, v.before(h.Node)
		if m == nil || len(keys) == 0 {
			continue
		}
		why := v.outlived(m)
		if why == "" {
			continue
		}
		now := v.seen.Hosts[h.Node]
		step := func(keys []string) Step {
			s := v.step(v.worker(hosts, ""), v1alpha1.ActionPreemptKeys, why+": "+backend.Shorten(keys, maxKeys)+".")
			s.Victim, s.Member, s.Keys, s.BootID = h.Node, m.Name, keys, now.BootID
			return s
		}
		ended, open := recorded.Ended(m, v.everyone(), keys, now.BootID, now.Machine)
		if s := step(ended); len(ended) > 0 && s.Runs != "" {
			s.Proven, s.Again = true, !v.lingers(m)
			s.Why += " They were granted to the machine that the node is, for boots of it that are over."
			out = append(out, s)
		}
		if len(open) > 0 {
			s := step(open)
			s.Consent = "Whoever approves vouches that no other machine with the name of node " + h.Node + " uses the LUN."
			out = append(out, s)
		}
	}
	return out
}

// outlived says why a person is asked about the keys of earlier boots of a node; empty as long as nobody is. A node that was booted gets time to register its new key
// first, which replaces them.
func (v *View) outlived(m *v1alpha1.Member) string {
	node := string(m.Spec.Node)
	switch {
	case v.lingers(m):
		return "Keys of earlier boots of node " + node + " are on the LUN still, so that it cannot leave"
	case !slices.Contains(v.seen.Record.Pending, node) && len(v.heldBy(node)) == 0:
	case v.usable(node):
		return "Keys of earlier boots of node " + node + " are on the LUN still, so that it does not count what the node says"
	case v.seen.Now.Sub(v.late[node]) >= bootFor:
		return "Node " + node + " was booted and gets no key, and keys of its earlier boots are on the LUN, so that it does not count what the node says"
	}
	return ""
}

// lingers reports whether a member has been leaving for long, and answers: it could not take keys of earlier boots off by itself.
func (v *View) lingers(m *v1alpha1.Member) bool {
	return !m.DeletionTimestamp.IsZero() && v.seen.Now.Sub(m.DeletionTimestamp.Time) >= bootFor && (!v.deleting() || v.groupless())
}

// stand keeps, of the steps of the look before that need a person who vouches, those that nobody can take now, or of which this look cannot say whether they are needed still: what a person vouched
// for stands meanwhile. While no node works only a fence is offered that was not before: what else helps then is another plan.
func (v *View) stand(steps []backend.Step) []backend.Step {
	has := func(s backend.Step) func(backend.Step) bool {
		return func(n backend.Step) bool { return n.Digest() == s.Digest() }
	}
	steps = slices.DeleteFunc(steps, func(s backend.Step) bool {
		return s.Vouches() && s.Later() && s.Action() != v1alpha1.ActionFenceNode && !slices.ContainsFunc(v.asked, func(a Step) bool { return has(s)(a) })
	})
	for _, s := range v.asked {
		if v.unsaid(s) && !slices.ContainsFunc(steps, has(s)) {
			s.Runs = ""
			steps = append(steps, s)
		}
	}
	v.asked = nil
	for _, one := range steps {
		if s, ok := one.(Step); ok && s.Vouches() {
			v.asked = append(v.asked, s)
		}
	}
	return steps
}

// unsaid reports whether a look cannot say that a step is not needed any more: the LUN was not read, or its node could not tell what it was asked, and what else is known speaks for the step.
func (v *View) unsaid(s Step) bool {
	h, m, unread := v.seen.Hosts[s.Victim], v.members[s.Victim], !v.seen.Reading.Known
	switch {
	case s.Victim == "":
		return unread
	case s.Does == v1alpha1.ActionForgetReaders:
		return unread && v.away(s.Victim)
	case s.Does == v1alpha1.ActionFenceNode:
		return unread && m != nil && v.off(s.Victim) && unfenced(m.Spec.Reservation, s.Key)
	}
	// Keys of earlier boots: the node tells in which one it is.
	return h.Agent == decide.AgentUp && (!h.Asked() || unread && h.BootID == s.BootID)
}

// unfenced reports whether a fence of the key on record, or of none, is not done yet.
func unfenced(r *v1alpha1.MemberReservation, key string) bool {
	if r == nil {
		return key == ""
	}
	return r.Key == key && (!r.Fenced || r.Registering != "")
}
