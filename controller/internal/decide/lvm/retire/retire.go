// Package retire decides how the devices leave a volume group that a person lists under spec.retire of its Member: what lies on them is moved to
// the other devices, then they are taken out. It is pure.
package retire

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Input is what the decision is made on.
type Input struct {
	// Node is what the agent reports.
	Node decide.Node
	// UID of the Cluster, and its group on the host; nil when there is none.
	UID   string
	Group *decide.Group
	// Devices are those that the Member lists, All those that any Member of the node lists.
	Devices, All []v1alpha1.RetiredDevice
}

// Outcome is what is to be done next, and what there is to say.
type Outcome struct {
	// Move is the device that extents are moved off, and Avoid the other devices of the group that nothing is moved to.
	Move  *decide.Device
	Avoid []string
	// Release is the device that is empty and leaves the group.
	Release *decide.Device
	// Condition says how far it is; nil when no device is listed.
	Condition *metav1.Condition
}

// verdict is what there is to say about one device. It has no reason when the device is given up for good.
type verdict struct{ reason, message string }

// Decide looks at the devices one by one. The first of which extents can be moved, or that can leave the group, has its turn.
func Decide(in Input) Outcome {
	var out Outcome
	if len(in.Devices) == 0 {
		return out
	}
	reason, status := v1alpha1.ReasonRetired, metav1.ConditionTrue
	var texts []string
	for _, r := range in.Devices {
		v := in.one(r, &out)
		if v.reason != "" && status == metav1.ConditionTrue {
			reason, status = v.reason, metav1.ConditionFalse
		}
		texts = append(texts, string(r.Path)+": "+v.message)
	}
	out.Condition = &metav1.Condition{Type: v1alpha1.ConditionRetired, Status: status, Reason: reason, Message: strings.Join(texts, "; ")}
	return out
}

// Silent returns the condition while nobody knows what is on the devices.
func Silent(devices []v1alpha1.RetiredDevice) *metav1.Condition {
	if len(devices) == 0 {
		return nil
	}
	return &metav1.Condition{
		Type: v1alpha1.ConditionRetired, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonAgentUnreachable,
		Message: "what lies on the devices is not known: the agent does not report it; no storage takes them",
	}
}

func (in Input) one(r v1alpha1.RetiredDevice, out *Outcome) verdict {
	d, ok := in.Node.Device(string(r.Path))
	switch {
	case !ok:
		return verdict{v1alpha1.ReasonDeviceNotFound, "no such device is on the node"}
	case !d.Retired(r):
		return verdict{v1alpha1.ReasonDeviceRefused, fmt.Sprintf("the device there has the serial number %q, not %q: it is not meant", d.Serial, r.Serial)}
	case d.OwnerUID != "" && d.OwnerUID != in.UID:
		return verdict{v1alpha1.ReasonDeviceConflict, "is in a volume group of another storage; list it under spec.retire of the Member there, too"}
	case in.Group != nil && in.Group.Holds(d):
		return in.held(d, out)
	case d.OwnerUID != "":
		return verdict{v1alpha1.ReasonVolumeGroupConflict, "is in a volume group of this storage that is not the one of this member: volumes may lie on it"}
	case d.PVUUID != "" || d.VolumeGroup != "":
		return verdict{v1alpha1.ReasonVolumeGroupUnknown, "carries a physical volume, and no volume group of this member is seen to hold it"}
	case d.Digest == "":
		return verdict{v1alpha1.ReasonVolumeGroupUnknown, "cannot be read, so what lies on it is not known"}
	}
	return verdict{"", "is in no volume group of this member; no storage takes it"}
}

// held decides about a device of the group.
func (in Input) held(d decide.Device, out *Outcome) verdict {
	used, room, avoid := in.measure(d)
	if v := in.fixed(used); v.reason != "" {
		return v
	}
	if used == 0 && in.Group.Moving != nil {
		return verdict{v1alpha1.ReasonRetiring, "is empty, and leaves the volume group once the move of extents there has ended"}
	}
	if used == 0 {
		if out.Move == nil && out.Release == nil {
			out.Release = &d
		}
		return verdict{v1alpha1.ReasonRetiring, "is empty, and leaves the volume group"}
	}
	if v := in.immovable(d, used, room); v.reason != "" {
		return v
	}
	if out.Move == nil && out.Release == nil {
		out.Move, out.Avoid = &d, avoid
	}
	text := decide.Bytes(used) + " are left to be moved to other devices of the volume group"
	if on := in.onItsWay(d); on > 0 {
		text += fmt.Sprintf("; %s of them are on their way", decide.Bytes(on))
	}
	return verdict{v1alpha1.ReasonRetiring, text}
}

// fixed says why no device can leave the group at all; without a reason when one can.
func (in Input) fixed(used int64) verdict {
	g := in.Group
	switch {
	case g.Unknown:
		return verdict{v1alpha1.ReasonVolumeGroupUnknown, "LVM cannot report the volume group; nothing is moved until it can"}
	case g.Partial:
		return verdict{v1alpha1.ReasonPartial, "a disk of the volume group is missing; nothing is moved until it is back or forgotten"}
	case len(g.PVs) == 1:
		return verdict{v1alpha1.ReasonDeviceRefused, "is the only device of the volume group: give the host another one first, or let it leave"}
	case g.Moving != nil && g.Moving.Left != "" && len(g.StaleVolumes) == 0:
		return verdict{v1alpha1.ReasonMoveUnfinished, fmt.Sprintf("holds %s, and a move of extents of the group was not finished: %s",
			decide.Bytes(used), g.Moving.Left)}
	}
	return verdict{}
}

// onItsWay is how much is being moved off a device at this moment.
func (in Input) onItsWay(d decide.Device) int64 {
	if m := in.Group.Moving; m != nil && d.Is(m.From) {
		return m.Bytes
	}
	return 0
}

// immovable says why what a device holds is not moved; without a reason when it can be.
func (in Input) immovable(d decide.Device, used, room int64) verdict {
	g := in.Group
	switch {
	case len(g.StaleVolumes) > 0:
		return verdict{v1alpha1.ReasonVolumeStale, fmt.Sprintf(
			"holds %s; volumes of the group lead to a disk that dropped off, and nothing is moved until the pods that have them open end", decide.Bytes(used))}
	case in.shared() != "":
		return verdict{v1alpha1.ReasonSharedDisk, fmt.Sprintf("holds %s; nothing is moved until this node alone sees %s", decide.Bytes(used), in.shared())}
	case len(g.Pools) > 0:
		return verdict{v1alpha1.ReasonThinPoolConflict, fmt.Sprintf(
			"holds %s, and the volume group has a thin pool: LVM cannot move its extents safely; copy the volumes elsewhere", decide.Bytes(used))}
	case g.Moving != nil && g.Moving.From != "" && !d.Is(g.Moving.From):
		// Older agents do not tell off which device.
		return verdict{v1alpha1.ReasonRetiring, fmt.Sprintf("holds %s, which are moved once those that are being moved off %s have arrived",
			decide.Bytes(used), g.Moving.From)}
	case room < used:
		return verdict{v1alpha1.ReasonNoRoom, fmt.Sprintf("holds %s, and the other devices of the volume group have room for %s: %s are short",
			decide.Bytes(used), decide.Bytes(room), decide.Bytes(used-room))}
	}
	return verdict{}
}

// measure returns what a device of the group holds, how much room the others have for it, and those that nothing is moved to.
func (in Input) measure(d decide.Device) (used, room int64, avoid []string) {
	for _, p := range in.Group.PVs {
		switch {
		case d.Is(p.Path):
			used = p.SizeBytes - p.FreeBytes
		case in.retired(p.Path), in.unsafe(p):
			avoid = append(avoid, p.Path)
		default:
			room += p.FreeBytes
		}
	}
	// What is on its way has its room already.
	return used, room + in.onItsWay(d), avoid
}

// shared is a device of the group that another node sees too; empty when there is none.
func (in Input) shared() string {
	for _, d := range in.Node.Devices {
		if in.Group.Holds(d) && d.RefusedFor(v1alpha1.RefusalSharedDisk) {
			return d.Path
		}
	}
	return ""
}

// unsafe reports whether nothing is to be moved to a device: it is not reported, or cannot be read.
func (in Input) unsafe(p decide.PV) bool {
	d, ok := in.Node.Device(p.Path)
	return !ok || d.RefusedFor(v1alpha1.RefusalUnreadable)
}

// retired reports whether a device of the group is listed. One that is not reported counts as meant, whatever its serial number is.
func (in Input) retired(path string) bool {
	d, ok := in.Node.Device(path)
	for _, r := range in.All {
		if ok && d.Retired(r) || !ok && path == string(r.Path) {
			return true
		}
	}
	return false
}
