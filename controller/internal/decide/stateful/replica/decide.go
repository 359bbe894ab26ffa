package replica

import (
	"fmt"
	"slices"
	"strings"
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
	// Create makes a pod: of a new identity, or again of one that is there.
	Create Action = "Create"
	// Remove has a pod evicted or deleted, and then records the fate of its identity if there is one. Without a fate the pod is made again.
	Remove Action = "Remove"
	// Update changes a pod in place to the template of the spec.
	Update Action = "Update"
	// GiveUp records the fate of an identity, and does nothing to its pod. It stands before the removal of what may not answer.
	GiveUp Action = "GiveUp"
)

// Decision is the one action of a pass.
type Decision struct {
	Action Action
	// Victim is the name of the pod to remove, or of the replica to give up.
	Victim string
	// Force is true when the node of the victim is gone: nobody there can end its pod, and nobody has to agree.
	Force bool
	// Fate of the victim's identity; empty while it stays.
	Fate Fate
	// Spare: another replica serves with the data, or the victim never had any. Only then may the claims go some day for their age or number.
	Spare bool
	// Identity of the victim, or the one to make a pod for; a new one is minted when it is empty.
	Identity string
	// Reason is a constant of the API; Message a sentence for a person, empty at rest.
	Reason, Message string
	// After is when to decide again even if nothing happened; zero when there is no need to.
	After time.Duration
}

// Decide chooses the one action of this pass. The first rule that has something to say wins. Each makes sure of one thing:
//   - what was given up ends,
//   - there are not more than wanted; with none wanted only the pods end, unless the claims go with them,
//   - nothing begins empty while the data may be in claims that nobody knows,
//   - a pod that ended is made again on its claims, whatever other replicas do,
//   - replicas are made one after another,
//   - there are not fewer than wanted, whatever is to be removed,
//   - what does not serve any more is given up, one at a time and never a majority,
//   - a changed template reaches the replicas.
func Decide(in Input) Decision {
	v := look(in)
	rules := []func(view) *Decision{sweep, tooMany, unknown, restart, pending, tooFew, giveUp, lastCopy, rollout, settling}
	if v.Desired == 0 && !v.Discard {
		rules = []func(view) *Decision{sweep, park}
	}
	for _, rule := range rules {
		if d := rule(v); d != nil {
			if d.Action == Wait || d.Action == Rest {
				d.After = soonest(d.After, v.change)
			}
			return *d
		}
	}
	return Decision{Action: Rest, After: v.change}
}

// sweep ends the pods of identities that were given up.
func sweep(v view) *Decision {
	for _, r := range v.fated {
		if r.Terminating && !r.forced() || v.Blocked[r.Name] {
			continue
		}
		d := remove(r, r.Fate, v1alpha1.ReasonReplicaLeaving, "Replica %s is removed: it was given up.", r.Name)
		d.Force = r.forced()
		return d
	}
	return nil
}

// forced reports whether nobody is left who could end a pod.
func (r judged) forced() bool { return r.Node == NodeGone && r.health == Lost }

// settling tells what is not as it should be while nothing is to be done about it now.
func settling(v view) *Decision {
	r, ok := v.first(func(r judged) bool { return r.health < Available || r.Doubtful || v.Declared && !r.synced })
	switch {
	case !ok && v.leaving:
		return wait(v1alpha1.ReasonReplicaLeaving, "A replica is ending.")
	case !ok:
		return nil
	case r.OutOfReach():
		return v.unreached(r)
	case r.Occupied != "":
		return wait(v1alpha1.ReasonReplicaMissing, "Replica %s has no pod. None is made beside pod %s, which has its name or its claims and is not its own.", r.Name, r.Occupied)
	case r.health == Stuck:
		return wait(v1alpha1.ReasonReplicaPending, "Replica %s is pending for too long. No other replica waits for it.", r.Name)
	case r.Terminating:
		return wait(v1alpha1.ReasonReplicaStarting, "The pod of replica %s is ending, and is made again on its claims.", r.Name)
	case r.Doubtful && r.Disk == DiskSuspended:
		return wait(v1alpha1.ReasonReplicaStarting, "The disks of replica %s failed. They are in maintenance, so it is not given up, and does not count as one that serves.", r.Name)
	case r.Doubtful:
		return wait(v1alpha1.ReasonReplicaStarting, "The disks of replica %s failed or were given up, and nobody can say how they are now: it is not given up, and does not count as one that serves.", r.Name)
	case r.health == Available:
		return wait(v1alpha1.ReasonReplicaNotSynced, "Replica %s is ready, and does not have the data yet.", r.Name)
	}
	return wait(v1alpha1.ReasonReplicaStarting, "Replica %s is not ready yet.", r.Name)
}

// unreached tells why a replica that is out of reach is not given up now.
func (v view) unreached(r judged) *Decision {
	switch {
	case r.Disk == DiskSuspended && r.Node != NodeFine:
		return wait(v1alpha1.ReasonReplicaStarting, "%s What holds its volumes is in maintenance, so it is not given up.", v.outOfReach(r))
	case v.Blackout:
		return wait(v1alpha1.ReasonReplicaStarting, "%s So are too many others: nothing is replaced before they are back.%s", v.outOfReach(r), v.vanished())
	}
	return wait(v1alpha1.ReasonReplicaStarting, "%s", v.outOfReach(r))
}

// vanished names nodes that do not exist and count among those that are out of reach, and says what to do if they never come back; empty without any.
func (v view) vanished() string {
	const shown = 5
	names := slices.Sorted(slices.Values(v.Vanished))
	if len(names) == 0 {
		return ""
	}
	more := ""
	if len(names) > shown {
		more = fmt.Sprintf(" and %d more", len(names)-shown)
	}
	return fmt.Sprintf(" Nodes that do not exist and that count: %s%s. Members, or claims of replicas of any StatefulCluster, name them. If they are lost for good, say so in spec.lost of these Members, or delete these claims.",
		strings.Join(names[:min(len(names), shown)], ", "), more)
}

// outOfReach says what keeps a replica out of reach, and how much of the grace is used.
func (v view) outOfReach(r judged) string {
	return fmt.Sprintf("%s, by now for %s of %s.", v.Input.Away(r.Replica), r.Tally.Away.Round(time.Second), v.limit(r.Replica))
}

// Away says what keeps a replica out of reach, without a period; empty when nothing does.
func (Input) Away(r Replica) string {
	if !r.OutOfReach() {
		return ""
	}
	what := map[NodeState]string{
		NodeUnready: "is not ready", NodeUnreachable: "is unreachable", NodeShutDown: "is out of service",
		NodeClosed: "takes no new pods", NodeGone: "does not exist",
	}[r.Node]
	switch {
	case r.Node != NodeFine:
		return fmt.Sprintf("The node of replica %s %s", r.Name, what)
	case r.Disk == DiskFailed:
		return fmt.Sprintf("The disks of replica %s failed", r.Name)
	}
	return fmt.Sprintf("Nobody tells how replica %s is", r.Name)
}

func remove(r judged, fate Fate, reason, format string, args ...any) *Decision {
	return &Decision{Action: Remove, Victim: r.Name, Identity: r.Identity, Fate: fate, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func wait(reason, format string, args ...any) *Decision {
	return &Decision{Action: Wait, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func create(identity, reason, format string, args ...any) *Decision {
	return &Decision{Action: Create, Identity: identity, Reason: reason, Message: fmt.Sprintf(format, args...)}
}
