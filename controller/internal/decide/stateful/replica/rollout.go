package replica

import (
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// rolling is true while replicas of an old template are to be replaced.
func (v view) rolling() bool { return !v.OnDelete && v.Desired > 0 && v.rest() > 0 }

// rest is how many replicas of an old template are to be changed.
func (v view) rest() int { return v.count(isOld) - v.Partition }

// alone is true while a change of the template would give up the only copy.
func (v view) alone() bool {
	return v.rolling() && v.Desired == 1 && v.Surge > 0 && v.count(func(r judged) bool { return !r.old && r.synced }) == 0
}

// rollout brings a changed template to the replicas.
func rollout(v view) *Decision {
	if !v.rolling() {
		return nil
	}
	if v.Surge == 0 {
		return again(v)
	}
	old := v.count(isOld)
	only := func(r judged) bool { return r.old && r.Filled }
	if r, ok := v.first(only); ok && v.alone() && v.count(func(r judged) bool { return only(r) && v.Plan.allows(r.Identity) }) == 0 {
		return askFirst(v, r)
	}
	fresh := func(r judged) bool { return !r.old && !r.whole() }
	if r, ok := v.first(fresh); ok && v.count(fresh) >= v.Surge {
		return arriving(v, r)
	}
	if len(v.live) < v.Desired+min(v.Surge, v.rest()) {
		return create("", v1alpha1.ReasonRolling, "A replica is made: the template has changed, and %d replicas have the old one.", old)
	}
	return rollOver(v)
}

// arriving waits for a replica of the changed template.
func arriving(v view, r judged) *Decision {
	if v.Futile > 0 && v.count(func(r judged) bool { return !r.old && r.serves() }) == 0 {
		return wait(v1alpha1.ReasonRolloutStalled, "The changed template makes no replica that becomes ready: %d were given up, %s is not ready yet.", v.Futile, r.Name)
	}
	return wait(v1alpha1.ReasonRolling, "The template has changed: %d replicas have the old one, and %s is not available yet.", v.count(isOld), r.Name)
}

// rollOver gives up one replica of the old template, for which a new one stands in that has the data.
func rollOver(v view) *Decision {
	old := v.count(isOld)
	victim, _ := v.first(isOld)
	stays := v.others(victim, judged.whole)
	switch {
	case v.Blocked[victim.Name]:
		return nil
	case victim.serves() && v.leaving:
		return wait(v1alpha1.ReasonRolling, "The template has changed: %d replicas have the old one, and another one is still ending.", old)
	case stays < v.Desired:
		return wait(v1alpha1.ReasonRolling, "The template has changed: %d replicas have the old one, and %d of %d are available without %s.", old, stays, v.Desired, victim.Name)
	}
	return v.part(victim, Rolled, v1alpha1.ReasonRolling, "Replica %s is removed: the template has changed, and a new replica is available.", victim.Name)
}

// again has the pods of the old template changed in place, or made anew on their claims, as many at a time as may be unavailable. No data is copied.
func again(v view) *Decision {
	old := v.count(isOld)
	victim, ok := v.first(func(r judged) bool { return r.old && !r.Terminating && !r.OutOfReach() })
	if !ok {
		return wait(v1alpha1.ReasonRolling, "The template has changed: %d replicas have the old one, and none of them can be changed now.", old)
	}
	down := v.others(victim, func(r judged) bool { return !r.whole() })
	switch {
	case v.Blocked[victim.Name]:
		return nil
	case down >= max(1, v.Unavailable) && v.count(func(r judged) bool { return !r.old && (r.health == Unhealthy || r.health == Stuck) }) > 0:
		return wait(v1alpha1.ReasonRolloutStalled, "The changed template makes no replica that becomes ready: %d replicas have the old one and are left alone.", old)
	case down >= max(1, v.Unavailable):
		return wait(v1alpha1.ReasonRolling, "The template has changed: %d replicas have the old one, and %d others are not available.", old, down)
	}
	if victim.Patchable && victim.Phase == Running {
		return &Decision{
			Action: Update, Victim: victim.Name, Identity: victim.Identity, Reason: v1alpha1.ReasonRolling,
			Message: "The pod of replica " + victim.Name + " is changed in place: its template has changed by images and annotations only.",
		}
	}
	return remove(victim, "", v1alpha1.ReasonRolling, "The pod of replica %s is made anew on its claims: the template has changed.", victim.Name)
}

// askFirst tells that the only copy is not given up for a change of the template.
func askFirst(v view, r judged) *Decision {
	text := ""
	if v.Plan != nil {
		text = " set the annotation " + v1alpha1.AnnotationApprove + " to " + v.Plan.Digest + ","
	}
	return wait(v1alpha1.ReasonApprovalNeeded,
		"The template has changed, and replica %s is the only one: a new one would begin without its data. To replace it all the same,%s or use updateStrategy OnDelete and delete its pod, "+
			"which is then made anew on its claims.", r.Name, text)
}
