package disk

import (
	"fmt"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Given is a device that is on record as that of an object which is no storage, and the object as a person knows it. Its record is all that says so: on the device
// nothing does.
type Given struct {
	Holder string
	Device v1alpha1.GlusterDevice
}

// GivenTo returns the devices that GlusterNodes have on record.
func GivenTo(nodes []v1alpha1.GlusterNode) []Given {
	var all []Given
	for i := range nodes {
		n := &nodes[i]
		for _, d := range n.Spec.Devices {
			all = append(all, Given{Holder: "GlusterNode " + n.Namespace + "/" + n.Name, Device: d})
		}
	}
	return all
}

// Same reports whether a device is the one on record: by its WWN and serial number, wherever it is plugged in.
func (g Given) Same(d decide.Device) bool {
	r := g.Device
	return (r.WWN != "" || r.Serial != "") && d.WWN == r.WWN && d.Serial == r.Serial
}

// May reports whether a device of a host may be the one on record: it is the same, or it has its WWN, or its path on its host.
func (g Given) May(host string, d decide.Device) bool {
	r := g.Device
	return g.Same(d) || r.WWN != "" && d.WWN == r.WWN || host == string(r.Node) && (d.Is(string(r.Path)) || d.Is(string(r.Device)))
}

// Taker is a step that may take devices which are nobody's so far.
type Taker interface {
	// Host that it happens on.
	Host() string
	// Takes returns these devices.
	Takes() []decide.Device
}

// GivenAway says which device that a step takes is on record as that of an object that is no storage; empty when none is.
func GivenAway(t Taker, all []Given) string {
	for _, d := range t.Takes() {
		if holder := HeldBy(all, t.Host(), d); holder != "" {
			return d.Path + " " + holder
		}
	}
	return ""
}

// HeldBy says whose a device of a host is, or may be, by the records of others; empty if it is nobody's.
func HeldBy(all []Given, host string, d decide.Device) string {
	for _, g := range all {
		if g.May(host, d) {
			return fmt.Sprintf("is on record as a device of %s", g.Holder)
		}
	}
	return ""
}
