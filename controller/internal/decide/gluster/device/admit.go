package device

import (
	"fmt"
	"slices"
	"strings"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/disk"
	"quarry.storage/quarry/controller/internal/decide/gluster/workload"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/refusal"
)

// await has the agent look at a disk before anything else is done with it.
func (f Facts) await(v Verdict, one decide.Device) Verdict {
	v.look = one.Path
	return no(v, v1alpha1.ReasonPending, "the agent of node %s has to look at %s at that moment", f.Host, disk.Describe(one))
}

// admit says whether a disk that is allocated comes into a template that does not have it. The record may come from a restore: so the agent has to look, and to find the disk clean, or with nothing but
// what this server leaves on it.
func (f Facts) admit(v Verdict, r v1alpha1.GlusterDevice) Verdict {
	v.granted = false
	switch {
	case !f.Agent.Up():
		return unknown(v, v1alpha1.ReasonAgentUnreachable, "the agent of node %s is not heard, and no server newly gets a disk that nobody looks at: %s", f.Host, orNothing(f.Agent.Problem))
	case f.Agent.LVMError != "":
		return unknown(v, v1alpha1.ReasonPending, "LVM cannot be run on node %s: %s", f.Host, f.Agent.LVMError)
	}
	one, reason, why := f.find(r)
	if why != "" {
		v.away = v.sight == another || v.sight == missing && f.lasts(f.Agent.Session) && f.lasts(f.Missing[r.Device])
		return no(v, reason, "%s", why)
	}
	if !served(one, r) {
		if reason, why := f.against(one, &r); why != "" {
			return no(v, reason, "%s", why)
		}
	}
	if !f.Looked[r.Device] {
		return f.await(v, one)
	}
	v.granted = true
	return v
}

// served reports whether the volume group that glusterd2 makes for this very record is on a disk, and nothing speaks against the disk but what comes of that. Its volumes may be active still,
// and then nobody opens it exclusively.
func served(d decide.Device, r v1alpha1.GlusterDevice) bool {
	if d.OwnerUID != "" || d.Digest == "" || d.VolumeGroup != workload.Group(workload.Disk(r)) {
		return false
	}
	return !slices.ContainsFunc(d.Refusals, func(one v1alpha1.Refusal) bool {
		switch one.Reason {
		case v1alpha1.RefusalLVM, v1alpha1.RefusalHeld:
			return false
		case v1alpha1.RefusalBusy:
			return one.Message != refusal.NotExclusive || !d.RefusedFor(v1alpha1.RefusalHeld)
		}
		return true
	})
}

// find returns the disk that is on record, or why it cannot be used.
func (f Facts) find(r v1alpha1.GlusterDevice) (one decide.Device, reason, why string) {
	on := disk.Record{Device: r}
	var same []decide.Device
	for _, d := range f.Agent.Devices {
		if on.Is(f.Host, d) {
			same = append(same, d)
		}
	}
	at, there := f.Agent.Device(string(r.Path))
	switch {
	case there && !on.Is(f.Host, at):
		return one, v1alpha1.ReasonDeviceConflict, fmt.Sprintf("%s is another disk than the one on record, which is %s", disk.Describe(at), identity(r))
	case len(same) == 0:
		return one, v1alpha1.ReasonDeviceNotFound, fmt.Sprintf("the disk on record, %s, is not on node %s", identity(r), r.Node)
	case len(same) > 1:
		return one, v1alpha1.ReasonDeviceConflict, fmt.Sprintf("%d devices of node %s say that they are the disk on record, %s", len(same), r.Node, identity(r))
	case !there:
		return one, v1alpha1.ReasonDeviceConflict, fmt.Sprintf("the disk on record, %s, has another name now: %s", identity(r), same[0].Path)
	}
	return at, "", ""
}

// identity is what a record has of a disk, for a person.
func identity(r v1alpha1.GlusterDevice) string {
	return strings.TrimSpace(strings.Join([]string{r.WWN, r.Serial}, " ")) + " of " + decide.Bytes(r.Size)
}
