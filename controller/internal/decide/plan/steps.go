// Package plan decides which steps are taken on the disks of hosts, and which of them wait for the user's approval.
package plan

import (
	"fmt"
	"slices"
	"strings"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/device"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Host is what the steps of one host are decided on.
type Host struct {
	Name string
	// Owner is the UID of the Cluster, GroupName what its group is called, or is to be called.
	Owner, GroupName string
	// Node is what the host's agent reports.
	Node decide.Node
	// Groups of the Cluster that exist on the host.
	Groups []decide.Group
	// Choice of devices; not looked at when the host is torn down.
	Choice device.Choice
	// ThinPool that the group is to have; nil when none is wanted.
	ThinPool *decide.ThinPoolSpec
	// Teardown is true when the host is abandoned.
	Teardown bool
}

// Steps returns what to do on the host, in order.
func (h Host) Steps() []decide.Step {
	if !h.Node.Up() {
		return nil
	}
	if h.Teardown {
		return h.remove()
	}
	if len(h.Groups) > 0 && h.Groups[0].Partial {
		// Changing a group that lacks a disk could drop that disk's metadata for good.
		return nil
	}
	var steps []decide.Step
	if len(h.Choice.Take) > 0 {
		steps = append(steps, h.ensure(h.Choice.Take))
	}
	steps = append(steps, h.pool(len(h.Choice.Take) > 0)...)
	for _, d := range h.Choice.Wipe {
		// Taken one by one, right after its wipe: so the steps that are left after any interruption were all in the plan.
		steps = append(steps, h.wipe(d), h.ensure([]decide.Device{d}))
	}
	if len(h.Choice.Wipe) > 0 {
		steps = append(steps, h.pool(true)...)
	}
	for _, d := range h.Choice.Release {
		steps = append(steps, h.reduce(d))
	}
	return steps
}

func (h Host) step(action, group string, devices []decide.Device, reason string) decide.Step {
	return decide.Step{Host: h.Name, Owner: h.Owner, Action: action, Group: group, Devices: devices, Reason: reason}
}

func (h Host) ensure(devices []decide.Device) decide.Step {
	reason := fmt.Sprintf("The spec chooses %s for the new volume group.", count(devices))
	if len(h.Groups) > 0 {
		reason = fmt.Sprintf("The spec chooses %s to extend the volume group.", count(devices))
	}
	return h.step(v1alpha1.ActionEnsureVolumeGroup, h.group(), devices, reason)
}

// meaningful is the part of the wanted size that must be free before a pool that takes a share of the group is grown, and missing:
// growing takes room for metadata too, and must not be tried again and again when nothing comes of it.
const meaningful = 50

// pool returns the step that makes or grows the thin pool, when one is needed. extended is true when the group has just been made or
// extended by a step before.
func (h Host) pool(extended bool) []decide.Step {
	if h.ThinPool == nil || len(h.Groups) == 0 && !extended {
		return nil
	}
	want := *h.ThinPool
	want.Group, want.Owner = h.group(), h.Owner
	step := h.step(v1alpha1.ActionEnsureThinPool, h.group(), nil, "")
	step.ThinPool = &want
	var have decide.ThinPool
	exists := false
	if len(h.Groups) > 0 {
		have, exists = h.Groups[0].Pool(want.Name)
	}
	switch {
	case !exists:
		step.Reason = "The spec asks for a thin pool, and the group has none."
	case want.SizeBytes > have.SizeBytes:
		step.Reason = fmt.Sprintf("The spec asks for a larger thin pool: it has %s.", decide.Bytes(have.SizeBytes))
	case want.Percent > 0 && (extended || h.outgrown(want, have)):
		step.Reason = "The volume group is larger than the share that its thin pool takes."
	default:
		return nil
	}
	return []decide.Step{step}
}

// outgrown says whether a pool that takes a share of the group lacks enough of it, and could get enough of it.
func (h Host) outgrown(want decide.ThinPoolSpec, have decide.ThinPool) bool {
	g := h.Groups[0]
	share := g.SizeBytes / 100 * int64(want.Percent)
	return min(share-have.SizeBytes, g.FreeBytes) > share/meaningful
}

func (h Host) wipe(d decide.Device) decide.Step {
	return h.step(v1alpha1.ActionWipeDevice, "", []decide.Device{d},
		fmt.Sprintf("It is listed under devices.wipe and not clean: %s.", device.Why(d)))
}

func (h Host) reduce(d decide.Device) decide.Step {
	return h.step(v1alpha1.ActionReduceVolumeGroup, h.group(), []decide.Device{d},
		"devices.paths does not list this device any more, and nothing is stored there.")
}

// remove returns one step for each group of the Cluster, and one when no group is left but an interrupted call
// has left marks on devices.
func (h Host) remove() []decide.Step {
	const reason = "The host holds no volumes and is not used by the Cluster any more."
	var steps []decide.Step
	for i, g := range h.Groups {
		devices := h.devicesOf(g)
		if i == 0 {
			devices = h.withMarked(devices)
		}
		steps = append(steps, h.step(v1alpha1.ActionRemoveVolumeGroup, g.Name, devices, reason+leftBehind(g)))
	}
	if len(h.Groups) == 0 {
		if devices := h.withMarked(nil); len(devices) > 0 {
			steps = append(steps, h.step(v1alpha1.ActionRemoveVolumeGroup, h.GroupName, devices, reason))
		}
	}
	return steps
}

// leftBehind says what of a group is missing and stays as it is when the group goes; empty when it is complete. Agents remove a group
// that lacks a device only if it holds no volume, and if they are sure that the device is not there.
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

func (h Host) devicesOf(g decide.Group) []decide.Device {
	var devices []decide.Device
	for _, d := range h.Node.Devices {
		if g.Holds(d) {
			devices = append(devices, d)
		}
	}
	return devices
}

// withMarked adds the devices that an interrupted call for this Cluster has left marks on, recorded or not.
func (h Host) withMarked(devices []decide.Device) []decide.Device {
	for _, d := range h.Node.Devices {
		if d.Orphan(h.Owner) {
			devices = append(devices, d)
		}
	}
	slices.SortFunc(devices, func(a, b decide.Device) int { return strings.Compare(a.Path, b.Path) })
	return devices
}

// group returns the name that the group really has: an administrator may have renamed it, the tag decides.
func (h Host) group() string {
	if len(h.Groups) > 0 {
		return h.Groups[0].Name
	}
	return h.GroupName
}

func count(devices []decide.Device) string {
	if len(devices) == 1 {
		return "this device"
	}
	return fmt.Sprintf("these %d devices", len(devices))
}
