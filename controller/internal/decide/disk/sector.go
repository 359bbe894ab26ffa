package disk

import (
	"fmt"
	"slices"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// matchSectors leaves out what cannot be in one group: agents refuse disks with logical sectors of different sizes, because LVM does. The
// disks of the group outrank others. Where there is no group yet, nobody can say which of them are meant, and none is taken.
func (c *Choice) matchSectors(in Input) {
	measure := c.Owned
	if len(measure) == 0 {
		measure = slices.Concat(c.Take, c.Wipe)
	}
	fits := func(d decide.Device) bool {
		i := slices.IndexFunc(measure, func(m decide.Device) bool { return m.LogicalSectorBytes != d.LogicalSectorBytes })
		if i < 0 {
			return true
		}
		c.pass(in, d, fmt.Sprintf("has logical sectors of %d bytes, %s of %d, and a volume group has disks of one kind: choose with devices.paths or devices.model",
			d.LogicalSectorBytes, measure[i].Path, measure[i].LogicalSectorBytes))
		return false
	}
	c.Take, c.Wipe = keepIf(c.Take, fits), keepIf(c.Wipe, fits)
}

func keepIf(devices []decide.Device, ok func(decide.Device) bool) []decide.Device {
	var out []decide.Device
	for _, d := range devices {
		if ok(d) {
			out = append(out, d)
		}
	}
	return out
}

// pass notes a device that nothing speaks against, and that is not taken all the same. It is a problem when the spec names it.
func (c *Choice) pass(in Input, d decide.Device, why string) {
	r := Refused{d.Path, v1alpha1.ReasonDeviceRefused, why}
	if in.Claim.names(d) {
		c.Problems = append(c.Problems, r)
		return
	}
	c.Passed = append(c.Passed, r)
}
