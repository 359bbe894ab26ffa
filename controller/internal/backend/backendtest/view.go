package backendtest

import (
	"fmt"
	"slices"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/class"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

// ParameterOwner is the parameter of the StorageClass.
const ParameterOwner = v1alpha1.Group + "/test-uid"

// View is one observation of the model.
type View struct {
	owner  backend.Owner
	common v1alpha1.StorageCommon
	world  backend.World
	hosts  map[string]host
	share  share
	// seen are the hosts that the view before this one returned.
	seen []string
	// lost are the groups that are foreign now.
	lost                      []string
	members, moves, obstinate bool
}

var _ backend.View = (*View)(nil)

// group returns the group of the storage on a host, as far as it can be seen; nil when it cannot, or when there is none.
func (v *View) group(name string) *Group {
	h, ok := v.hosts[name]
	if !ok || h.answer != Up && !slices.Contains(v.seen, name) || h.blind {
		return nil
	}
	g := h.groups[v.owner.UID]
	if g == nil || slices.Contains(v.lost, g.UUID) {
		return nil
	}
	return g
}

// Hosts returns the hosts that hold a group, or did when they were last seen.
func (v *View) Hosts() []string {
	var out []string
	for name := range v.hosts {
		if v.members && v.group(name) != nil {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func (v *View) member(name string) *v1alpha1.Member {
	for _, m := range v.world.Members {
		if string(m.Spec.Node) == name {
			return m
		}
	}
	return nil
}

// Facts returns what is known about a host. One that nobody has added is a node on which nothing of ours runs.
func (v *View) Facts(name string) backend.Facts {
	h, known := v.hosts[name]
	g, m := v.group(name), v.member(name)
	f := backend.Facts{Up: known && h.answer == Up, TooEarly: known && h.answer == Early, Missing: !known || h.answer == Dead}
	f.Reason, f.Problem = why(f, h)
	if g != nil {
		for _, volume := range g.Volumes {
			f.Holding = append(f.Holding, g.Name+"/"+volume)
		}
	}
	f.Recorded, f.Unsure = f.Up && g.is(backend.Member{Object: m}.Record()), f.Up && h.blind
	switch {
	case backend.Lost(m) && !f.Up && !f.TooEarly:
		f.Holding, f.Data = nil, nodestate.DataAbsent
	case !f.Up || h.blind:
		f.Data = nodestate.DataUnknown
	case len(f.Holding) > 0:
		f.Data = nodestate.DataPresent
	default:
		f.Data = nodestate.DataAbsent
	}
	return f
}

// why says why a host does not answer; empty when it does, and while nobody can say.
func why(f backend.Facts, h host) (reason, problem string) {
	switch {
	case f.Missing:
		return v1alpha1.ReasonAgentMissing, "no agent runs on this node"
	case h.answer == Silent:
		return v1alpha1.ReasonAgentUnreachable, "the agent does not answer"
	}
	return "", ""
}

// is reports whether a group is the recorded one.
func (g *Group) is(r *v1alpha1.MemberGroup) bool {
	return g != nil && r != nil && r.UUID != "" && r.UUID == g.UUID
}

// recorded reports whether a group was ever recorded for a member.
func recorded(m backend.Member) bool { return m.Record() != nil && m.Record().UUID != "" }

// Decide decides about a host by the rules that every backend keeps: what is recorded outranks what is seen.
func (v *View) Decide(m backend.Member) backend.Host {
	h, known := v.hosts[m.Node]
	g, up := v.group(m.Node), known && h.answer == Up
	out := backend.Host{
		Serves: g != nil || recorded(m) && (!up || h.blind),
	}
	if !up {
		return out
	}
	out.Watched = !h.blind
	if g != nil {
		out.Reports, out.Size, out.Free, out.Volumes = true, g.Size, g.Free, len(g.Volumes)
		out.Devices = []v1alpha1.MemberDevice{{
			Path: "/dev/disk/by-id/" + m.Node, Identity: g.UUID, Size: *resource.NewQuantity(g.Size, resource.BinarySI), State: v1alpha1.DevicePresent,
		}}
	}
	switch {
	case h.blind:
		out.Finding = bad(v1alpha1.ReasonVolumeGroupUnknown, "what is on the host cannot be read")
	case m.Flags.ShouldDestroy() && !h.stuck.IsZero():
		out.Finding = h.stuck
	case m.Flags.ShouldDestroy():
		// What speaks against the host's disks does not speak against giving them back.
		out.Steps = v.removal(m, g)
	default:
		out.Finding = h.problem
		v.stay(m, h, g, &out)
	}
	if m.Lost && g.is(m.Record()) {
		out.Finding = bad(v1alpha1.ReasonLost, "is declared lost, but its group is reported")
	}
	return out
}

func bad(reason, message string) backend.Finding {
	return backend.Finding{Kind: backend.Bad, Reason: reason, Message: message}
}

// removal tears down what is on a host. Nothing that holds data is removed; a backend that moves data moves it first.
func (v *View) removal(m backend.Member, g *Group) []backend.Step {
	switch {
	case g == nil:
		return nil
	case len(g.Volumes) > 0 && v.moves:
		return []backend.Step{v.step(m.Node, ActionMove, g.Name)}
	case m.State != nodestate.Abandoned || len(g.Volumes) > 0:
		return nil
	}
	return []backend.Step{v.step(m.Node, v1alpha1.ActionRemoveVolumeGroup, g.Name)}
}

// stay compares what is recorded of a host that stays with what is seen, and grows its group.
func (v *View) stay(m backend.Member, h host, g *Group, out *backend.Host) {
	switch {
	case g == nil && (recorded(m) || len(m.Volumes) > 0):
		out.Finding = bad(v1alpha1.ReasonVolumeGroupLost, "the recorded group is not seen")
		return
	case recorded(m) && !g.is(m.Record()) && !v.obstinate:
		out.Finding = bad(v1alpha1.ReasonVolumeGroupConflict, "the group is not the recorded one")
		return
	case g != nil:
		out.Record = &v1alpha1.MemberGroup{UUID: g.UUID, Name: g.Name}
	}
	wanted := backend.Wants(v.common, v.world.Nodes[m.Node]) && m.Invalid == nil && !m.Frozen
	if !wanted && !v.obstinate {
		return
	}
	out.Steps = v.grow(m.Node, h, g)
	if g == nil && len(out.Steps) > 0 {
		out.Record = &v1alpha1.MemberGroup{Name: "group", Forming: futurePVs(v.owner.UID, m.Node)}
	}
}

// grow returns the steps that a host needs: wipe what is dirty, make the group, and the extra that comes after it.
func (v *View) grow(name string, h host, g *Group) []backend.Step {
	var steps []backend.Step
	for _, d := range h.dirty {
		s := v.step(name, v1alpha1.ActionWipeDevice, d)
		s.Dirty = true
		steps = append(steps, s)
	}
	if g == nil {
		steps = append(steps, v.step(name, v1alpha1.ActionEnsureVolumeGroup, "group"))
	}
	if h.extra != "" && !h.extras[v.owner.UID] {
		s := v.step(name, v1alpha1.ActionEnsureThinPool, h.extra)
		s.NotYet = h.later
		steps = append(steps, s)
	}
	return steps
}

func (v *View) step(host, does, what string) Step {
	return Step{Owner: v.owner.UID, On: host, Does: does, What: what}
}

// Whole returns what concerns the storage as a whole.
func (v *View) Whole(hosts []backend.HostHealth) backend.Whole {
	w := backend.Whole{
		Hold: v.share.hold, Holding: v.share.holding, Pending: "The StorageClass is made once volumes can be.",
		Class: class.Wish{Parameters: map[string]string{ParameterOwner: string(v.owner.UID)}, Binding: storagev1.VolumeBindingWaitForFirstConsumer},
	}
	for _, s := range v.share.steps {
		w.Steps = append(w.Steps, s)
	}
	if v.members {
		w.Serves = slices.ContainsFunc(hosts, func(h backend.HostHealth) bool { return h.Decided.Serves && !h.Flags.ShouldDestroy() })
		return w
	}
	if len(hosts) > 0 {
		// A storage without members has hosts only where a volume is pinned to one.
		w.Warnings = append(w.Warnings, backend.Condition("HostsUnexpected", metav1.ConditionFalse, "Unexpected", fmt.Sprintf("%d hosts", len(hosts))))
	}
	w.Serves = v.share.down == ""
	w.Facts = []metav1.Condition{v.share.reachable()}
	space := backend.SpaceOf(v.share.size, v.share.free)
	w.Capacity = &space
	return w
}
