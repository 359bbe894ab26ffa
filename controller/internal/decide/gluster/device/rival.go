package device

import (
	"fmt"
	"slices"
	"strings"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/disk"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/pvuuid"
	"quarry.storage/quarry/pkg/transport"
)

// against says what speaks against taking a disk, of which there is a record or none yet; empty when nothing does.
func (f Facts) against(d decide.Device, r *v1alpha1.GlusterDevice) (reason, why string) {
	switch {
	case d.OwnerUID != "":
		return v1alpha1.ReasonDeviceConflict, "it belongs to a storage"
	case !d.Clean() && (r == nil || !r.Given || !begun(d)):
		return v1alpha1.ReasonDeviceRefused, "it is not clean: " + disk.Why(d)
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

// begun reports whether nothing is on a disk but what a server leaves that was cut off while it registered the disk: a physical volume in no group.
func begun(d decide.Device) bool {
	return d.Digest != "" && d.VolumeGroup == "" && d.OwnerUID == "" && !slices.ContainsFunc(d.Refusals, func(r v1alpha1.Refusal) bool {
		return r.Reason != v1alpha1.RefusalLVM && r.Reason != v1alpha1.RefusalSettling
	})
}

// recorded says which other record is about a disk. Of two records for one disk the one counts whose disk was given, and else the earlier one.
func (f Facts) recorded(d decide.Device, r *v1alpha1.GlusterDevice) string {
	for i := range f.Node.Spec.Devices {
		own := &f.Node.Spec.Devices[i]
		if (r == nil || own.Device != r.Device) && (disk.Given{Device: *own}).May(f.Host, d) {
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
func (f Facts) first(r v1alpha1.GlusterDevice, other disk.Given) bool {
	o := other.Device
	switch {
	case r.Given && o.Given:
		return false
	case r.Given || o.Given:
		return r.Given
	case !r.Recorded.Equal(&o.Recorded):
		return r.Recorded.Before(&o.Recorded)
	}
	return disk.GivenTo([]v1alpha1.GlusterNode{*f.Node})[0].Holder < other.Holder
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

// isOSD reports whether a disk is an OSD of a Member, or has the path of one on the same host.
func isOSD(m *v1alpha1.Member, d decide.Device, here bool) bool {
	return m.Spec.Ceph != nil && slices.ContainsFunc(m.Spec.Ceph.OSDs, func(o v1alpha1.MemberOSD) bool {
		return (o.WWN != "" || o.Serial != "") && o.WWN == d.WWN && o.Serial == d.Serial || here && d.Is(string(o.Path))
	})
}

func isLUN(m *v1alpha1.Member, d decide.Device) bool {
	l := m.Spec.Lun
	return l != nil && (l.WWID == d.WWN || l.Serial != "" && l.Serial == d.Serial)
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
		return m.Spec.Group != nil && m.Spec.Group.UUID != "" || m.Spec.Ceph != nil && len(m.Spec.Ceph.OSDs) > 0
	})
}
