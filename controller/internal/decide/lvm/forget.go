package lvm

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/disk"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// forgetAfter is how long a device with nothing on it has to be missing until its group forgets it without approval. One that returns later
// is refused, and has to be cleaned by hand.
const forgetAfter = 5 * time.Minute

// lacksDevice reports whether the member's group lacks a device.
func (h host) lacksDevice() bool { return len(h.groups) > 0 && h.groups[0].Partial }

// unfinished is the group with a move of extents that its agent leaves alone: nothing is made, grown or taken out there, and nobody but a person
// can end it.
func (h host) unfinished() backend.Finding {
	if len(h.groups) == 0 || h.groups[0].Moving == nil || h.groups[0].Moving.Left == "" {
		return backend.Finding{}
	}
	return bad(v1alpha1.ReasonMoveUnfinished, fmt.Sprintf("extents of volume group %s were being moved from one device to others, and that was not finished: %s; "+
		"the volumes work, and none is made or made larger until then", h.groups[0].Name, h.groups[0].Moving.Left))
}

// forget returns the step that makes the group go on without the devices that are missing, and when to look again. It names them, and what is
// lost with them.
func (h host) forget() (steps []Step, wake time.Duration) {
	g := h.groups[0]
	var missing []string
	for _, p := range g.PVs {
		if p.Path == "" {
			missing = append(missing, p.UUID)
		}
	}
	if len(missing) == 0 || len(missing) == len(g.PVs) {
		// What is back is taken into the group again by the agent.
		return nil, 0
	}
	slices.Sort(missing)
	step := h.work(disk.Choice{}).step(v1alpha1.ActionForgetMissingDevice, g.Name, nil,
		"If the device never comes back: the group goes on without it, and the volumes that had a part on it are lost.")
	step.Missing, step.Lost = missing, slices.Clone(g.PartialVolumes)
	slices.Sort(step.Lost)
	for _, d := range h.devices() {
		if d.State == v1alpha1.DeviceMissing {
			step.Shown.Devices = append(step.Shown.Devices, fmt.Sprintf("%s (%s, %s)", d.Path, cmp.Or(d.Identity, "no identity"), decide.Bytes(d.Size.Value())))
		}
	}
	step.Vanished = h.vanishedVolumes()
	slices.Sort(step.Vanished)
	step.Shown.Volumes = append(h.partialVolumes(g), step.Vanished...)
	if len(step.Vanished) > 0 {
		step.Reason += " No logical volume exists of some volumes that have to be there: the device may be the only place that knows of them."
	}
	left, harmless := h.patience(g)
	switch {
	case harmless && left <= 0:
		step.Harmless = true
		step.Reason = fmt.Sprintf("Nothing is on the device, and it has been missing for %s: the group goes on without it.", forgetAfter)
	case harmless:
		step.Reason = fmt.Sprintf("Nothing is on the device: the group goes on without it once it has been missing for %s, or when this is approved.", forgetAfter)
	}
	return []Step{step}, left
}

// patience returns how long the missing devices have to stay away until the group forgets them by itself. It never does so if something is,
// or may be, on one of them, if a device of the node may be one, or if a volume has vanished: older metadata knows nothing of it, and tells that
// the device is free.
func (h host) patience(g decide.Group) (left time.Duration, harmless bool) {
	if len(g.PartialVolumes) > 0 || len(h.vanishedVolumes()) > 0 || slices.ContainsFunc(h.node.Devices, mayHide) {
		return 0, false
	}
	for _, p := range g.PVs {
		if p.Path == "" && (p.SizeBytes == 0 || p.FreeBytes != p.SizeBytes) {
			return 0, false
		}
	}
	for _, d := range h.devices() {
		if d.State == v1alpha1.DeviceMissing {
			// devices fills in since when each one is missing.
			left = max(left, forgetAfter-h.view.seen.Now.Sub(h.watchedSince(d.MissingSince.Time)))
		}
	}
	return left, true
}

// vanishedVolumes are those that vanished tells of.
func (h host) vanishedVolumes() []string {
	var gone []string
	for _, v := range h.m.Volumes {
		if v.Expected && !h.givenUp(v) && !h.has(v) {
			gone = append(gone, v.String())
		}
	}
	return gone
}

// watchedSince returns since when it is seen without a break that a device is missing, of one that the status says is missing since then. The
// status may be of an earlier leader, or of a backup: nobody saw whether the device was there in between.
func (h host) watchedSince(status time.Time) time.Time {
	return slices.MaxFunc([]time.Time{status, h.view.seen.World.Started, h.node.Session}, time.Time.Compare)
}

// givenUp reports whether a volume is recorded in a group that a person gave up.
func (h host) givenUp(v backend.Volume) bool {
	r := h.m.Record()
	return r != nil && v.GroupUUID != "" && slices.Contains(r.Earlier, v.GroupUUID)
}

// earlierAway says whether the groups that were given up are away; nil when none was. They are only if the host answers, and says so without a doubt: the
// disks of one may be back. Its volumes serve then.
func (h host) earlierAway() *metav1.Condition {
	r := h.m.Record()
	if r == nil || len(r.Earlier) == 0 {
		return nil
	}
	is := func(s metav1.ConditionStatus, reason, message string) *metav1.Condition {
		c := backend.Condition(v1alpha1.ConditionGivenUpAbsent, s, reason, message)
		return &c
	}
	if !h.node.Up() {
		return is(metav1.ConditionUnknown, v1alpha1.ReasonGivenUpUnsure, "The node does not answer.")
	}
	// A group is told apart by its UUID alone: whose tag it has does not matter.
	listed := slices.Concat(h.node.Groups, h.node.OtherNodes)
	for _, uuid := range r.Earlier {
		at := h.whereabouts(uuid)
		switch {
		case slices.ContainsFunc(listed, func(g decide.Group) bool { return g.UUID == uuid }):
			return is(metav1.ConditionFalse, v1alpha1.ReasonGivenUpSeen, "Volume group with UUID "+uuid+" was given up, and is on this node.")
		case at != "":
			return is(metav1.ConditionFalse, v1alpha1.ReasonGivenUpSeen, "Volume group with UUID "+uuid+" was given up"+at+".")
		}
	}
	if why := doubt(h.node); why != "" {
		return is(metav1.ConditionUnknown, v1alpha1.ReasonGivenUpUnsure, "The node does not say for sure that no group that was given up is there: "+why+".")
	}
	return is(metav1.ConditionTrue, v1alpha1.ReasonGivenUpAbsent, "Nothing is seen of the volume groups that were given up: "+strings.Join(r.Earlier, ", ")+".")
}
