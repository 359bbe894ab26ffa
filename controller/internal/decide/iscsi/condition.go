package iscsi

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedlun"
)

func yes(t, reason, message string) metav1.Condition {
	return backend.Condition(t, metav1.ConditionTrue, reason, message)
}

func no(t, reason, message string) metav1.Condition {
	return backend.Condition(t, metav1.ConditionFalse, reason, message)
}

// unknown is what is said while nobody can tell. Right after a start of the controller, what was said before stands.
func (v *View) unknown(t, message string) metav1.Condition {
	if v.seen.Now.Sub(v.seen.World.Started) < grace {
		if c := meta.FindStatusCondition(v.seen.Iscsi.Status.Conditions, t); c != nil {
			return *c
		}
	}
	return backend.Condition(t, metav1.ConditionUnknown, v1alpha1.ReasonPending, message)
}

// unique tells an Iscsi of the one that has the same target.
func (v *View) unique() metav1.Condition {
	if v.rival != "" {
		return no(v1alpha1.ConditionTargetUnique, v1alpha1.ReasonSameTarget, fmt.Sprintf(
			"Iscsi %s names the target %s too, and had it first: nothing is done for this one. Delete one of them.", v.rival, v.seen.Iscsi.Spec.IQN))
	}
	if v.taken != "" {
		return no(v1alpha1.ConditionTargetUnique, v1alpha1.ReasonSameTarget, fmt.Sprintf(
			"The members of Iscsi %s have the LUN of this target on record: nothing is done for this one. Delete one of them, or map another LUN.", v.taken))
	}
	return yes(v1alpha1.ConditionTargetUnique, v1alpha1.ReasonTargetUnique, "No other Iscsi uses this target.")
}

// reachable reports whether any initiator reaches the target.
func (v *View) reachable(hosts []backend.HostHealth) metav1.Condition {
	const t = v1alpha1.ConditionTargetReachable
	var lines []string
	reason, early := "", len(hosts) == 0
	for _, h := range hosts {
		seen := v.seen.Hosts[h.Node]
		if seen.Reads() {
			return yes(t, v1alpha1.ReasonTargetReachable, "The target is reached from node "+h.Node+".")
		}
		f := seen.unseen()
		if h.Failure != "" {
			f = bad(h.FailureReason, h.Failure)
		}
		if seen.Agent == decide.AgentConnecting || f.Kind == backend.Busy {
			early = true
			continue
		}
		reason = backend.Sentence(reason, f.Reason)
		lines = append(lines, h.Node+": "+f.Message)
	}
	if early || v.rival != "" {
		return v.unknown(t, "No initiator was logged in to the target yet.")
	}
	return no(t, reason, "No initiator reaches the target. "+backend.Text(lines))
}

// lunReady reports whether the LUN is the recorded one, with the recorded group on it.
func (v *View) lunReady(hosts []backend.HostHealth) metav1.Condition {
	const t = v1alpha1.ConditionLunReady
	r := v.seen.Reading
	if f := v.refusal(); !f.IsZero() {
		return no(t, f.Reason, "Nothing is done with the LUN: "+f.Message+".")
	}
	if f := v.differ(); !f.IsZero() {
		return no(t, f.Reason, "No volume group is made: "+f.Message+".")
	}
	if f, host := v.wrongLun(); !f.IsZero() && (!r.Known || v.seen.Hosts[host].OtherLun != "") {
		return no(t, f.Reason, "Node "+host+": "+f.Message+".")
	}
	switch {
	case v.givenUp():
		return no(t, v1alpha1.ReasonDeleting, "A person gave the LUN up: what is on it stays.")
	case v.removed():
		return no(t, v1alpha1.ReasonDeleting, "The volume group is removed.")
	case !r.Known:
		return v.unread(t)
	case v.rec.group != "":
		return v.recorded(t)
	}
	return v.unmade(t, hosts)
}

// unread says why nobody knows what is on the LUN.
func (v *View) unread(t string) metav1.Condition {
	r := v.seen.Reading
	switch {
	case v.rec.group != "" && r.Older != "":
		return no(t, v1alpha1.ReasonGroupUnreadable, "Nothing is changed on the LUN: "+r.Older)
	case v.rec.group != "" && r.Problem != "":
		return v.keep(no(t, v1alpha1.ReasonGroupUnreadable, "The volume group cannot be read: "+r.Problem))
	}
	return v.unknown(t, "The LUN was not read yet.")
}

// recorded reports whether the group on record is on the LUN, which was read.
func (v *View) recorded(t string) metav1.Condition {
	r := v.seen.Reading
	switch g := r.Contents.Group; {
	case r.Older != "":
		return no(t, v1alpha1.ReasonGroupUnreadable, "The volume group may not be changed: "+r.Older+" Node "+r.Via+" reads it as it was.")
	case g == nil:
		return no(t, v1alpha1.ReasonVolumeGroupLost, fmt.Sprintf(
			"Volume group %s is on record, and is not on the LUN. %s Nothing is done until it is back.", v.rec.group, r.Contents.Content))
	case g.UUID != v.rec.group:
		return no(t, v1alpha1.ReasonVolumeGroupLost, fmt.Sprintf("Volume group %s is on record, and %s is on the LUN: nothing is done with that.", v.rec.group, g.UUID))
	}
	holds := fmt.Sprintf("The LUN holds the volume group %s.", v.rec.group)
	if now := v.grown(r.Contents.Group.SizeBytes); now > 0 {
		return yes(t, v1alpha1.ReasonLunGrown, fmt.Sprintf("%s It has %s by now, of which the group uses %s: what was added is not used. For more room make another Iscsi on another LUN.",
			holds, decide.Bytes(now), decide.Bytes(r.Contents.Group.SizeBytes)))
	}
	return yes(t, v1alpha1.ReasonLunReady, holds)
}

// unmade tells what the making of the group waits for.
func (v *View) unmade(t string, hosts []backend.HostHealth) metav1.Condition {
	r := v.seen.Reading
	if f := v.occupied(); !f.IsZero() && f.Reason != v1alpha1.ReasonLunNotEmpty {
		return no(t, f.Reason, "No volume group is made: "+f.Message+".")
	}
	switch {
	case r.Contents.Group == nil && r.Contents.Content != "" && v.rec.Forming == "":
		return no(t, v1alpha1.ReasonLunNotEmpty, v.notEmpty(r))
	case claimed(v.seen.World) > 0:
		return no(t, v1alpha1.ReasonVolumesExist, "Volumes of the class exist, and no volume group is on record: none is made.")
	}
	missing := v.awaited(hosts)
	if len(missing) == 0 {
		return backend.Condition(t, metav1.ConditionUnknown, v1alpha1.ReasonPending, "Every initiator may write to the LUN, and the volume group is being made.")
	}
	return backend.Condition(t, metav1.ConditionUnknown, v1alpha1.ReasonPending,
		"The volume group is made once every initiator may write to the LUN. Missing: "+backend.Shorten(missing, maxNamed)+".")
}

// keep returns the condition of before right after a start of the controller.
func (v *View) keep(c metav1.Condition) metav1.Condition {
	if v.seen.Now.Sub(v.seen.World.Started) >= grace {
		return c
	}
	if old := meta.FindStatusCondition(v.seen.Iscsi.Status.Conditions, c.Type); old != nil {
		return *old
	}
	return c
}

// wrongLun returns what is wrong with the LUN on the first node that sees none that can be used although it is logged in. A node on which volumes may have written
// to another LUN comes first.
func (v *View) wrongLun() (f backend.Finding, host string) {
	for _, name := range v.names() {
		if v.seen.Hosts[name].OtherLun == "" || !v.seen.Hosts[name].Reads() {
			continue
		}
		if _, f := v.lunOn(name); f.Reason == v1alpha1.ReasonOtherLun {
			return f, name
		}
	}
	for _, name := range v.names() {
		if !v.seen.Hosts[name].Reads() {
			continue
		}
		if _, f := v.lunOn(name); f.Kind == backend.Bad {
			return f, name
		}
	}
	return backend.Finding{}, ""
}

func (v *View) notEmpty(r Reading) string {
	lun, _ := v.Ref()
	text := "The LUN is not empty, and is left alone. " + r.Contents.Content
	switch {
	case r.Contents.Digest == "":
		return text + " A part of it could not be read, so that nobody can agree to lose it."
	case v.seen.Iscsi.Spec.Wipe == lun.Lun.WWID:
		return text + " spec.wipe names it: approve the plan to lose what is on it."
	}
	return text + " To lose it, set spec.wipe to " + lun.Lun.WWID + " and approve the plan."
}

// pathsHealthy names each path that is missing or down, or is none of the storage's.
func (v *View) pathsHealthy(hosts []backend.HostHealth) metav1.Condition {
	const t = v1alpha1.ConditionPathsHealthy
	var lines, others, unserved []string
	seen := 0
	for _, h := range hosts {
		host := v.seen.Hosts[h.Node]
		if !host.LoggedIn() || !host.Up() || h.Flags.ShouldDestroy() {
			continue
		}
		seen++
		for _, lost := range host.lost() {
			lines = append(lines, h.Node+": "+lost)
		}
		down, apart := v.pathsOf(h.Node)
		lines, others, unserved = append(lines, down...), append(others, apart...), append(unserved, host.unserved(h.Node)...)
	}
	switch {
	case len(lines) > 0:
		return no(t, v1alpha1.ReasonPathDown, backend.Text(slices.Concat(lines, others, unserved)))
	case len(others) > 0:
		return no(t, v1alpha1.ReasonOtherTarget, backend.Text(slices.Concat(others, unserved)))
	case len(unserved) > 0:
		return no(t, v1alpha1.ReasonSessionNotServed, backend.Text(unserved))
	case seen == 0:
		return v.unknown(t, "No initiator is logged in.")
	}
	return yes(t, v1alpha1.ReasonPathsHealthy, "Every initiator has every path.")
}

// pathsOf names the paths of a node that are down although their sessions are up, and those that lead through another target than the storage's. An agent of before tells
// no targets.
func (v *View) pathsOf(node string) (down, apart []string) {
	l, f := v.lunOn(node)
	if !f.IsZero() {
		return nil, nil
	}
	for _, p := range l.Paths {
		switch {
		case p.Target != "" && p.Target != v.target.IQN:
			apart = append(apart, fmt.Sprintf("%s: path %s through portal %s leads to the LUN through target %s: the node has its key there, too, and keeps that session when it leaves; "+
				"take the LUN off that target, or log out of it on the node", node, p.Device, p.Portal, p.Target))
		case !p.Up && v.seen.Hosts[node].session(p.Portal) == sharedlun.SessionUp:
			down = append(down, fmt.Sprintf("%s: path %s through portal %s is down", node, p.Device, p.Portal))
		}
	}
	return down, apart
}

// session returns the state of the session with a portal.
func (h Host) session(portal string) sharedlun.SessionState {
	for _, s := range h.Seen.Sessions {
		if s.Portal == portal {
			return s.State
		}
	}
	return sharedlun.SessionNone
}

// byWord says what it takes to use volumes of a silent node elsewhere that no key keeps from writing.
const byWord = "Volumes of a node that fell silent move only once its Node is tainted with " + v1alpha1.TaintOutOfService + " and a person approved the plan that waits then, and vouches by both that the node is off."

// fencing reports whether a node that fell silent can be kept from writing.
func (v *View) fencing() metav1.Condition {
	const t = v1alpha1.ConditionFencingPossible
	r := v.seen.Reading
	switch {
	case v.rec.Reserves && r.Known && !r.Keys.Supported:
		return no(t, v1alpha1.ReasonReservationsGone, "The target had persistent reservations, and says now that it has none: no key is granted.")
	case v.rec.Reserves && v.foreign() > 0:
		return no(t, v1alpha1.ReasonForeignKeys, fmt.Sprintf(
			"%d keys are registered on the LUN that no Member has on record: whoever has one can write to it, and is not fenced.", v.foreign()))
	case v.rec.Reserves && r.Known && !r.Keys.Held() && v.rec.group != "":
		return no(t, v1alpha1.ReasonNotReserved, "Nobody has reserved the LUN, as after the target lost its keys: everybody can write to it. "+v.reserves())
	case v.rec.Reserves:
		return yes(t, v1alpha1.ReasonFencingPossible, "The target keeps persistent reservations.")
	case v.rec.Keyless && r.Known && r.Keys.Supported:
		return no(t, v1alpha1.ReasonNoReservations, "The target keeps persistent reservations by now, and nodes were let in without keys. They get keys as soon as no volume is "+
			"attached anywhere: stop the pods that use volumes. "+byWord)
	case v.rec.Keyless:
		return no(t, v1alpha1.ReasonNoReservations,
			"The target keeps no persistent reservations. "+byWord)
	}
	return v.unknown(t, "No initiator has joined yet.")
}

func lunStatus(i sharedlun.Identity, reservations bool) *v1alpha1.LunStatus {
	return &v1alpha1.LunStatus{
		WWID: i.WWID, Serial: i.Serial, Size: *resource.NewQuantity(i.SizeBytes, resource.BinarySI), Reservations: reservations,
	}
}
