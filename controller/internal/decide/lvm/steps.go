package lvm

import (
	"fmt"
	"slices"
	"strings"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/disk"
	"quarry.storage/quarry/controller/internal/decide/lvm/retire"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// work is what the steps of one host are made of.
type work struct {
	node string
	// owner is the UID of the Cluster, name what its group is to be called.
	owner, name string
	// recorded is the UUID on record of the host's group; empty when there is none.
	recorded string
	// groups of the Cluster that exist on the host.
	groups []decide.Group
	// devices of the host.
	devices []decide.Device
	// choice of devices; a removal does not look at it.
	choice disk.Choice
	// pool that the group is to have; nil when none is wanted.
	pool *decide.ThinPoolSpec
}

// grow returns what to do on a host that stays, in order.
func (w work) grow() []Step {
	if len(w.groups) > 0 && w.groups[0].Partial {
		// Changing a group that lacks a disk could drop that disk's metadata for good.
		return nil
	}
	var steps []Step
	if len(w.choice.Take) > 0 {
		steps = append(steps, w.ensure(w.choice.Take))
	}
	steps = append(steps, w.growPool(len(w.choice.Take) > 0)...)
	for _, d := range w.choice.Wipe {
		// Taken one by one, right after its wipe: so the steps that are left after any interruption were all in the plan.
		steps = append(steps, w.wipe(d), w.ensure([]decide.Device{d}))
	}
	if len(w.choice.Wipe) > 0 {
		steps = append(steps, w.growPool(true)...)
	}
	for _, d := range w.choice.Release {
		steps = append(steps, w.reduce(d))
	}
	return steps
}

func (w work) step(action, group string, devices []decide.Device, reason string) Step {
	s := Step{Node: w.node, Owner: w.owner, Does: action, Group: group, Devices: devices, Reason: reason}
	if len(w.groups) > 0 && w.groups[0].Name == group {
		s.UUID = w.groups[0].UUID
	}
	return s
}

func (w work) ensure(devices []decide.Device) Step {
	reason := fmt.Sprintf("The spec chooses %s for the new volume group.", count(devices))
	if len(w.groups) > 0 {
		reason = fmt.Sprintf("The spec chooses %s to extend the volume group.", count(devices))
	}
	return w.step(v1alpha1.ActionEnsureVolumeGroup, w.group(), devices, reason)
}

// meaningful is the part of the wanted size that must be free before a pool that takes a share of the group is grown, and missing:
// growing takes room for metadata too, and must not be tried again and again when nothing comes of it.
const meaningful = 50

// growPool returns the step that makes or grows the thin pool, when one is needed. extended is true when a step before has just made
// or extended the group.
func (w work) growPool(extended bool) []Step {
	if w.pool == nil || len(w.groups) == 0 && !extended {
		return nil
	}
	want := *w.pool
	want.Group, want.Owner = w.group(), w.owner
	step := w.step(v1alpha1.ActionEnsureThinPool, w.group(), nil, "")
	step.ThinPool = &want
	var have decide.ThinPool
	exists := false
	if len(w.groups) > 0 {
		have, exists = w.groups[0].Pool(want.Name)
	}
	switch {
	case !exists:
		step.Reason = "The spec asks for a thin pool, and the group has none."
	case want.SizeBytes > have.SizeBytes:
		step.Reason = fmt.Sprintf("The spec asks for a larger thin pool: it has %s.", decide.Bytes(have.SizeBytes))
	case want.Percent > 0 && (extended || w.outgrown(want, have)):
		step.Reason = "The volume group is larger than the share that its thin pool takes."
	default:
		more := w.extension(have)
		if more == 0 {
			return nil
		}
		want.SizeBytes, want.Percent = have.SizeBytes+more, 0
		step.Reason = fmt.Sprintf("The thin pool is at least %d %% full, and the group has room.", v1alpha1.ThinPoolWarnPercent)
	}
	return []Step{step}
}

// fifth is the part of a pool that it grows by when it is nearly full, keptBack the part of its group that stays free then: a repair of the
// pool's metadata needs room, and so does the growth of the metadata itself.
const (
	fifth    = 5
	keptBack = 50
)

// extension returns by how much a pool that is nearly full grows; 0 if it is not, if nobody knows, or if there is no room to speak of. A pool
// that takes a share of its group grows with that, and never beyond its share.
func (w work) extension(have decide.ThinPool) int64 {
	most := max(have.DataPermyriad, have.MetadataPermyriad) / 100
	if w.pool.Percent > 0 || have.UsageUnknown || most < v1alpha1.ThinPoolWarnPercent {
		return 0
	}
	g := w.groups[0]
	more := min(have.SizeBytes/fifth, g.FreeBytes-g.SizeBytes/keptBack) / mib * mib
	if g.Partial || more < have.SizeBytes/meaningful {
		return 0
	}
	return more
}

// outgrown reports whether a pool that takes a share of the group lacks enough of it, and could get enough of it.
func (w work) outgrown(want decide.ThinPoolSpec, have decide.ThinPool) bool {
	g := w.groups[0]
	share := g.SizeBytes / 100 * int64(want.Percent)
	return min(share-have.SizeBytes, g.FreeBytes) > share/meaningful
}

func (w work) wipe(d decide.Device) Step {
	return w.step(v1alpha1.ActionWipeDevice, "", []decide.Device{d},
		fmt.Sprintf("It is listed under devices.wipe and not clean: %s.", disk.Why(d)))
}

func (w work) reduce(d decide.Device) Step {
	return w.step(v1alpha1.ActionReduceVolumeGroup, w.group(), []decide.Device{d},
		"devices.paths does not list this device any more, and nothing is stored there.")
}

// retire returns the step that moves extents off a device that is given up, or takes it out of the group.
func (w work) retire(o retire.Outcome) []Step {
	switch {
	case o.Release != nil:
		return []Step{w.step(v1alpha1.ActionReduceVolumeGroup, w.group(), []decide.Device{*o.Release}, "The Member lists it under spec.retire, and nothing is stored there.")}
	case o.Move != nil:
		s := w.step(v1alpha1.ActionMoveExtents, w.group(), []decide.Device{*o.Move}, "The Member lists it under spec.retire: what lies on it is moved to other devices of the group.")
		s.Avoid = o.Avoid
		return []Step{s}
	}
	return nil
}

// remove returns one step for each group of the Cluster, and one when no group is left but an interrupted call has left marks on
// devices.
func (w work) remove() []Step {
	const reason = "The host holds no volumes and is not used by the Cluster any more."
	var steps []Step
	for i, g := range w.groups {
		devices := w.devicesOf(g)
		if i == 0 {
			devices = w.withMarked(devices)
		}
		step := w.step(v1alpha1.ActionRemoveVolumeGroup, g.Name, devices, reason+leftBehind(g))
		step.UUID = g.UUID
		steps = append(steps, step)
	}
	if len(w.groups) == 0 {
		if devices := w.withMarked(nil); len(devices) > 0 {
			step := w.step(v1alpha1.ActionRemoveVolumeGroup, w.name, devices, reason)
			step.UUID = w.recorded
			steps = append(steps, step)
		}
	}
	return steps
}

// leftBehind says what of a group is missing and stays as it is when the group is removed; empty when it is complete. Agents remove a
// group that lacks a device only if it holds no volume, and if they are sure that the device is not there.
func leftBehind(g decide.Group) string {
	var gone []string
	for _, p := range g.PVs {
		if p.Path == "" {
			gone = append(gone, fmt.Sprintf("%s (%s)", p.UUID, decide.Bytes(p.SizeBytes)))
		}
	}
	if len(gone) == 0 {
		return ""
	}
	return fmt.Sprintf(" What is missing of the group is left behind as it is: physical volume %s.", strings.Join(gone, ", "))
}

func (w work) devicesOf(g decide.Group) []decide.Device {
	var devices []decide.Device
	for _, d := range w.devices {
		if g.Holds(d) {
			devices = append(devices, d)
		}
	}
	return devices
}

// withMarked adds the devices that an interrupted call for this Cluster has left marks on, recorded or not.
func (w work) withMarked(devices []decide.Device) []decide.Device {
	for _, d := range w.devices {
		// One that another node sees too may be what that node has begun with.
		if disk.Orphan(d, w.owner) && !d.RefusedFor(v1alpha1.RefusalSharedDisk) {
			devices = append(devices, d)
		}
	}
	slices.SortFunc(devices, func(a, b decide.Device) int { return strings.Compare(a.Path, b.Path) })
	return devices
}

// group returns the name that the group really has: an administrator may have renamed it, the tag decides.
func (w work) group() string {
	if len(w.groups) > 0 {
		return w.groups[0].Name
	}
	return w.name
}

func count(devices []decide.Device) string {
	if len(devices) == 1 {
		return "this device"
	}
	return fmt.Sprintf("these %d devices", len(devices))
}
