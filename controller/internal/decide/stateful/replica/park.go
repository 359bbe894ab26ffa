package replica

import "quarry.storage/quarry/pkg/api/v1alpha1"

// park ends the pods when none are wanted, one by one. The identities are all the copies that there are: they stay with their claims, and come back
// on them when some are wanted again. What has no claims has nothing to come back on.
func park(v view) *Decision {
	ending := v.leaving || v.count(func(r judged) bool { return r.Terminating && !r.OutOfReach() }) > 0
	for _, r := range v.live {
		switch {
		case r.Phase == Absent || r.Terminating || v.Blocked[r.Name]:
			continue
		case r.serves() && ending:
			return wait(v1alpha1.ReasonReplicaLeaving, "None are wanted; a replica is still ending.")
		case r.Claims == NoClaims:
			return v.part(r, Scaled, v1alpha1.ReasonScalingDown, "Replica %s is removed: none are wanted.", r.Name)
		}
		return remove(r, "", v1alpha1.ReasonScalingDown, "The pod of replica %s is removed: none are wanted. Its claims stay for it.", r.Name)
	}
	if ending {
		return wait(v1alpha1.ReasonReplicaLeaving, "None are wanted; a replica is still ending.")
	}
	return nil
}

// spare reports whether an identity without a pod need not come back now: there are more than wanted, as after scaling to none and back to fewer, and
// as many as are wanted run that have the data. It is given up when they serve.
func (v view) spare() bool {
	return len(v.live) > v.most() && v.count(func(r judged) bool { return r.Filled && r.Phase != Absent && r.health > Stuck }) >= v.Desired
}
