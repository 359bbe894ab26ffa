package disk

import (
	"cmp"
	"fmt"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Record is that of a device of an object which is no storage, and the object as a person knows it. It is all that says whose the device is: on the device nothing does.
type Record struct {
	Holder string
	Device v1alpha1.GlusterDevice
}

// GlusterNode is how the name begins of a GlusterNode that has devices on record.
const GlusterNode = "GlusterNode "

// RecordsOf returns the devices that GlusterNodes have on record.
func RecordsOf(nodes []v1alpha1.GlusterNode) []Record {
	var all []Record
	for i := range nodes {
		n := &nodes[i]
		for _, d := range n.Spec.Devices {
			all = append(all, Record{Holder: GlusterNode + n.Namespace + "/" + n.Name, Device: d})
		}
	}
	return all
}

// Is reports whether a device of a node is the one on record. On the node on record each fact on record has to be that of the device; one that was allocated may have grown, as virtual
// disks do. Another node sees the same disk only where WWN, serial number and size are all on record and equal: two disks may have one of them in common.
func (r Record) Is(node string, d decide.Device) bool {
	if node != string(r.Device.Node) {
		seen, certain := d.Identity()
		return certain && seen == decide.DiskIdentity{WWN: r.Device.WWN, Serial: r.Device.Serial, SizeBytes: r.Device.Size}
	}
	return r.named(d) && (d.SizeBytes == r.Device.Size || r.Device.Allocated && d.SizeBytes > r.Device.Size)
}

// named reports whether a device has the WWN and the serial number on record. One of the two may not be on record, and is then not compared.
func (r Record) named(d decide.Device) bool {
	w, s := r.Device.WWN, r.Device.Serial
	return (w != "" || s != "") && (w == "" || w == d.WWN) && (s == "" || s == d.Serial)
}

// May reports whether a device of a node may be the one on record: it is, or it is on the same node and has its path, its WWN, or what is on record of its names.
func (r Record) May(node string, d decide.Device) bool {
	if r.Is(node, d) {
		return true
	}
	w := r.Device.WWN
	return node == string(r.Device.Node) && (d.Is(string(r.Device.Path)) || d.Is(string(r.Device.Device)) || w != "" && w == d.WWN || r.named(d))
}

// Taker is a step that may take devices which are nobody's so far.
type Taker interface {
	// Host that it is about, and Via the one that a step of the whole happens on.
	Host() string
	Via() string
	// Takes returns these devices.
	Takes() []decide.Device
}

// TakesRecorded says which device that a step takes is, or may be, on record as that of an object that is no storage; empty when none is.
func TakesRecorded(t Taker, all []Record) string {
	for _, d := range t.Takes() {
		if holder := HeldBy(all, cmp.Or(t.Host(), t.Via()), d); holder != "" {
			return d.Path + " " + holder
		}
	}
	return ""
}

// HeldBy says whose a device of a node is, or may be, by the records of others; empty if it is nobody's.
func HeldBy(all []Record, node string, d decide.Device) string {
	for _, r := range all {
		if r.May(node, d) {
			return fmt.Sprintf("is on record as a device of %s", r.Holder)
		}
	}
	return ""
}
