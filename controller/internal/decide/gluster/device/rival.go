package device

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/disk"
	"quarry.storage/quarry/controller/internal/decide/gluster/workload"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/pvuuid"
	"quarry.storage/quarry/pkg/refusal"
	"quarry.storage/quarry/pkg/transport"
)

// against says what speaks against taking a disk, of which there is a record or none yet; empty when nothing does.
func (f Facts) against(d decide.Device, r *v1alpha1.GlusterDevice) (reason, why string) {
	switch {
	case d.OwnerUID != "":
		return v1alpha1.ReasonDeviceConflict, "it belongs to a storage"
	case !d.Clean() && (r == nil || !r.Allocated || !f.begun(d, *r)):
		return v1alpha1.ReasonDeviceRefused, "it is not clean: " + disk.Why(d) + f.mayServe(d, r)
	case d.Type != "disk":
		return v1alpha1.ReasonDeviceRefused, "it is no whole disk"
	case !strings.HasPrefix(d.Path, byID):
		return v1alpha1.ReasonDeviceRefused, "it has no name below " + byID + " that stays the same"
	case d.WWN == "" && d.Serial == "":
		return v1alpha1.ReasonDeviceRefused, "it has neither a WWN nor a serial number, so that nobody could tell it from another disk"
	case transport.OnRequest(d.Transport):
		return v1alpha1.ReasonDeviceRefused, fmt.Sprintf("it is attached over %s: other machines may write on it, or it does not stay", d.Transport)
	}
	for _, rival := range []string{f.recorded(d, r), f.members(d), f.clusters(d)} {
		if rival != "" {
			return v1alpha1.ReasonDeviceConflict, rival
		}
	}
	return "", ""
}

// holder says who else has a disk that was allocated: the record alone may be of an earlier time. It is asked of the disk as the agent shows it, and of the record where the agent does not.
// What a Cluster only chooses is not its own. It is empty when nobody else has it.
func (f Facts) holder(r v1alpha1.GlusterDevice) string {
	d := decide.Device{Path: string(r.Path), Links: []string{string(r.Device)}, WWN: r.WWN, Serial: r.Serial, SizeBytes: r.Size}
	if one, there := f.Agent.Device(d.Path); f.Agent.Up() && there && (disk.Record{Device: r}).Is(f.Host, one) {
		d = one
	}
	if d.OwnerUID != "" {
		return "it belongs to a storage"
	}
	return cmp.Or(f.recorded(d, &r), f.members(d))
}

// owner says which storage has a disk that is on record here, and that no server of this node ever had; empty when none does, or nobody can tell. A Cluster may put a disk on record at the moment at which this
// node does: its step is refused then because of this record, and the server never gets the disk because of that one. So this record is the one that yields.
func (f Facts) owner(r v1alpha1.GlusterDevice) string {
	d, _, why := f.find(r)
	if why != "" || !f.Absent[r.Device] || slices.Contains(f.Pod.Has, string(r.Path)) || mounted(d, r) || d.VolumeGroup == workload.Group(workload.Disk(r)) {
		// A record may be of an earlier time than the server, as in a restore: what it has it keeps.
		return ""
	}
	if d.OwnerUID != "" || f.orphaned(d) {
		return "a storage has begun with the disk"
	}
	here := func(m v1alpha1.Member) bool { return string(m.Spec.Node) == f.Host }
	i := slices.IndexFunc(f.Members, func(m v1alpha1.Member) bool { return isOSD(&m, d, here(m)) || isLUN(&m, d) || here(m) && forms(&m, d) })
	if i < 0 {
		return ""
	}
	return fmt.Sprintf("Member %s has the disk on record", f.Members[i].Name)
}

// withdraw takes a record off that yields to a storage's, once the API server itself says the same.
func (f Facts) withdraw(v Verdict, r v1alpha1.GlusterDevice) Verdict {
	v.withdrawn, v.asks = f.Live, !f.Live
	return no(v, v1alpha1.ReasonDeviceConflict, "%s", f.owner(r))
}

// mayServe warns of a disk that may have bricks on it: the server had it, or records were lost with a GlusterNode that is restored, or made anew, without spec.devices. It is empty when
// nothing points to that.
func (f Facts) mayServe(d decide.Device, r *v1alpha1.GlusterDevice) string {
	switch {
	case r != nil && r.Allocated && d.RefusedFor(v1alpha1.RefusalLVM):
		return ". The server had it, so that its bricks may be there: do not wipe it"
	case r != nil && r.Allocated || !d.RefusedFor(v1alpha1.RefusalLVM) && f.Node.Spec.Pool == "" && !f.Node.Status.Joined:
		return ""
	}
	return ". If this node, or an earlier one of its name, ever served with this disk, do not wipe it: write spec.devices again, as docs/gluster.md says"
}

// begun reports whether nothing speaks against a disk but what comes of its own server: the device node that is mounted in the pod, and a physical volume in no group, which a
// server leaves that was cut off while it registered the disk. A disk that was not tested for users is none of these.
func (f Facts) begun(d decide.Device, r v1alpha1.GlusterDevice) bool {
	if f.orphaned(d) || d.Digest == "" || d.VolumeGroup != "" || d.OwnerUID != "" || len(d.Refusals) == 0 || d.RefusedFor(v1alpha1.RefusalLVM) && !f.ungrouped(d) {
		return false
	}
	return !slices.ContainsFunc(d.Refusals, func(one v1alpha1.Refusal) bool { return one.Reason != v1alpha1.RefusalLVM && !inPod(one, r) })
}

// mounted reports whether the agent says that the server's own pod has a disk, and nobody else.
func mounted(d decide.Device, r v1alpha1.GlusterDevice) bool {
	return slices.ContainsFunc(d.Refusals, func(one v1alpha1.Refusal) bool { return inPod(one, r) })
}

// inPod reports whether a refusal is about a mount in the server's own pod, and nothing else.
func inPod(one v1alpha1.Refusal, r v1alpha1.GlusterDevice) bool {
	return one.Reason == v1alpha1.RefusalBusy && refusal.OnlyMountedAt(one.Message, workload.Disk(r))
}

// orphaned reports whether a physical volume without a group has the UUID that a storage gives one of its own on the disk. What a storage begins with it takes, whichever disks it chooses now.
func (f Facts) orphaned(d decide.Device) bool {
	return slices.ContainsFunc(f.Clusters, func(c v1alpha1.Cluster) bool { return disk.Orphan(d, string(c.UID)) }) ||
		slices.ContainsFunc(f.Members, func(m v1alpha1.Member) bool { return disk.Orphan(d, string(m.Spec.Of.UID)) })
}

// ungrouped reports whether LVM itself says that the physical volume on a disk is in no group. A group that LVM cannot report may have it, and so may one that nobody can name.
func (f Facts) ungrouped(d decide.Device) bool {
	hidden := slices.ContainsFunc(f.Agent.Unknown, func(u decide.UnknownGroup) bool { return len(u.Devices) == 0 || slices.ContainsFunc(u.Devices, d.Is) })
	return d.PVUUID != "" && f.Agent.LVMError == "" && !hidden && !slices.ContainsFunc(f.Agent.Hiding, d.Is)
}

// recorded says which other record is about a disk. Of two records for one disk the one counts whose disk was allocated, and else the earlier one.
func (f Facts) recorded(d decide.Device, r *v1alpha1.GlusterDevice) string {
	for i := range f.Node.Spec.Devices {
		own := &f.Node.Spec.Devices[i]
		if r != nil && (own.Device == r.Device || r.Allocated && !own.Allocated) {
			continue
		}
		if (disk.Record{Device: *own}).May(f.Host, d) {
			return fmt.Sprintf("it is on record already, as device %s", own.Device)
		}
	}
	for _, g := range f.Others {
		if g.May(f.Host, d) && (r == nil || !f.first(*r, g)) {
			return fmt.Sprintf("it is on record as a device of %s", g.Holder)
		}
	}
	return ""
}

// first reports whether a record of this node outranks that of another one.
func (f Facts) first(r v1alpha1.GlusterDevice, other disk.Record) bool {
	o := other.Device
	switch {
	case r.Allocated && o.Allocated:
		return false
	case r.Allocated || o.Allocated:
		return r.Allocated
	case !r.Recorded.Equal(&o.Recorded):
		return r.Recorded.Before(&o.Recorded)
	}
	return disk.RecordsOf([]v1alpha1.GlusterNode{*f.Node})[0].Holder < other.Holder
}

// members says which Member has a disk on record, chose it, or gives it up.
func (f Facts) members(d decide.Device) string {
	for i := range f.Members {
		if m := &f.Members[i]; f.has(m, d) {
			return fmt.Sprintf("Member %s has it on record", m.Name)
		} else if string(m.Spec.Node) == f.Host && slices.ContainsFunc(m.Spec.Retire, d.Retired) {
			return fmt.Sprintf("it is retired by Member %s, which lists it under spec.retire", m.Name)
		}
	}
	return ""
}

func (f Facts) has(m *v1alpha1.Member, d decide.Device) bool {
	here := string(m.Spec.Node) == f.Host
	return isOSD(m, d, here) || isLUN(m, d) || here && (forms(m, d) || listed(m, d))
}

// isOSD reports whether a disk is, or may be, an OSD of a Member. As with records of disks, another machine has the same disk only where WWN, serial number and size say so.
func isOSD(m *v1alpha1.Member, d decide.Device, here bool) bool {
	return m.Spec.Ceph != nil && slices.ContainsFunc(m.Spec.Ceph.OSDs, func(o v1alpha1.MemberOSD) bool {
		seen, certain := d.Identity()
		if certain && seen == (decide.DiskIdentity{WWN: o.WWN, Serial: o.Serial, SizeBytes: o.Size}) {
			return true
		}
		named := (o.WWN != "" || o.Serial != "") && o.WWN == d.WWN && o.Serial == d.Serial
		return here && (named || d.Is(string(o.Path)))
	})
}

// isLUN reports whether a disk is, or may be, the LUN of a Member, whichever machine it is on. A name that one of the two does not tell is not compared.
func isLUN(m *v1alpha1.Member, d decide.Device) bool {
	l := m.Spec.Lun
	if l == nil {
		return false
	}
	agree := func(a, b string) bool { return a == "" || b == "" || a == b }
	return (d.WWN != "" && d.WWN == l.WWID || d.Serial != "" && d.Serial == l.Serial) && agree(d.WWN, l.WWID) && agree(d.Serial, l.Serial)
}

// forms reports whether the group of a Member is being made of a disk.
func forms(m *v1alpha1.Member, d decide.Device) bool {
	return m.Spec.Group != nil && slices.ContainsFunc(disk.Futures(d, string(m.Spec.Of.UID)), func(future string) bool {
		return slices.ContainsFunc(m.Spec.Group.Forming, func(forming string) bool { return forming == future || pvuuid.Fits(forming, future) })
	})
}

// listed reports whether a Member had a disk when it was last seen.
func listed(m *v1alpha1.Member, d decide.Device) bool {
	return slices.ContainsFunc(m.Status.Devices, func(o v1alpha1.MemberDevice) bool {
		return d.Is(o.Path) || o.Identity != "" && o.Identity == disk.Identity(d)
	})
}

// clusters says which Cluster chooses a disk by its spec.
func (f Facts) clusters(d decide.Device) string {
	for i := range f.Clusters {
		c := &f.Clusters[i]
		if !c.DeletionTimestamp.IsZero() {
			continue
		}
		if backend.Unreadable(c.Common()) != "" {
			return fmt.Sprintf("which hosts Cluster %s chooses cannot be told", c.Name)
		}
		claim := disk.Claim{
			Name: c.Name, UID: string(c.UID), Created: c.CreationTimestamp.Time, Selector: c.Spec.Devices, Host: f.Host, Joined: f.joined(c),
		}
		if backend.Wants(c.Common(), backend.Node{Name: f.Host, Exists: true, Labels: f.Labels}) && claim.Wants(d) {
			return fmt.Sprintf("it is chosen by the spec of Cluster %s", c.Name)
		}
	}
	return ""
}

// joined reports whether a Cluster has a part on the host on record. One that does not say which disks it means takes no others from then on.
func (f Facts) joined(c *v1alpha1.Cluster) bool {
	return slices.ContainsFunc(f.Members, func(m v1alpha1.Member) bool {
		if m.Spec.Of.UID != c.UID || string(m.Spec.Node) != f.Host {
			return false
		}
		return m.Spec.Group != nil && m.Spec.Group.UUID != "" || m.Spec.Ceph != nil && m.Spec.Ceph.HasJoined()
	})
}
