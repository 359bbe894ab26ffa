package lvm

import (
	"slices"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/disk"
	"quarry.storage/quarry/controller/internal/decide/lvm/retire"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

// host is all that the decision about one host is made on.
type host struct {
	view *View
	m    backend.Member
	node decide.Node
	// groups of the Cluster on the host, the recorded one first; lost are those of members that were declared lost.
	groups, lostGroups []decide.Group
}

func (v *View) host(m backend.Member) host {
	h := host{view: v, m: m, node: v.seen.Nodes[m.Node]}
	h.groups, h.lostGroups = v.groups(m.Node)
	slices.SortStableFunc(h.groups, func(a, b decide.Group) int { return h.rank(a) - h.rank(b) })
	return h
}

// rank orders groups: the recorded one, then the one of the name that the spec says.
func (h host) rank(g decide.Group) int {
	switch {
	case slices.Contains(h.recorded(), g.UUID):
		return 0
	case g.Name == h.view.own.spec.Group:
		return 1
	}
	return 2
}

// Decide returns what is to be done on a host.
func (v *View) Decide(m backend.Member) backend.Host {
	h := v.host(m)
	out := backend.Host{Serves: h.serves()}
	h.measure(&out)
	out.Retired, out.GivenUp = h.retirement().Condition, h.earlierAway()
	if !h.node.Up() {
		out.Record = h.remembered()
		return out
	}
	switch {
	case h.node.LVMError != "":
		out.Finding = bad(v1alpha1.ReasonStepFailed, "LVM cannot be run: "+h.node.LVMError)
	case !h.known():
		out.Finding = h.unreported()
	case m.Flags.ShouldDestroy():
		h.decideRemoval(&out)
	default:
		h.decideStay(&out)
	}
	switch {
	case m.Lost && h.unsure():
		out.Finding = bad(v1alpha1.ReasonLost, "is declared lost, but its agent answers and does not say for sure that the recorded group is not there ("+
			doubt(h.node)+"): the word is not taken until it does, but will be once the agent is silent. Empty spec.lost of the Member, unless that is meant")
	case m.Lost && h.reportsRecorded():
		out.Finding = bad(v1alpha1.ReasonLost, "is declared lost, but its agent reports the recorded "+list(h.groups[:1])+": the word is not taken as long as it does, but will be once the agent is silent. Empty spec.lost of the Member, unless that is meant")
	}
	return out
}

// decideRemoval tears down what is left on a host without volumes.
func (h host) decideRemoval(out *backend.Host) {
	if out.Finding = h.borrowed(); out.Finding.IsZero() {
		out.Finding = h.scattered()
	}
	if out.Finding.IsZero() {
		out.Finding = h.hidden()
	}
	if !out.Finding.IsZero() || h.m.State != nodestate.Abandoned || len(h.m.Volumes) > 0 || len(holding(h.groups)) > 0 {
		return
	}
	todo := h.work(disk.Choice{}).remove()
	if len(todo) == 0 {
		return
	}
	if out.Finding = h.shadowed(); out.Finding.IsZero() {
		out.Steps = steps(todo)
	}
}

// decideStay brings a host that stays to what the spec says.
func (h host) decideStay(out *backend.Host) {
	s := h.agreement()
	moved, gone := h.moved(), h.vanished()
	out.Record = s.record
	for _, f := range []backend.Finding{s.finding, h.shadowed(), h.partial(), h.damaged(), h.stale(), h.unfinished(), moved, h.shared(), gone, h.unusable()} {
		if out.Finding.IsZero() {
			out.Finding = f
		}
	}
	if h.m.Invalid != nil || !h.view.own.wants(h.view.node(h.m.Node)) {
		return
	}
	if s.finding.IsZero() && (gone.IsZero() || h.lacksDevice()) && h.shadowed().IsZero() && (moved.IsZero() || len(h.groups) > 0) {
		h.grow(out)
	}
	if !h.m.Frozen {
		out.Steps = append(out.Steps, steps(h.comes(s.finding))...)
	}
}

// comes returns the steps by which the host comes to have a group that is there, when what is recorded does not agree with what is seen.
func (h host) comes(f backend.Finding) []Step {
	var out []Step
	if f.IsZero() || f.Reason == v1alpha1.ReasonVolumeGroupLost {
		out = h.imports()
	}
	if !f.IsZero() {
		out = append(out, h.adopts()...)
	}
	return out
}

// grow chooses devices and decides the steps.
func (h host) grow(out *backend.Host) {
	choice := disk.Select(h.selection())
	out.Wake, out.Unread = choice.Wake, choice.Unread
	given := h.retirement()
	todo := append(h.stamp(), h.work(choice).grow()...)
	if !slices.ContainsFunc(todo, func(s Step) bool { return s.Does == v1alpha1.ActionReduceVolumeGroup }) {
		todo = append(todo, h.work(choice).retire(given)...)
	}
	if repair := h.repair(); len(repair) > 0 {
		// A damaged pool does not grow.
		todo = append(without(todo, v1alpha1.ActionEnsureThinPool), repair...)
	}
	if h.lacksDevice() {
		todo, out.Wake = h.forget()
	}
	if !h.unfinished().IsZero() {
		todo = without(todo, v1alpha1.ActionWipeDevice, v1alpha1.ActionEnsureVolumeGroup, v1alpha1.ActionEnsureThinPool, v1alpha1.ActionReduceVolumeGroup,
			v1alpha1.ActionRepairThinPool)
	}
	if !h.shared().IsZero() {
		todo = without(todo, v1alpha1.ActionWipeDevice, v1alpha1.ActionEnsureVolumeGroup, v1alpha1.ActionEnsureThinPool, v1alpha1.ActionRepairThinPool)
	}
	if out.Finding.IsZero() {
		out.Finding = h.unserved(choice, len(todo))
	}
	if c := given.Condition; out.Finding.IsZero() && c != nil && c.Reason != v1alpha1.ReasonRetired {
		out.Finding = backend.Finding{Message: "The member serves volumes. Devices that are retired: " + c.Message}
	}
	if h.m.Frozen || len(todo) == 0 {
		return
	}
	out.Steps = steps(todo)
	if r := h.forming(todo); r != nil {
		out.Record = r
	}
}

// retirement decides about the devices that the Member gives up.
func (h host) retirement() retire.Outcome {
	if h.m.Object == nil || h.m.Flags.ShouldDestroy() {
		return retire.Outcome{}
	}
	in := retire.Input{Node: h.node, UID: h.view.own.spec.UID(), Devices: h.m.Object.Spec.Retire}
	if !h.node.Up() || !h.known() {
		return retire.Outcome{Condition: retire.Silent(in.Devices)}
	}
	if len(h.groups) > 0 {
		in.Group = &h.groups[0]
	}
	for _, r := range h.view.retired[h.m.Node] {
		in.All = append(in.All, r.Device)
	}
	return retire.Decide(in)
}

func (h host) work(c disk.Choice) work {
	recorded := ""
	if r := h.m.Record(); r != nil {
		recorded = r.UUID
	}
	return work{
		recorded: recorded, node: h.m.Node, owner: h.view.own.spec.UID(), name: h.view.own.spec.Group, groups: h.groups, devices: h.node.Devices,
		choice: c, pool: h.view.own.spec.ThinPool,
	}
}

func steps(in []Step) []backend.Step {
	out := make([]backend.Step, 0, len(in))
	for _, s := range in {
		out = append(out, s)
	}
	return out
}

// selection puts together what the choice of devices is made on.
func (h host) selection() disk.Input {
	v, n := h.view, h.view.node(h.m.Node)
	in := disk.Input{Host: h.m.Node, Claim: v.own.on(n, h.node), Node: h.node, Retired: v.retired[h.m.Node], Recorded: v.seen.World.Records, Unread: v.seen.World.Unread, Now: v.seen.Now}
	if len(h.groups) > 0 {
		in.Group = &h.groups[0]
	}
	for _, r := range v.rivals {
		in.Rivals = append(in.Rivals, r.on(n, h.node))
	}
	in.Elsewhere = func(path string) bool { return v.elsewhere(path, h.m.Node) }
	return in
}

// elsewhere reports whether a path exists, or may exist, on a host of the Cluster besides one.
func (v *View) elsewhere(path, except string) bool {
	may := func(host string) bool {
		n := v.seen.Nodes[host]
		_, ok := n.Device(path)
		return host != except && (ok || !n.Up())
	}
	for _, h := range v.own.spec.Common.Hosts {
		if may(string(h)) {
			return true
		}
	}
	for name, n := range v.seen.World.Nodes {
		if v.own.spec.Common.Selector != nil && v.own.wants(n) && may(name) {
			return true
		}
	}
	return false
}

// known reports whether the groups of the Cluster on the host are known as they are now.
func (h host) known() bool { return known(h.view.own.spec, h.node) }

// serves reports whether the host has, or had when it was last seen, its part of the storage.
func (h host) serves() bool {
	r := h.m.Record()
	had := !h.known() && r != nil && r.UUID != ""
	return len(h.groups) > 0 || had
}

// unused reports whether nothing was ever made on the host.
func (h host) unused() bool {
	r := h.m.Record()
	return (r == nil || r.UUID == "" && len(r.Forming) == 0) && len(h.groups) == 0 && len(h.m.Volumes) == 0
}

// reportsRecorded reports whether the agent reports the group that is recorded.
func (h host) reportsRecorded() bool {
	r := h.m.Record()
	return h.known() && r != nil && r.UUID != "" && h.seen(r.UUID) >= 0
}

// unsure reports whether the agent answers, and what it says leaves open whether the recorded group is there. So does a group that only the volumes of the host
// have on record, whosever tag it carries: after a restore it may wait for its import.
func (h host) unsure() bool {
	if !h.node.Up() || h.reportsRecorded() {
		return false
	}
	there := func(uuid string) bool { return !Gone(h.node, &v1alpha1.MemberGroup{UUID: uuid}) }
	return !Gone(h.node, h.m.Record()) || slices.ContainsFunc(h.recorded(), there)
}
