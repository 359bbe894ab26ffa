package replica

import (
	"fmt"
	"strings"
	"time"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

const (
	// pendingPause is how soon pending replicas are looked at again.
	pendingPause = 5 * time.Second
	// restartPause is how old a pod is at least that ended and is made again: a node that ends each one at once is not flooded.
	restartPause = 10 * time.Second
)

// tooMany gives up what is over the limit, one by one. This alone is a deliberate scale-down.
func tooMany(v view) *Decision {
	if len(v.live) <= v.most() {
		return nil
	}
	victim := v.live[0]
	switch {
	case v.Blocked[victim.Name]:
		return nil
	case victim.serves() && v.leaving:
		return wait(v1alpha1.ReasonReplicaLeaving, "There are %d replicas, %d are wanted; another one is still ending.", len(v.live), v.Desired)
	case v.Desired > 0 && victim.Filled && v.others(victim, isSynced) == 0:
		// See lastCopy. What does not serve any more is seen to meanwhile.
		return nil
	}
	return v.part(victim, Scaled, v1alpha1.ReasonScalingDown, "Replica %s is removed: there are %d, %d are wanted.", victim.Name, len(v.live), v.Desired)
}

// lastCopy tells that nothing is scaled away while no replica that would stay is known to have the data.
func lastCopy(v view) *Decision {
	if len(v.live) <= v.most() || v.Blocked[v.live[0].Name] {
		return nil
	}
	return wait(v1alpha1.ReasonLastCopy, "There are %d replicas, %d are wanted; %s stays until another one is known to have the data.",
		len(v.live), v.Desired, v.live[0].Name)
}

// unknown stops while no replica is known to have had the data, and there are claims of which nobody knows whether they hold it, or pods that nobody
// controls, or claims of such: what is made now would begin empty beside them.
func unknown(v view) *Decision {
	if v.Desired == 0 || v.count(func(r judged) bool { return r.Filled || r.Served || r.serves() }) > 0 {
		return nil
	}
	return v.undecided()
}

// minority reports whether those that may have the data, or were given up while others served with it, are no majority of those that are wanted.
func (v view) minority() bool {
	n := v.count(func(r judged) bool { return r.Filled || r.Served || r.serves() && !v.Declared })
	for _, r := range v.Replicas {
		if r.Fate != "" && !r.GivenUp.IsZero() {
			n++
		}
	}
	return 2*n <= v.Desired
}

// undecided waits for a person to say of every claim without a record whether it holds the data, and of every pod that nobody controls, and its claims, what becomes
// of them; nil when there is none.
func (v view) undecided() *Decision {
	switch {
	case v.Unowned > 0:
		return wait(v1alpha1.ReasonReplicasUnknown,
			"%d pods with the labels of replicas run, or end, and nobody controls them, as after kubectl delete --cascade=orphan. Nothing begins empty beside them.%s "+
				"Then delete these pods: their claims stay.", v.Unowned, v.choice("First say of each of their claims what becomes of it"))
	case len(v.Undecided) > 0:
		return wait(v1alpha1.ReasonReplicasUnknown,
			"%d claims of pods that nobody controlled, as after kubectl delete --cascade=orphan, may hold the data.%s", len(v.Undecided),
			v.choice("Nothing is made beside them before a person says of each what becomes of it"))
	case v.Unrecorded == 0:
		return nil
	}
	return wait(v1alpha1.ReasonReplicasUnknown,
		"%d claims may hold the data, and nothing is on record of their replicas. Nothing begins empty before a person says which do: "+
			"annotate all that belong together with %[2]s=%[3]s, one to leave with %[2]s=%[4]s, after which whenReplaced: Delete deletes it.",
		v.Unrecorded, v1alpha1.AnnotationReplicaState, v1alpha1.ReplicaFilled, v1alpha1.ReplicaReplaced)
}

// shown is how many claims a message names.
const shown = 10

// choice says how a person decides on the claims of pods that nobody controls; empty when that is done.
func (v view) choice(first string) string {
	if len(v.Undecided) == 0 {
		return ""
	}
	names, more := v.Undecided, ""
	if len(names) > shown {
		names, more = names[:shown], fmt.Sprintf(" and %d more", len(names)-shown)
	}
	return fmt.Sprintf(" %s: name those whose data goes on in spec.adopt, annotate one to leave with %s=%s (%s%s).",
		first, v1alpha1.AnnotationReplicaState, v1alpha1.ReplicaReplaced, strings.Join(names, ", "), more)
}

// most is how many replicas there may be: a change of the template makes the new replica before the old one goes.
func (v view) most() int {
	// Nobody knows the template of one without a pod. Until that comes back, or is lost, a replica that was made for a change is not one too many.
	if _, away := v.first(func(r judged) bool { return r.Phase == Absent && r.Filled && r.health != Lost }); away || v.rolling() {
		return v.Desired + v.Surge
	}
	return v.Desired
}

// part gives an identity up. A pod that answers is asked to end first, so that a disruption budget can say no before anything is on record.
func (v view) part(r judged, fate Fate, reason, format string, args ...any) *Decision {
	d := remove(r, fate, reason, format, args...)
	if r.Phase == Absent || r.Terminating || r.OutOfReach() {
		d.Action = GiveUp
	}
	d.Spare = v.others(r, isSynced) > 0 || !r.Filled && !r.Served
	return d
}

// taken reports whether pods that nobody controls have the places of all replicas that are wanted beside some.
func (v view) taken(beside int) bool { return v.Standing > 0 && beside+v.Standing >= v.Desired }

// comes reports whether nothing but its pod keeps a replica from serving.
func (r judged) comes() bool {
	return !r.Terminating && !r.OutOfReach() && r.health != Lost && r.Occupied == ""
}

// restart makes a pod that ended, or that is not there, again on its claims: no data is copied. It waits for no other replica.
func restart(v view) *Decision {
	if r, ok := v.first(func(r judged) bool {
		return r.comes() && r.Phase == Finished && r.Claims != NoClaims && left(v.Now, r.PendingSince, restartPause) <= 0
	}); ok {
		return remove(r, "", v1alpha1.ReasonReplicaFinished, "The pod of replica %s has ended, and is made again on its claims.", r.Name)
	}
	if r, ok := v.last(func(r judged) bool { return r.comes() && r.Phase == Absent && r.Claims != ClaimsEnding }); ok && !v.spare() {
		return create(r.Identity, v1alpha1.ReasonReplicaMissing, "The pod of replica %s is made on its claims.", r.Name)
	}
	// What has no data and lacks a claim gets the claim again.
	if r, ok := v.first(func(r judged) bool { return r.comes() && r.Phase == Pending && r.Claims == ClaimsMissing && !r.Filled }); ok {
		return create(r.Identity, v1alpha1.ReasonReplicaMissing, "A claim of replica %s was deleted before its pod started, and is made again.", r.Name)
	}
	return nil
}

// pending waits for replicas that are on their way. One of an old template need not arrive: the change may be what lets it.
func pending(v view) *Decision {
	comes := func(r judged) bool {
		return r.Phase == Pending && !r.Terminating && !r.OutOfReach() && r.health != Lost
	}
	if v.rolling() {
		if r, ok := v.first(func(r judged) bool { return comes(r) && r.old && !v.Blocked[r.Name] }); ok {
			fate := Replaced
			if r.Filled {
				fate = ""
			}
			return remove(r, fate, v1alpha1.ReasonRolling, "Replica %s is removed: it is pending, and its template has changed.", r.Name)
		}
	}
	r, ok := v.first(func(r judged) bool { return comes(r) && r.health == Waiting })
	if !ok {
		return nil
	}
	d := wait(v1alpha1.ReasonReplicaPending, "Replica %s is pending.", r.Name)
	d.After = pendingPause
	return d
}

// tooFew makes one replica. It begins empty, and so makes a majority of replicas with the data impossible while claims that may hold it are not decided
// on. A person who takes up the first one means the others, too. A pod that nobody controls has the place of a replica as long as it runs.
func tooFew(v view) *Decision {
	if len(v.live) >= v.Desired {
		return nil
	}
	if d := v.undecided(); d != nil && (v.minority() || v.taken(len(v.live))) {
		return d
	}
	return create("", v1alpha1.ReasonReplicaMissing, "A replica is made: there are %d, %d are wanted.", len(v.live), v.Desired)
}
