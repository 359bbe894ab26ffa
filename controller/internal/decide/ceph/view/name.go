package view

import (
	"slices"
	"strconv"
	"strings"

	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
)

// MonitorsMade is how many monitors a Cluster ever gave a name to, as far as its own record and those of its Members say: the former may be lost.
func MonitorsMade(c *v1alpha1.Cluster, members []v1alpha1.Member) int {
	made := 0
	uid, count, ok := strings.Cut(c.Annotations[v1alpha1.AnnotationCephMonitors], "/")
	if n, err := strconv.Atoi(count); ok && err == nil && uid == string(c.UID) {
		made = max(made, n)
	}
	for i := range members {
		r := record(&members[i])
		for _, name := range slices.Concat(r.Swept, monitorOf(r)) {
			made = max(made, cephname.Number(name)+1)
		}
	}
	return made
}

// next is the name of the next monitor, which none that anybody has ever seen has.
func (v *View) next() string {
	members := make([]v1alpha1.Member, 0, len(v.members))
	for _, m := range v.members {
		members = append(members, *m)
	}
	made := MonitorsMade(v.seen.Cluster, members)
	for _, d := range v.of(cephname.DaemonMonitor) {
		made = max(made, cephname.Number(d.ID)+1)
	}
	for name := range v.seen.Workloads.Sweeps {
		made = max(made, cephname.Number(name)+1)
	}
	if t := v.seen.Ceph; t != nil && t.Quorum != nil {
		for _, m := range t.Quorum.Monitors {
			made = max(made, cephname.Number(m.Name)+1)
		}
	}
	return cephname.Letters(made)
}
