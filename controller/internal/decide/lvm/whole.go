package lvm

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Whole returns what concerns the Cluster as a whole.
func (v *View) Whole(hosts []backend.HostHealth) backend.Whole {
	w := backend.Whole{
		Serves:  slices.ContainsFunc(hosts, func(h backend.HostHealth) bool { return h.Decided.Serves && !h.Flags.ShouldDestroy() }),
		Pending: "The StorageClass is made once a host holds a volume group.",
		Class:   v.own.spec.Class(), Warnings: poolsHealthy(hosts),
	}
	for _, volume := range v.seen.World.Volumes[""] {
		w.Holding = append(w.Holding, volume.String())
	}
	if strangers := v.strangers(hosts); len(strangers) > 0 {
		w.Notes = append(w.Notes, "spec.devices.wipe names no host of this Cluster: "+backend.Shorten(strangers, 10))
	}
	return w
}

// strangers are the hosts of consents to a wipe that the Cluster has nothing to do with: a name that was mistyped, most likely.
func (v *View) strangers(hosts []backend.HostHealth) []string {
	if v.own.spec.Devices == nil {
		return nil
	}
	var names []string
	for _, consent := range v.own.spec.Devices.Wipe {
		if !slices.ContainsFunc(hosts, func(h backend.HostHealth) bool { return h.Node == string(consent.Host) }) {
			names = append(names, string(consent.Host))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// poolsHealthy is for Clusters that have thin pools only. Nearly full pools still serve, so Ready does not depend on it.
func poolsHealthy(hosts []backend.HostHealth) []metav1.Condition {
	var lines, unknown []string
	pools := false
	for _, h := range hosts {
		pool := h.Decided.ThinPool
		if pool == nil || h.Removed {
			continue
		}
		pools = true
		switch {
		case !pool.Known():
			unknown = append(unknown, h.Node+": "+pool.Describe())
		case pool.NearlyFull:
			lines = append(lines, h.Node+": "+pool.Describe())
		}
	}
	switch {
	case !pools:
		return nil
	case len(lines) > 0:
		return []metav1.Condition{backend.Condition(v1alpha1.ConditionThinPoolsHealthy, metav1.ConditionFalse,
			v1alpha1.ReasonThinPoolNearlyFull, backend.Text(append(lines, unknown...)))}
	case len(unknown) > 0:
		return []metav1.Condition{backend.Condition(v1alpha1.ConditionThinPoolsHealthy, metav1.ConditionUnknown,
			v1alpha1.ReasonThinPoolUnknown, backend.Text(unknown))}
	}
	return []metav1.Condition{backend.Condition(v1alpha1.ConditionThinPoolsHealthy, metav1.ConditionTrue, v1alpha1.ReasonThinPoolsHealthy,
		fmt.Sprintf("Every thin pool is less than %d %% full.", v1alpha1.ThinPoolWarnPercent))}
}
