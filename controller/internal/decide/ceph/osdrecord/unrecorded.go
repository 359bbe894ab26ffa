package osdrecord

import (
	"cmp"
	"slices"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/osd"
)

// Suspect is a disk that may carry an OSD of the Cluster which no Member has on record.
type Suspect struct {
	// Node is where the disk is.
	Node   string
	Device decide.Device
	// Record is what the OSD gets on record. That the disk carries it is for its agent to say.
	Record v1alpha1.MemberOSD
}

// Key tells a suspect from all others: two disks may have one serial number, and one disk several names.
func (s Suspect) Key() string { return s.Node + "/" + s.Device.KernelName + "/" + s.Record.UUID }

// Unrecorded is a suspect whose OSD the monitors know.
type Unrecorded struct {
	Suspect
	// OSD is what the monitors know of it.
	OSD ceph.OSD
}

// Find returns these disks, ordered by node and as the agents tell of them. An OSD comes into that state if the API server is restored from a backup that is older than the OSD, and if
// somebody takes away the finalizer of a Member. The UUID of an OSD follows from its Cluster and its disk, so that no other disk is meant. One that grew since is not found.
func Find(clusterUID, fsid string, nodes map[string]decide.Node, members []*v1alpha1.Member, m *ceph.Map) []Unrecorded {
	if m == nil {
		return nil
	}
	unknown := slices.DeleteFunc(slices.Clone(m.OSDs), func(o ceph.OSD) bool { return o.UUID == "" || OnRecord(members, o.UUID) })
	if len(unknown) == 0 {
		return nil
	}
	var out []Unrecorded
	for _, member := range members {
		node := string(member.Spec.Node)
		if string(member.Spec.Of.UID) != clusterUID || !nodes[node].Up() {
			continue
		}
		for _, d := range nodes[node].Devices {
			if d.Clean() {
				continue
			}
			may := suspects(fsid, node, d)
			if onOwnRecord(node, nodes[node], d, members, may) {
				continue
			}
			if u, is := among(may, unknown); is {
				out = append(out, u)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Unrecorded) int { return cmp.Compare(a.Node, b.Node) })
	return out
}

// Suspects returns the disks of hosts that may carry an OSD of a Ceph cluster, whatever its monitors know, and that no Member has on record, ordered by node and as the agents tell of them: those with a sign of Ceph or of
// encryption, once for each UUID that an OSD there may have: one that only its path tells from others has one for each of its paths. A disk that grew since has another UUID.
func Suspects(fsid string, hosts []string, nodes map[string]decide.Node, members []*v1alpha1.Member) []Suspect {
	var out []Suspect
	for _, host := range hosts {
		node := nodes[host]
		if !node.Up() {
			continue
		}
		for _, d := range node.Devices {
			if !d.RefusedFor(v1alpha1.RefusalCeph) && !d.RefusedFor(v1alpha1.RefusalEncrypted) {
				continue
			}
			may := suspects(fsid, host, d)
			if onOwnRecord(host, node, d, members, may) {
				continue
			}
			for _, one := range may {
				twice := slices.ContainsFunc(out, func(o Suspect) bool { return o.Key() == one.Key() })
				if !twice && (!OnRecord(members, one.Record.UUID) || sameSerial(host, node, d, members, one.Record.UUID)) {
					out = append(out, one)
				}
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Suspect) int { return cmp.Compare(a.Node, b.Node) })
	return out
}

// among returns the suspect of a disk whose OSD the monitors know, and reports whether there is one. The UUID that this version makes goes before that of earlier versions, which disks of several hosts may share.
func among(may []Suspect, known []ceph.OSD) (Unrecorded, bool) {
	for _, s := range may {
		if i := slices.IndexFunc(known, func(o ceph.OSD) bool { return o.UUID == s.Record.UUID }); i >= 0 {
			return Unrecorded{s, known[i]}, true
		}
	}
	return Unrecorded{}, false
}

// onOwnRecord reports whether a Member of the host has a disk on record by one of its UUIDs, and none of the same serial number is taken for it.
func onOwnRecord(host string, node decide.Node, d decide.Device, members []*v1alpha1.Member, may []Suspect) bool {
	return slices.ContainsFunc(may, func(s Suspect) bool {
		return recordedOn(host, members, s.Record.UUID) && !sameSerial(host, node, d, members, s.Record.UUID)
	})
}

// suspects are one for each UUID that an OSD on a disk may have, that of this version first for each path. A map over the paths of a disk has its names, and is another device.
func suspects(fsid, host string, d decide.Device) (out []Suspect) {
	for _, path := range append([]string{d.Path}, d.Links...) {
		all, err := osd.UUIDs(fsid, identity(host, d), path)
		if err != nil {
			continue
		}
		for _, uuid := range all {
			if one := (Suspect{host, d, Adopted(d, uuid, d.RefusedFor(v1alpha1.RefusalEncrypted))}); Is(d, one.Record) {
				out = append(out, one)
			}
		}
	}
	return out
}

// sameSerial reports whether a Member has an OSD on record for another device of the node that has the same WWN and serial number: disks of cheap make repeat them, and this one may be the one that carries the OSD.
func sameSerial(host string, node decide.Node, d decide.Device, members []*v1alpha1.Member, uuid string) bool {
	for _, m := range members {
		if string(m.Spec.Node) != host || m.Spec.Ceph == nil {
			continue
		}
		for _, o := range m.Spec.Ceph.OSDs {
			if first, there := Device(node, o); o.UUID == uuid && there {
				return first.KernelName != d.KernelName
			}
		}
	}
	return false
}

// Fits reports whether an OSD has the UUID that one made on a device of a node has, by any name of the device.
func Fits(fsid, node string, d decide.Device, uuid string) bool {
	return osd.Is(uuid, fsid, identity(node, d), append([]string{d.Path}, d.Links...)...)
}

// recordedOn reports whether an OSD is on record of a Member of a host.
func recordedOn(host string, members []*v1alpha1.Member, uuid string) bool {
	return slices.ContainsFunc(members, func(m *v1alpha1.Member) bool { return string(m.Spec.Node) == host && Has(m.Spec.Ceph, uuid) })
}

// OnRecord reports whether an OSD is on record of any of these Members.
func OnRecord(members []*v1alpha1.Member, uuid string) bool {
	return slices.ContainsFunc(members, func(m *v1alpha1.Member) bool { return Has(m.Spec.Ceph, uuid) })
}
