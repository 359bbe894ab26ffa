package lvm

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/disk"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/pvuuid"
	"quarry.storage/quarry/pkg/volumeid"
)

const mib = 1 << 20

// missingPrefix begins the path of a device that is missing and that nothing but the UUID of its physical volume tells of.
const missingPrefix = "missing:"

// measure fills in devices and space. A host that does not report keeps what its status has.
func (h host) measure(out *backend.Host) {
	if !h.known() {
		if o := h.m.Object; o != nil {
			out.ThinPool, out.Devices, out.Zeroing = o.Status.ThinPool, unwatched(o.Status.Devices), o.Status.Zeroing
		}
		return
	}
	out.Reports, out.Watched, out.Devices = true, true, h.devices()
	for _, g := range h.groups {
		out.Size, out.Free, out.Volumes = out.Size+g.SizeBytes, out.Free+g.FreeBytes, out.Volumes+len(g.Volumes)
		for _, z := range g.Zeroing {
			out.Zeroing = append(out.Zeroing, fmt.Sprintf("%s: %s of %s", z.Volume, decide.Bytes(z.ZeroedBytes), decide.Bytes(z.SizeBytes)))
		}
		for _, p := range g.Pools {
			// What is not taken in a pool is free for volumes too. LVM tells it in hundredths of a percent; a whole number of MiB is as
			// exact, can be read, and does not change with every write.
			if !p.UsageUnknown {
				out.Free += (p.SizeBytes - p.SizeBytes/10000*int64(p.DataPermyriad)) / mib * mib
			}
			if out.ThinPool == nil {
				out.ThinPool = new(p.Usage(h.poolBefore()))
			}
		}
	}
}

// poolBefore returns what the status shows of the pool; nil if it shows none.
func (h host) poolBefore() *v1alpha1.ThinPoolUsage {
	if h.m.Object == nil {
		return nil
	}
	return h.m.Object.Status.ThinPool
}

// devices returns the devices of the host's groups: those that are there, and those that are missing under the path that they had.
func (h host) devices() []v1alpha1.MemberDevice {
	out := []v1alpha1.MemberDevice{}
	var gone []decide.PV
	for _, g := range h.groups {
		for _, p := range g.PVs {
			if p.Path == "" {
				gone = append(gone, p)
				continue
			}
			out = append(out, h.present(p))
		}
	}
	switch {
	case len(gone) > 0:
		out = append(out, h.missing(gone, h.before(out))...)
	case len(h.groups) == 0 && !h.unused():
		// The whole group is not seen: its devices are those that it had.
		for _, d := range h.before(out) {
			out = append(out, h.again(d))
		}
	}
	slices.SortFunc(out, func(a, b v1alpha1.MemberDevice) int { return cmp.Compare(a.Path, b.Path) })
	return slices.CompactFunc(out, func(a, b v1alpha1.MemberDevice) bool { return a.Path == b.Path })
}

func (h host) present(p decide.PV) v1alpha1.MemberDevice {
	out := v1alpha1.MemberDevice{Path: p.Path, Size: *resource.NewQuantity(p.SizeBytes, resource.BinarySI), State: v1alpha1.DevicePresent}
	if d, ok := h.node.Device(p.Path); ok {
		out.Identity, out.Size = disk.Identity(d), *resource.NewQuantity(d.SizeBytes, resource.BinarySI)
	}
	return out
}

// before returns the devices in the status that are not among those that are there.
func (h host) before(present []v1alpha1.MemberDevice) []v1alpha1.MemberDevice {
	if h.m.Object == nil {
		return nil
	}
	var out []v1alpha1.MemberDevice
	for _, d := range h.m.Object.Status.Devices {
		same := func(p v1alpha1.MemberDevice) bool {
			return p.Path == d.Path || d.Identity != "" && p.Identity == d.Identity
		}
		if !slices.ContainsFunc(present, same) {
			out = append(out, d)
		}
	}
	return out
}

// missing tells which of the devices before carried the physical volumes that are gone. Where it cannot be told, the UUID of the physical
// volume stands for the path.
func (h host) missing(gone []decide.PV, before []v1alpha1.MemberDevice) []v1alpha1.MemberDevice {
	var out []v1alpha1.MemberDevice
	var left []decide.PV
	for _, p := range gone {
		i := slices.IndexFunc(before, func(d v1alpha1.MemberDevice) bool { return h.carried(d, p.UUID) })
		if i < 0 {
			left = append(left, p)
			continue
		}
		out = append(out, h.asMissing(before[i]))
		before = slices.Delete(slices.Clone(before), i, i+1)
	}
	before = slices.DeleteFunc(slices.Clone(before), func(d v1alpha1.MemberDevice) bool { return strings.HasPrefix(d.Path, missingPrefix) })
	for i, p := range left {
		if len(before) <= len(left) && i < len(before) {
			out = append(out, h.asMissing(before[i]))
			continue
		}
		out = append(out, v1alpha1.MemberDevice{
			Path: missingPrefix + p.UUID, Size: *resource.NewQuantity(p.SizeBytes, resource.BinarySI), State: v1alpha1.DeviceMissing,
			MissingSince: new(metav1.NewTime(h.view.seen.Now.Truncate(time.Second))),
		})
	}
	return out
}

// carried reports whether the status says, or proves, that a device carried a physical volume.
func (h host) carried(d v1alpha1.MemberDevice, uuid string) bool {
	size := d.Size.Value()
	return d.Path == missingPrefix+uuid ||
		pvuuid.Is(uuid, h.view.own.spec.UID(), pvuuid.Disk{Serial: d.Identity, SizeBytes: size}, d.Path) ||
		pvuuid.Is(uuid, h.view.own.spec.UID(), pvuuid.Disk{WWN: d.Identity, SizeBytes: size}, d.Path)
}

// asMissing returns a device that is missing, since when the status says, or since now.
func (h host) asMissing(d v1alpha1.MemberDevice) v1alpha1.MemberDevice {
	if d.State != v1alpha1.DeviceMissing || d.MissingSince == nil {
		d.MissingSince = new(metav1.NewTime(h.view.seen.Now.Truncate(time.Second)))
	}
	d.State = v1alpha1.DeviceMissing
	return d
}

// unwatched returns devices of which nobody knows whether they are missing still: how long they are counts anew.
func unwatched(devices []v1alpha1.MemberDevice) []v1alpha1.MemberDevice {
	out := slices.Clone(devices)
	for i := range out {
		out[i].MissingSince = nil
	}
	return out
}

// again returns a device of a group that is not seen. The device itself may be there.
func (h host) again(d v1alpha1.MemberDevice) v1alpha1.MemberDevice {
	d.State, d.MissingSince = v1alpha1.DeviceMissing, nil
	if now, ok := h.node.Device(d.Path); ok && disk.Identity(now) == d.Identity {
		d.State = v1alpha1.DevicePresent
	}
	return d
}

// missingPaths names the devices that are missing, as an addition to a message.
func (h host) missingPaths() string {
	var paths []string
	for _, d := range h.devices() {
		if d.State == v1alpha1.DeviceMissing {
			paths = append(paths, d.Path)
		}
	}
	if len(paths) == 0 {
		return ""
	}
	return " (" + backend.Shorten(paths, 10) + ")"
}

// partialVolumes names the volumes of a group that lack a part, with their claims where they have one.
func (h host) partialVolumes(g decide.Group) []string { return h.called(g, g.PartialVolumes) }

// called names volumes of a group by the objects that stand for them, where there are any. An object that records another group stands for none of them.
func (h host) called(g decide.Group, names []string) []string {
	var out []string
	for _, name := range names {
		text := name
		for _, v := range h.m.Volumes {
			if id, err := volumeid.Parse(v.Handle); err == nil && id.Node == h.m.Node && id.Name == name && (v.GroupUUID == "" || v.GroupUUID == g.UUID) {
				text = v.String()
			}
		}
		out = append(out, text)
	}
	return out
}

// unusable names the volumes that have to be there, and that no pod gets although their logical volumes exist.
func (h host) unusable() backend.Finding {
	var out []string
	for _, v := range h.m.Volumes {
		id, err := volumeid.Parse(v.Handle)
		if err != nil || id.Node != h.m.Node || !v.Expected || h.givenUp(v) {
			continue
		}
		for _, g := range h.groups {
			if v.GroupUUID != "" && v.GroupUUID != g.UUID || v.GroupUUID == "" && id.Group != g.Name && h.holds(id) {
				continue
			}
			if why := hindrance(g, id); why != "" && slices.Contains(g.Volumes, id.Name) {
				out = append(out, v.String()+": "+why)
			}
		}
	}
	if len(out) == 0 {
		return backend.Finding{}
	}
	return bad(v1alpha1.ReasonVolumeUnusable, "no pod that starts gets "+backend.Shorten(out, 5))
}

// holds reports whether a group of the name in a handle has a logical volume of the name in it.
func (h host) holds(id volumeid.ID) bool {
	return slices.ContainsFunc(h.groups, func(g decide.Group) bool { return g.Name == id.Group && slices.Contains(g.Volumes, id.Name) })
}

// hindrance says why the agent gives nobody the logical volume that a handle means; empty where nothing is known to be in the way. The agent compares the name of
// the group, and the id in the tag, with the handle.
func hindrance(g decide.Group, id volumeid.ID) string {
	at := g.Name + "/" + id.Name
	switch tag, other := g.OtherIDs[id.Name]; {
	case slices.Contains(g.RemovingVolumes, id.Name):
		return fmt.Sprintf("the removal of its logical volume %s has begun, and a part of what it held may be gone", at)
	case id.Group != g.Name:
		return fmt.Sprintf("its handle says volume group %s, and its logical volume is %s", id.Group, at)
	case other && tag != id.String():
		return fmt.Sprintf("its logical volume %s has not its handle as the one id (it has %q)", at, tag)
	}
	return ""
}

// mayHideOn returns the paths of the devices that the recorded group may be on while it is not seen: those that cannot be read, and those that
// it was on and that are neither clean nor left behind by an interrupted removal. What some groups have is theirs.
func (h host) mayHideOn(others ...decide.Group) []string {
	var where []string
	for _, d := range h.node.Devices {
		theirs := slices.ContainsFunc(others, func(g decide.Group) bool { return g.Holds(d) })
		if mayHide(d) || !theirs && h.carriedBefore(d) && !d.Blank() && !disk.Orphan(d, h.view.own.spec.UID()) {
			where = append(where, d.Path)
		}
	}
	return where
}

// carriedBefore reports whether the status lists a disk as one of the member's, and no other Cluster has taken it since.
func (h host) carriedBefore(d decide.Device) bool {
	if d.OwnerUID != "" && d.OwnerUID != h.view.own.spec.UID() || d.RefusedFor(v1alpha1.RefusalVirtual) || d.RefusedFor(v1alpha1.RefusalPartition) {
		return false
	}
	return slices.ContainsFunc(h.before(nil), func(b v1alpha1.MemberDevice) bool {
		if b.Identity != "" {
			return disk.Identity(d) == b.Identity
		}
		return d.Is(b.Path)
	})
}
