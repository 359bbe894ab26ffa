package replica

import (
	"fmt"
	"slices"
	"time"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Action is what is done next.
type Action string

// Actions.
const (
	// Rest: nothing is to be done.
	Rest Action = "Rest"
	// Wait: something is to be done, and cannot be done yet.
	Wait Action = "Wait"
	// Create makes a replica.
	Create Action = "Create"
	// Remove deletes a replica's pod.
	Remove Action = "Remove"
)

// pendingPause is how soon pending replicas are looked at again.
const pendingPause = 5 * time.Second

// Decision is the one action of a pass.
type Decision struct {
	Action Action
	// Victim is the name of the replica to remove.
	Victim string
	// Force is true when the node of the victim is gone: nobody there can end its pod, and nobody has to agree.
	Force bool
	// Identity to make a replica with, because claims of that identity are there; a new one is minted when empty.
	Identity string
	// Reason is a constant of the API; Message a sentence for a person, empty at rest.
	Reason, Message string
	// After is when to decide again though nothing happened; zero when there is no need to.
	After time.Duration
}

// Decide chooses the one action of this pass. The first rule that has something to say wins: too many, pending, unhealthy, too few,
// then a changed template.
func Decide(in Input) Decision {
	v := look(in)
	for _, rule := range []func(view) *Decision{tooMany, pending, unhealthy, tooFew, rollout, settling} {
		if d := rule(v); d != nil {
			if d.Action == Wait || d.Action == Rest {
				d.After = soonest(d.After, v.change)
			}
			return *d
		}
	}
	return Decision{Action: Rest, After: v.change}
}

// tooMany removes what is over the limit, one by one.
func tooMany(v view) *Decision {
	if len(v.live) <= v.limit() {
		return nil
	}
	victim := v.live[0]
	if victim.serves() && v.leaving {
		return wait(v1alpha1.ReasonReplicaLeaving, "There are %d replicas, %d are wanted; another one is still ending.", len(v.live), v.Desired)
	}
	return remove(victim, v1alpha1.ReasonScalingDown, "Replica %s is removed: there are %d, %d are wanted.", victim.Name, len(v.live), v.Desired)
}

// pending waits for replicas that are on their way. One of an old template need not arrive: the change may be what lets it.
func pending(v view) *Decision {
	if v.rolling() {
		if r, ok := v.first(func(r judged) bool { return r.health == Waiting && r.old }); ok {
			return remove(r, v1alpha1.ReasonRolling, "Replica %s is removed: it is pending, and its template has changed.", r.Name)
		}
	}
	r, ok := v.first(is(Waiting))
	if !ok {
		return nil
	}
	d := wait(v1alpha1.ReasonReplicaPending, "Replica %s is pending.", r.Name)
	d.After = pendingPause
	return d
}

// unhealthy removes a replica that will not serve again; the next pass makes a new one.
func unhealthy(v view) *Decision {
	if r, ok := v.first(func(r judged) bool { return r.health <= Ended }); ok {
		if r.health == Lost {
			return remove(r, v1alpha1.ReasonReplicaLost, "Replica %s is replaced: its node is gone or has been unreachable for too long.", r.Name)
		}
		return remove(r, v1alpha1.ReasonReplicaFinished, "Replica %s is replaced: its pod has ended.", r.Name)
	}
	r, ok := v.first(is(Unhealthy))
	if !ok {
		return nil
	}
	if s, ok := v.first(is(Starting)); ok {
		return wait(v1alpha1.ReasonReplicaStarting, "Replica %s is not ready; it is replaced when it is known whether %s becomes ready.", r.Name, s.Name)
	}
	return remove(r, v1alpha1.ReasonReplicaUnhealthy, "Replica %s is replaced: it has not been ready for too long.", r.Name)
}

// tooFew makes one replica.
func tooFew(v view) *Decision {
	if len(v.live) >= v.Desired {
		return nil
	}
	return v.create(v1alpha1.ReasonReplicaMissing, "A replica is made: there are %d, %d are wanted.", len(v.live), v.Desired)
}

// rollout brings a changed template to the replicas: a new identity first, then an old one goes.
func rollout(v view) *Decision {
	if !v.rolling() {
		return nil
	}
	old := v.count(isOld)
	if r, ok := v.first(func(r judged) bool { return !r.old && r.health != Available }); ok {
		if v.Futile > 0 && v.count(func(r judged) bool { return !r.old && r.serves() }) == 0 {
			return wait(v1alpha1.ReasonRolloutStalled, "The changed template makes no replica that becomes ready: %d were given up, %s is not ready yet.", v.Futile, r.Name)
		}
		return wait(v1alpha1.ReasonRolling, "The template has changed: %d replicas have the old one, and %s is not available yet.", old, r.Name)
	}
	if len(v.live) <= v.Desired {
		return v.create(v1alpha1.ReasonRolling, "A replica is made: the template has changed, and %d replicas have the old one.", old)
	}
	victim, _ := v.first(isOld)
	if victim.serves() && v.leaving {
		return wait(v1alpha1.ReasonRolling, "The template has changed: %d replicas have the old one, and another one is still ending.", old)
	}
	return remove(victim, v1alpha1.ReasonRolling, "Replica %s is removed: the template has changed, and a new replica is available.", victim.Name)
}

// settling tells what is not as it should be though nothing is to be done about it now.
func settling(v view) *Decision {
	r, ok := v.first(func(r judged) bool { return r.health < Available })
	switch {
	case !ok && v.leaving:
		return wait(v1alpha1.ReasonReplicaLeaving, "A replica is ending.")
	case !ok:
		return nil
	case r.Node == NodeUnreachable && v.Blackout:
		return wait(v1alpha1.ReasonReplicaStarting, "The node of replica %s is unreachable, as too many others are: nothing is replaced before they are back.", r.Name)
	case r.Node == NodeUnreachable:
		return wait(v1alpha1.ReasonReplicaStarting, "The node of replica %s is unreachable.", r.Name)
	}
	return wait(v1alpha1.ReasonReplicaStarting, "Replica %s is not ready yet.", r.Name)
}

func (v view) create(reason, format string, args ...any) *Decision {
	d := &Decision{Action: Create, Reason: reason, Message: fmt.Sprintf(format, args...)}
	if len(v.Reserved) > 0 {
		d.Identity = slices.Min(v.Reserved)
	}
	return d
}

func remove(r judged, reason, format string, args ...any) *Decision {
	return &Decision{
		Action: Remove, Victim: r.Name, Force: r.Node == NodeGone && r.health == Lost,
		Reason: reason, Message: fmt.Sprintf(format, args...),
	}
}

func wait(reason, format string, args ...any) *Decision {
	return &Decision{Action: Wait, Reason: reason, Message: fmt.Sprintf(format, args...)}
}
