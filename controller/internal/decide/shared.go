package decide

import (
	"fmt"
	"slices"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// DiskIdentity tells a disk from every other one, on whichever node it is seen.
type DiskIdentity struct {
	WWN, Serial string
	SizeBytes   int64
}

// Identity returns what tells the device from every other one in the world, and reports whether it does: WWN, serial number and size are all
// there. One of them alone is not enough: cheap disks, and virtual ones, repeat serial numbers and WWNs.
func (d Device) Identity() (id DiskIdentity, certain bool) {
	return DiskIdentity{d.WWN, d.Serial, d.SizeBytes}, d.WWN != "" && d.Serial != "" && d.SizeBytes > 0
}

// Shared says that another node sees the device too: a sentence for a person.
func (d Device) Shared(other string) string {
	return fmt.Sprintf("Node %s sees the same disk (WWN %s, serial number %s), or did when its agent was last heard: two nodes must not write to one disk.",
		other, d.WWN, d.Serial)
}

// WithShared returns the node with a refusal on each device that another node sees too. other names one of these nodes; empty for none.
// Nothing overrules that refusal: a wipe would be one of another node's disk.
func (n Node) WithShared(other func(Device) string) Node {
	copied := false
	for i, d := range n.Devices {
		name := other(d)
		if name == "" {
			continue
		}
		if !copied {
			n.Devices, copied = slices.Clone(n.Devices), true
		}
		d.Refusals = append(slices.Clone(d.Refusals), v1alpha1.Refusal{Reason: v1alpha1.RefusalSharedDisk, Message: d.Shared(name)})
		d.Wipeable = false
		n.Devices[i] = d
	}
	return n
}

// Blank reports whether nothing that is on the device, or is done with it on its own node, keeps it from being taken.
func (d Device) Blank() bool {
	d.Refusals = slices.DeleteFunc(slices.Clone(d.Refusals), func(r v1alpha1.Refusal) bool { return r.Reason == v1alpha1.RefusalSharedDisk })
	return d.Takeable()
}
