package iscsi

import (
	"fmt"
	"slices"
	"time"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
	"quarry.storage/quarry/pkg/sharedlun"
)

// View is one observation of a shared LUN, and the decisions on it.
type View struct {
	seen    Observation
	rec     record
	target  sharedlun.Target
	members map[string]*v1alpha1.Member
	// rival is the name of another Iscsi that has the same target, and comes first; empty when there is none.
	rival string
	// taken is the name of another Iscsi whose members have the LUN on record; empty when there is none.
	taken string
	// leaving are the volumes that are being taken from their nodes, or are to be, by UUID, and since when that is seen.
	leaving map[string]time.Time
	// late are the nodes that answer and may not write, while keys of earlier boots of them are on the LUN, and since when that is seen.
	late map[string]time.Time
	// open is since when it is seen that nobody has reserved the LUN; zero while somebody has.
	open time.Time
	// asked are the steps of the whole that need a person who vouches, as the last decision had them: of this look, or of the one before.
	asked []Step
}

var _ backend.View = (*View)(nil)

// NewView returns the view of an observation. last is the view before; nil when there was none.
func NewView(o Observation, last *View) *View {
	v := &View{
		seen: o, rec: recordOf(o.World), target: TargetOf(o.Iscsi), rival: rival(o.Iscsi, o.World), members: map[string]*v1alpha1.Member{},
		leaving: map[string]time.Time{}, late: map[string]time.Time{},
	}
	owner := backend.OwnerOf(o.Iscsi)
	for _, m := range o.World.Members {
		node := string(m.Spec.Node)
		v.members[node] = owner.Prefer(v.members[node], m)
	}
	v.taken = v.takenBy()
	if !v.held() {
		v.open = o.Reading.Good
		if last != nil && !last.open.IsZero() {
			v.open = last.open
		}
	}
	v.since(last)
	if last != nil {
		v.asked = last.asked
	}
	return v
}

// since takes over since when things are seen that have to last before anything is done.
func (v *View) since(last *View) {
	for _, volume := range v.volumes() {
		if volume.Leaving || v.unattached(volume) {
			v.leaving[volume.UUID] = v.seen.Now
		}
	}
	for _, name := range v.names() {
		if !v.usable(name) && len(v.before(name)) > 0 {
			v.late[name] = v.seen.Now
		}
	}
	if last != nil {
		carry(v.leaving, last.leaving)
		carry(v.late, last.late)
	}
}

// Seen returns what the view was made of.
func (v *View) Seen() Observation { return v.seen }

// Fenced reports whether the target has reservations on record: one without is not believed then.
func (v *View) Fenced() bool { return v.rec.Reserves }

// LUN returns the identity of the LUN: the recorded one, or the one that all initiators that see one agree on. It is nil before that, and while they see different
// ones.
func (v *View) LUN() *sharedlun.Identity {
	if v.rec.Lun != nil {
		return v.rec.Lun
	}
	seen := v.sights()
	if len(seen) != 1 {
		return nil
	}
	return &seen[0].lun
}

// Ref names the group. Its UUID is empty before the group is on record.
func (v *View) Ref() (ref sharedlun.Ref, known bool) {
	ref = sharedlun.Ref{OwnerUID: string(v.seen.Iscsi.UID), UUID: v.rec.group}
	lun := v.LUN()
	if lun != nil {
		ref.Lun = *lun
	}
	return ref, lun != nil
}

// Through returns the nodes that the LUN can be read through: the writer first.
func (v *View) Through() []string {
	var out []string
	for _, name := range v.names() {
		if _, f := v.lunOn(name); !f.IsZero() || !v.seen.Hosts[name].Reads() {
			continue
		}
		if name == v.seen.Record.Writer {
			out = slices.Insert(out, 0, name)
		} else {
			out = append(out, name)
		}
	}
	return out
}

// names are the nodes that were looked at, ordered.
func (v *View) names() []string {
	out := make([]string, 0, len(v.seen.Hosts))
	for name := range v.seen.Hosts {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// volumes of the group, as far as it is known and the recorded one.
func (v *View) volumes() []sharedlun.Volume {
	g := v.group()
	if g == nil {
		return nil
	}
	return g.Volumes
}

// group returns the group on the LUN, if it is known, and is the recorded one or will be.
func (v *View) group() *sharedlun.Group {
	g := v.seen.Reading.Group()
	if g == nil || g.OwnerUID != string(v.seen.Iscsi.UID) || v.rec.group != "" && g.UUID != v.rec.group {
		return nil
	}
	return g
}

// heldBy names the volumes that a node has by the tags on the LUN. Once a person gave the LUN up as it is nobody takes them off any more.
func (v *View) heldBy(node string) []string {
	if v.givenUp() {
		return nil
	}
	var out []string
	for _, volume := range v.volumes() {
		if volume.HeldBy == node {
			out = append(out, volume.Name)
		}
	}
	return out
}

// zeroing tells of the volumes of a node that are not ready to their ends, with how much of each is: a part becomes ready once it was zeroed. Of a copy that the node makes it tells how much
// the LUN says to be there: another node would go on from there.
func (v *View) zeroing(node string) []string {
	var out []string
	for _, volume := range v.volumes() {
		switch {
		case volume.HeldBy != node || !volume.Unready():
		case volume.Copying():
			out = append(out, fmt.Sprintf("%s, copied from %s: %s of %s", volume.Name, volume.Origin.Name, decide.Bytes(volume.CopiedBytes), decide.Bytes(volume.SizeBytes)))
		default:
			out = append(out, fmt.Sprintf("%s: %s of %s", volume.Name, decide.Bytes(volume.ReadyBytes), decide.Bytes(volume.SizeBytes)))
		}
	}
	return out
}

// Hosts returns the hosts that have a session with the target, or devices of the group's volumes, or a key, or that something waits for.
func (v *View) Hosts() []string {
	var out []string
	for _, name := range v.names() {
		h, m := v.seen.Hosts[name], v.members[name]
		keyed := m != nil && m.Spec.Reservation != nil && !m.Spec.Reservation.Fenced
		if h.Asked() && (h.LoggedIn() && v.rival == "" || len(h.Mappings) > 0) || keyed || len(v.heldBy(name)) > 0 || v.detained(name) {
			out = append(out, name)
		}
	}
	return out
}

// Facts returns what is known about a host.
func (v *View) Facts(host string) backend.Facts {
	h, known := v.seen.Hosts[host]
	if !known {
		return backend.Facts{TooEarly: true, Problem: "the agent was not asked yet"}
	}
	held, m := v.heldBy(host), v.members[host]
	f := backend.Facts{
		Up: h.Agent == decide.AgentUp, TooEarly: h.Agent == decide.AgentConnecting, Data: v.data(h, host), Holding: held,
		Recorded: h.Reads() || len(h.Mappings) > 0, Unsure: h.Agent == decide.AgentUp && !h.Asked(),
	}
	if backend.Lost(m) && !f.Up && !v.keyless(m) {
		f.Holding = append(f.Holding, "the key of the node on the LUN, which is taken off when the node is fenced")
	}
	f.Missing = h.Agent == decide.AgentMissing && len(held) == 0 && v.keyless(m) && !v.detained(host)
	switch h.Agent {
	case decide.AgentMissing:
		f.Reason, f.Problem = v1alpha1.ReasonAgentMissing, backend.Sentence(h.Problem, "no agent runs on this node")
	case decide.AgentUnreachable:
		f.Reason, f.Problem = v1alpha1.ReasonAgentUnreachable, backend.Sentence(h.Problem, "the agent does not answer")
	}
	if f.Problem != "" && fenced(m) {
		f.Reason, f.Problem = v1alpha1.ReasonFenced, "is fenced, so that it cannot write to the LUN; booted, it gets another key. Its agent is away: "+f.Problem
	}
	return f
}

// data says what is known about volumes on a host. While the Iscsi is being deleted, the group itself is what its members hold.
func (v *View) data(h Host, host string) nodestate.Data {
	switch {
	case len(h.Mappings) > 0, len(v.heldBy(host)) > 0:
		return nodestate.DataPresent
	case v.free(h):
		return nodestate.DataAbsent
	case v.deleting() && !v.removed() && (v.rec.group != "" || v.rec.Forming != "" || v.group() != nil):
		return nodestate.DataPresent
	case v.group() != nil && (h.Asked() && h.Mapped || h.Agent != decide.AgentUp):
		return nodestate.DataAbsent
	}
	return nodestate.DataUnknown
}

// free reports whether it is known that there is nothing that a host could hold, whatever the group says.
func (v *View) free(h Host) bool {
	switch {
	case v.untouched() && v.rival != "":
		return true
	case v.removed():
		return h.Asked() && (h.Mapped || !h.LoggedIn())
	}
	return h.Asked() && (v.blank() || v.untouched() && !h.LoggedIn())
}
