package replica

import (
	"fmt"
	"strings"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// hopeless reports whether a replica is to be given up: it will not serve again by itself. One without data that has no place anywhere is
// not, since a new one would have none either, nor is one that prepares itself still. Nothing is where a person maintains what holds the volumes, nor what pods that are made anew on
// their claims may have broken: a corrected template mends it.
func (v view) hopeless(r judged) bool {
	switch {
	case r.Disk == DiskSuspended:
		return false
	case r.health <= Lost:
		return true
	case v.Surge == 0 && v.rolling() && r.Filled:
		return false
	}
	return r.health == Unhealthy || r.health == Stuck && !r.Busy && (r.Filled || r.Placed)
}

// giveUp gives up one replica that will not serve again; a later pass makes a new one. What never had the data may go at any time. What had
// it goes only as far as the guard lets it, or a person does.
func giveUp(v view) *Decision {
	var held *Decision
	for _, r := range v.live {
		if !v.hopeless(r) || v.Blocked[r.Name] {
			continue
		}
		if d := v.holdBack(r); d != nil {
			if held == nil {
				held = d
			}
			continue
		}
		reason, why := verdict(r)
		return v.part(r, Replaced, reason, "Replica %s is replaced: %s.", r.Name, why)
	}
	return held
}

// verdict says why a replica is given up.
func verdict(r judged) (reason, why string) {
	switch {
	case r.Disk == DiskLost:
		return v1alpha1.ReasonReplicaLost, "a person said that what held its volumes is lost"
	case r.Node == NodeFine && r.Disk == DiskFailed:
		return v1alpha1.ReasonReplicaLost, "its disks failed"
	case r.Phase == Absent && r.Claims >= ClaimsMissing:
		return v1alpha1.ReasonReplicaLost, "its claims were deleted"
	case r.health == Lost && r.Phase == Finished && r.Node == NodeFine:
		return v1alpha1.ReasonReplicaFinished, "its pod has ended"
	case r.health == Lost:
		return v1alpha1.ReasonReplicaLost, "its node is gone or was out of reach for too long"
	}
	return v1alpha1.ReasonReplicaUnhealthy, "it has not been ready for too long"
}

// holdBack says why a replica is not given up now; nil when it may be.
func (v view) holdBack(r judged) *Decision {
	if r.health > Lost {
		if s, ok := v.first(is(Starting)); ok {
			return wait(v1alpha1.ReasonReplicaStarting, "Replica %s is not ready; it is replaced when it is known whether %s becomes ready.", r.Name, s.Name)
		}
	}
	if r.Crowded != "" && !v.Plan.allows(r.Identity) {
		d := wait(v1alpha1.ReasonNoRoom, "%s It is not given up: no other node is known to take another one and to have room for it. %s%s", v.state(r), r.Crowded, v.ask())
		// Nobody tells when other people's pods make room, and not every node is asked at once.
		d.After = Look
		return d
	}
	if !r.Filled || v.Plan.allows(r.Identity) {
		return nil
	}
	if v.taken(len(v.live) - 1) {
		// None would be made in its place, and it may come back.
		return v.undecided()
	}
	text := v.guard(r)
	if text == "" {
		return nil
	}
	return wait(v1alpha1.ReasonQuorumGuard, "%s %s%s", v.state(r), text, v.ask())
}

// ask tells what a person does who lets replicas go all the same; empty while nothing is asked.
func (v view) ask() string {
	if v.Plan == nil || v.Plan.Approved {
		return ""
	}
	return " To give up " + strings.Join(v.Plan.Replicas, ", ") + " all the same, set the annotation " + v1alpha1.AnnotationApprove + " to " + v.Plan.Digest + "."
}

// guard says what keeps a replica that has the data from being given up without a person; nothing when nothing does. At most one is given
// up at a time, and at least half of those that have the data serve without it.
func (v view) guard(r judged) string {
	good, all := v.others(r, isSynced), v.count(func(o judged) bool { return o.Filled || o.synced })
	// With as many as are wanted that have the data, one without it stands in for none that was given up.
	if fresh, ok := v.first(func(o judged) bool { return !o.Filled && !o.synced }); ok && all < v.Desired {
		return fmt.Sprintf("It is not given up before replica %s has the data.", fresh.Name)
	}
	if good*2 >= all {
		return ""
	}
	if v.mute {
		return "It is not given up: no replica ever told that it has the data, so this one may be the only copy."
	}
	return fmt.Sprintf("It is not given up: only %d of %d replicas with the data serve.", good, all)
}

// state says in a sentence how a replica is that will not serve again.
func (v view) state(r judged) string {
	if r.OutOfReach() {
		return v.outOfReach(r)
	}
	_, why := verdict(r)
	return fmt.Sprintf("Replica %s does not serve: %s.", r.Name, why)
}
