// Package osdrecord says which disk of a host an OSD on record is on, what the record of a disk is, and which disks carry OSDs that the monitors know and that
// are on no record. It is pure.
package osdrecord

import (
	"slices"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/osd"
)

// Device returns the device of a node that an OSD on record is on: by WWN and serial number where the disk has them, else by its path. A disk grows, and one that is smaller is another one.
func Device(n decide.Node, o v1alpha1.MemberOSD) (decide.Device, bool) {
	for _, d := range n.Devices {
		if Is(d, o) {
			return d, true
		}
	}
	return decide.Device{}, false
}

// Is reports whether a device is the one that an OSD on record is on, if both are of the same node.
func Is(d decide.Device, o v1alpha1.MemberOSD) bool {
	if Nameless(o) {
		return d.Is(string(o.Path)) && d.SizeBytes >= o.Size
	}
	return d.WWN == o.WWN && d.Serial == o.Serial && d.SizeBytes >= o.Size && d.Type == "disk"
}

// Nameless reports whether the disk of a record has neither a WWN nor a serial number, so that nothing but its path tells it from others.
func Nameless(o v1alpha1.MemberOSD) bool { return o.WWN == "" && o.Serial == "" }

// Has reports whether an OSD is on a record. A Member without one has none.
func Has(r *v1alpha1.MemberCeph, uuid string) bool {
	return r != nil && slices.ContainsFunc(r.OSDs, func(o v1alpha1.MemberOSD) bool { return o.UUID == uuid })
}

// HasTaken reports whether a path names a disk that is on record.
func HasTaken(n decide.Node, r v1alpha1.MemberCeph, path string) bool {
	return slices.ContainsFunc(r.OSDs, func(o v1alpha1.MemberOSD) bool {
		d, there := Device(n, o)
		return there && d.Is(path)
	})
}

// New is the record of a device of a node that becomes an OSD of a Ceph cluster. The error says why it can become none.
func New(fsid, node string, d decide.Device, encrypted bool) (v1alpha1.MemberOSD, error) {
	uuid, err := osd.UUID(fsid, identity(node, d), d.Path)
	return of(d, uuid, encrypted), err
}

// Adopted is the record of an OSD that a device carries already.
func Adopted(d decide.Device, uuid string, encrypted bool) v1alpha1.MemberOSD {
	o := of(d, uuid, encrypted)
	// Its disk was encrypted with some key, and no other is made.
	o.Keyed = encrypted
	return o
}

func of(d decide.Device, uuid string, encrypted bool) v1alpha1.MemberOSD {
	return v1alpha1.MemberOSD{UUID: uuid, Path: v1alpha1.DevicePath(d.Path), WWN: d.WWN, Serial: d.Serial, Size: d.SizeBytes, Encrypted: encrypted}
}

func identity(node string, d decide.Device) osd.Disk {
	return osd.Disk{WWN: d.WWN, Serial: d.Serial, SizeBytes: d.SizeBytes, Node: node}
}
