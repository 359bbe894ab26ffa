package iscsi

import (
	"cmp"
	"fmt"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/writer"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedlun"
)

func (h host) reservation() *v1alpha1.MemberReservation {
	if h.m.Object == nil {
		return nil
	}
	return h.m.Object.Spec.Reservation
}

// keys decides about the node's right to write: it gets one key for each boot, which is on record before it is registered, and gets none while it has
// volumes mapped.
func (h host) keys(l sharedlun.Lun) ([]backend.Step, backend.Finding) {
	r, reading := h.reservation(), h.view.seen.Reading
	switch {
	case h.m.Object == nil:
		return nil, backend.Finding{}
	case !reading.Known:
		return nil, h.unread()
	case h.view.rec.Reserves && !reading.Keys.Supported:
		return nil, bad(v1alpha1.ReasonReservationsGone,
			"the target had persistent reservations, and says now that it has none: nothing is changed until it has them again")
	case !h.view.occupied().IsZero():
		return nil, h.view.occupied()
	case r == nil || r.BootID != h.BootID:
		return h.grant(r)
	}
	return h.key(l, r)
}

// key decides about the key that the node has on record for its boot.
func (h host) key(l sharedlun.Lun, r *v1alpha1.MemberReservation) ([]backend.Step, backend.Finding) {
	held, has := h.view.held(), h.view.registered(h.m.Object)
	switch {
	case r.Fenced:
		return nil, bad(v1alpha1.ReasonFenced, "was fenced, and was not booted since: boot it, and it gets another key")
	case r.Unfenced:
		return h.exchange(), backend.Finding{}
	case has && !covers(h.RegisteredPaths, l) && !covers(r.Paths, l):
		return h.register(l, "Paths to the LUN came back: the key has to be on all of them."), backend.Finding{}
	case has && held:
		return nil, backend.Finding{}
	case has && h.view.mayReserve(h.m.Node):
		return h.register(l, "Nobody has reserved the LUN, and whoever has volumes mapped has its key."), backend.Finding{}
	case has:
		return nil, h.unreserved()
	case !h.unmapped() && (held || !h.view.ownOnly(h.m.Node)):
		return nil, bad(v1alpha1.ReasonKeyLost, "its key is not registered on the LUN any more, and "+h.mapped()+
			": whatever took the key off may have given volumes to another node. Drain or boot the node, and it gets its key back")
	}
	return h.enroll(l), backend.Finding{}
}

// enroll has the node register the key that it was granted; by approval, if the LUN has another one for it.
func (h host) enroll(l sharedlun.Lun) []backend.Step {
	if h.OtherKey && h.view.foreign() > 0 {
		return []backend.Step{h.replaceKey(l)}
	}
	return h.register(l, "The key is granted and not registered.")
}

// writes reports whether the key of the node is registered, on the paths that were there.
func (h host) writes() bool {
	r := h.reservation()
	return r != nil && r.BootID == h.BootID && !r.Fenced && (r.Unfenced || h.view.held() && h.view.registered(h.m.Object))
}

// unread says that the LUN could not be read. It passes by itself, or the condition of the LUN tells of it.
func (h host) unread() backend.Finding {
	if h.serves() {
		return backend.Finding{}
	}
	return backend.Finding{
		Kind: backend.Busy, Reason: v1alpha1.ReasonPreparing, Message: "is logged in, and its LUN is being read: " +
			backend.Sentence(h.view.seen.Reading.Problem, "that was not done yet"),
	}
}

// unmapped reports whether the node is known to have no device of the group's volumes. Before there is a group there are none.
func (h host) unmapped() bool {
	return len(h.Mappings) == 0 && (h.Mapped || h.view.rec.group == "")
}

// mapped says what the node has mapped, as far as that is known.
func (h host) mapped() string {
	if !h.Mapped {
		return "it is not known which volumes are mapped there"
	}
	return fmt.Sprintf("%d volumes are mapped there", len(h.Mappings))
}

// grant gives the node a key for its boot.
func (h host) grant(r *v1alpha1.MemberReservation) ([]backend.Step, backend.Finding) {
	if !h.unmapped() {
		// After a boot nothing is mapped: somebody else mapped it, or it is not known.
		return nil, bad(v1alpha1.ReasonMappedWithoutKey, "has no key for this boot, and "+h.mapped()+": drain the node, or boot it")
	}
	if missing := h.view.unsighted(); len(missing) > 0 {
		return nil, backend.Finding{
			Kind: backend.Busy, Reason: v1alpha1.ReasonPending, Message: "sees the LUN, and gets its key once every initiator sees it. Missing: " + backend.Shorten(missing, maxNamed),
		}
	}
	s := h.step(v1alpha1.ActionGrantKey, "The node sees the LUN, and has no key for this boot.")
	s.Target, s.BootID, s.Initiator = h.view.target, h.BootID, h.Initiator.Name
	// With one key the LUN would be reserved, and shut out whoever was let in without.
	s.RecordOnly = !h.view.seen.Reading.Keys.Supported || h.view.unfenced() && !h.view.switches()
	if r != nil {
		s.Key, s.Again = r.Key, h.serves() && s.RecordOnly == r.Unfenced
		if why := h.view.stranger(h.m.Object); why != "" {
			return h.grantStranger(s, why)
		}
	}
	steps := []backend.Step{s}
	if !s.RecordOnly {
		l, _ := h.view.lunOn(h.m.Node)
		steps = append(steps, h.register(l, "The key is granted and not registered.")...)
	}
	return steps, backend.Finding{}
}

// grantStranger gives a key to a node that may be another machine than before, by approval: where no key tells, the earlier one could write to what this one gets, or read what it says is unused.
func (h host) grantStranger(s Step, why string) ([]backend.Step, backend.Finding) {
	if h.MachineLate {
		return nil, backend.Finding{Kind: backend.Busy, Reason: v1alpha1.ReasonPending, Message: "gets its key for this boot once its Node tells of that boot which machine is in it (status.nodeInfo)"}
	}
	s.Vouched, s.Why = true, "Node "+h.m.Node+" may be another machine than the one that its last key was granted to: "+why+"."
	s.Consent = "Whoever approves vouches that every other machine that had the name of node " + h.m.Node + " is off, or was booted without it."
	return []backend.Step{s}, backend.Finding{}
}

// recordMachine puts on record which machine has the key of this boot, once that is known.
func (h host) recordMachine(r *v1alpha1.MemberReservation) []backend.Step {
	if r == nil || r.Machine != "" || h.Machine == "" || r.BootID != h.BootID {
		return nil
	}
	s := h.step(v1alpha1.ActionRecordMachine, "The Node says by now which machine has the key.")
	s.BootID, s.Key, s.Again = h.BootID, r.Key, true
	return []backend.Step{s}
}

func (h host) register(l sharedlun.Lun, why string) []backend.Step {
	return []backend.Step{h.registration(l, why)}
}

// replaceKey has the node register its key in place of one that the LUN has for it and no Member has on record, by approval. The target lets it replace nobody's but its
// own, so that nobody loses anything. It is all that helps where every node has such a key, as after a restore of the API server to before each of them was booted: none
// could preempt another one's.
func (h host) replaceKey(l sharedlun.Lun) Step {
	s := h.registration(l, "")
	for _, key := range h.view.foreignKeys() {
		s.Keys = append(s.Keys, sharedlun.FormatKey(key))
	}
	s.Why = fmt.Sprintf("The LUN has a key for this node that no Member has on record. It is one of these, and is replaced; the others stay: %s.", backend.Shorten(s.Keys, maxKeys))
	s.Consent = "Whoever approves vouches that no other machine has the name of the initiator of node " + h.m.Node + ", " + h.Initiator.Name + "."
	return s
}

func (h host) registration(l sharedlun.Lun, why string) Step {
	s := h.step(v1alpha1.ActionRegisterKey, why)
	s.Again = h.serves()
	s.BootID, s.Paths, s.Reserve, s.Own = h.BootID, paths(l), h.view.mayReserve(h.m.Node), len(h.Mappings) > 0 || !h.view.held() && len(h.view.heldBy(h.m.Node)) > 0
	return s
}

// usable reports whether a node may change the group now, maintenance aside, by what is on record, and by what was read last of the LUN.
func (v *View) usable(name string) bool {
	m, h := v.members[name], v.seen.Hosts[name]
	if m == nil || m.Spec.Reservation == nil || !h.Reads() {
		return false
	}
	if _, f := v.lunOn(name); !f.IsZero() {
		return false
	}
	r := m.Spec.Reservation
	s := writer.Standing{
		Answers: r.BootID == h.BootID && (m.DeletionTimestamp.IsZero() || v.deleting()), Admitted: r.Unfenced || v.held() && v.registered(m), Fenced: r.Fenced,
	}
	return s.MayChange()
}

// worker returns the node that steps of the whole run on: the one that the LUN was read through last, which is the writer as long as it reads; or else the writer, or
// the first that may change the group; empty when none may. One under maintenance, or that leaves, runs none.
func (v *View) worker(hosts []backend.HostHealth, except string) string {
	var writer, first string
	for _, h := range hosts {
		if h.Node == except || h.Flags.ShouldQuiesce() && !h.Flags.ShouldDestroy() || !v.usable(h.Node) {
			continue
		}
		switch h.Node {
		case v.seen.Reading.Via:
			return h.Node
		case v.seen.Record.Writer:
			writer = h.Node
		}
		first = cmp.Or(first, h.Node)
	}
	return cmp.Or(writer, first)
}

// occupied refuses to grant keys for a LUN that is somebody else's: with a key a node could write to it. A person gives up what is on it by spec.wipe, and not who
// uses it.
func (v *View) occupied() backend.Finding {
	r, ref := v.seen.Reading, v.LUN()
	switch {
	case !r.Known || v.rec.group != "" || v.rec.Forming != "" || r.Contents.Group != nil:
		return backend.Finding{}
	case !v.used().IsZero():
		return v.used()
	case r.Contents.Content != "" && (ref == nil || v.seen.Iscsi.Spec.Wipe != ref.WWID):
		return bad(v1alpha1.ReasonLunNotEmpty, "sees the LUN, and gets no key: something is on it")
	case v.foreign() > 0:
		return bad(v1alpha1.ReasonForeignKeys, fmt.Sprintf(
			"sees the LUN, and gets no key: %d keys are registered on it that no Member has on record, so that somebody else may use it", v.foreign()))
	}
	return backend.Finding{}
}

// stays says why a node cannot leave yet; see farewell.
func (h host) stays(recorded, keyed bool) backend.Finding {
	if recorded && h.view.detained(h.m.Node) {
		return bad(v1alpha1.ReasonPending, "may still make a change of the volume group: it leaves once that is settled, which the next change of the group does")
	}
	if !keyed {
		return backend.Finding{}
	}
	if f := h.lastWriter(); !f.IsZero() {
		return f
	}
	if f := h.sweeps(); !f.IsZero() {
		return f
	}
	if reading := h.view.seen.Reading; !h.view.removed() && reading.Known && reading.Keys.Supported && !reading.Keys.Held() && len(h.view.waiting(h.m.Node)) > 0 {
		// Whoever leaves sees to it that the LUN stays reserved for the others.
		return h.unreserved()
	}
	return backend.Finding{}
}

// alone reports whether the node is the last one of an Iscsi that ends, answers in a boot without a key that is registered, and could not take keys of earlier boots off: no path of it has
// them any more, and no other node can preempt them.
func (h host) alone() bool {
	r := h.reservation()
	if !h.view.removed() || r == nil || r.Fenced || r.Unfenced || !h.Reads() || !h.view.lingers(h.m.Object) || h.view.sweeper() != "" {
		return false
	}
	return len(h.view.before(h.m.Node)) > 0
}

// readmit gives a node that leaves a key for its boot, with which it can take the keys of its earlier ones off by approval, as another node would. Nothing of ours is on the LUN that it could write to
// by that, or a person gave it up.
func (h host) readmit() ([]backend.Step, backend.Finding) {
	l, f := h.view.lunOn(h.m.Node)
	if !f.IsZero() {
		return nil, f
	}
	if r := h.reservation(); r.BootID != h.BootID {
		return h.grant(r)
	}
	return h.register(l, "Keys of earlier boots of the node are on the LUN, and no other node is there to take them off."), backend.Finding{}
}

// lastWriter keeps the key of the last node that may write while the Iscsi stays: nobody could read and change the group without it.
func (h host) lastWriter() backend.Finding {
	if h.view.deleting() || h.view.rec.group == "" {
		return backend.Finding{}
	}
	for _, name := range h.view.names() {
		if name != h.m.Node && h.view.usable(name) {
			return backend.Finding{}
		}
	}
	return bad(v1alpha1.ReasonPending, "is the last node that may write to the LUN: its key is taken off once another initiator has one")
}

// sweeps keeps the node that takes the keys of silent ones off the LUN until that is done.
func (h host) sweeps() backend.Finding {
	names := h.view.stranded()
	if len(names) == 0 || h.view.sweeper() != h.m.Node {
		return backend.Finding{}
	}
	text := "leaves once the keys of these nodes are off the LUN, which do not answer: " + backend.Shorten(names, maxNamed)
	if h.view.givenUp() {
		text += fmt.Sprintf(". Of each that is off, taint its Node with %s, or approve the plan if Kubernetes does not know it any more; to leave its key on the LUN, declare its Member lost",
			v1alpha1.TaintOutOfService)
	}
	return bad(v1alpha1.ReasonPending, text)
}
