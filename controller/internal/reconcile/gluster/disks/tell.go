package disks

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/gluster"
	"quarry.storage/quarry/controller/internal/decide/gluster/device"
	"quarry.storage/quarry/controller/internal/decide/gluster/node"
	"quarry.storage/quarry/controller/internal/decide/gluster/workload"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Tell has the facts about a node say what was decided about its disks; nil when nobody could decide. pod: its server has one.
func Tell(f *node.Facts, d *device.Decision, pod bool) {
	f.Disks = &metav1.Condition{Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonPending, Message: "Whose the disks of the node are could not be looked up."}
	if d != nil {
		f.Disks = new(d.Condition())
	}
	f.Barred, f.Unfit = map[string]node.Bar{}, map[string]node.Bar{}
	for _, r := range f.Node.Spec.Devices {
		path := workload.Disk(r)
		if d == nil {
			f.Barred[path] = node.Bar{Reason: f.Disks.Reason, Why: f.Disks.Message}
			f.Unclear = append(f.Unclear, path)
			continue
		}
		if may, reason, why := d.Registers(r.Device); !may {
			f.Barred[path] = node.Bar{Reason: cmp.Or(reason, f.Disks.Reason), Why: cmp.Or(why, f.Disks.Message)}
		}
		if !r.Allocated {
			continue
		}
		switch fit, reason, why := d.Fit(r.Device); {
		case fit == gluster.No:
			f.Unfit[path] = node.Bar{Reason: reason, Why: fmt.Sprintf("%s: %s", r.Path, why), Contested: d.Contested(r.Device)}
		case fit == gluster.Unknown, !pod:
			f.Unclear = append(f.Unclear, path)
		case slices.Contains(f.Unseen, path):
			f.Unfit[path] = node.Bar{Reason: v1alpha1.ReasonPending, Why: fmt.Sprintf(
				"%s: the disk is there, and the server has it once its pod is replaced (PodCurrent): if that waits for this disk, delete the pod when no volume needs the node", r.Path,
			)}
		}
	}
}
