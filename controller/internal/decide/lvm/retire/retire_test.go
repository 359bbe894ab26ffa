package retire

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

const gib = 1 << 30

func list(paths ...string) []v1alpha1.RetiredDevice {
	var out []v1alpha1.RetiredDevice
	for _, p := range paths {
		name, serial, _ := strings.Cut(p, "=")
		out = append(out, v1alpha1.RetiredDevice{Path: v1alpha1.DevicePath("/dev/disk/by-id/" + name), Serial: serial})
	}
	return out
}

func device(name, owner string) decide.Device {
	return decide.Device{Path: "/dev/disk/by-id/" + name, KernelName: name, Serial: "S" + name, OwnerUID: owner}
}

// otherRefused makes device b a refused one.
func otherRefused(reason string) func([]decide.Device) []decide.Device {
	return func(all []decide.Device) []decide.Device {
		for i := range all {
			if all[i].KernelName == "b" {
				all[i].Refusals = []v1alpha1.Refusal{{Reason: reason}}
			}
		}
		return all
	}
}

// movesOff is a move of extents off a device.
func movesOff(name, left string) func(*decide.Group) {
	return func(g *decide.Group) {
		g.Moving = &decide.Moving{Bytes: 256 << 20, From: "/dev/disk/by-id/" + name, Left: left}
	}
}

// TestDecide: every listed device is told of at once, and one at a time is worked on.
func TestDecide(t *testing.T) {
	for name, c := range map[string]struct {
		devices []v1alpha1.RetiredDevice
		node    func([]decide.Device) []decide.Device
		group   func(*decide.Group)
		move    string
		avoid   string
		release string
		status  metav1.ConditionStatus
		reason  string
		says    string
	}{
		"nothing is listed":        {},
		"it is moved":              {devices: list("a=Sa"), move: "a", status: "False", reason: v1alpha1.ReasonRetiring, says: "1Gi are left"},
		"two: one after the other": {devices: list("a", "c"), move: "a", avoid: "/dev/disk/by-id/c", status: "False", reason: v1alpha1.ReasonRetiring, says: "by-id/c: is empty"},
		"it is empty":              {devices: list("c"), release: "c", status: "False", reason: v1alpha1.ReasonRetiring, says: "leaves the volume group"},
		"no room":                  {devices: list("a", "b", "c"), release: "c", status: "False", reason: v1alpha1.ReasonNoRoom, says: "room for 0: 1Gi are short"},
		"unknown":                  {devices: list("y"), status: "False", reason: v1alpha1.ReasonDeviceNotFound, says: "no such device"},
		"another disk there":       {devices: list("a=other"), status: "False", reason: v1alpha1.ReasonDeviceRefused, says: "not meant"},
		"another storage's":        {devices: list("x"), status: "False", reason: v1alpha1.ReasonDeviceConflict, says: "another storage"},
		"not in the group":         {devices: list("z"), status: "True", reason: v1alpha1.ReasonRetired, says: "no storage takes it"},
		"in another group of ours": {devices: list("w"), status: "False", reason: v1alpha1.ReasonVolumeGroupConflict, says: "volumes may lie on it"},
		"in a group not seen":      {devices: list("v"), status: "False", reason: v1alpha1.ReasonVolumeGroupUnknown, says: "carries a physical volume"},
		"unreadable":               {devices: list("u"), status: "False", reason: v1alpha1.ReasonVolumeGroupUnknown, says: "cannot be read"},
		"a thin pool":              {devices: list("a"), group: func(g *decide.Group) { g.Pools = []decide.ThinPool{{Name: "p"}} }, status: "False", reason: v1alpha1.ReasonThinPoolConflict, says: "thin pool"},
		"a disk is missing":        {devices: list("a"), group: func(g *decide.Group) { g.Partial = true }, status: "False", reason: v1alpha1.ReasonPartial, says: "missing"},
		"a stale volume":           {devices: list("a"), group: func(g *decide.Group) { g.StaleVolumes = []string{"v"} }, status: "False", reason: v1alpha1.ReasonVolumeStale, says: "dropped off"},
		"some of it is on its way": {devices: list("a"), group: movesOff("a", ""), move: "a", status: "False", reason: v1alpha1.ReasonRetiring, says: "1Gi are left to be moved to other devices of the volume group; 256Mi of them are on their way"},
		"a move is left alone":     {devices: list("a"), group: movesOff("a", "a person began it"), status: "False", reason: v1alpha1.ReasonMoveUnfinished, says: "holds 1Gi, and a move of extents of the group was not finished: a person began it"},
		"so an empty one stays":    {devices: list("c"), group: movesOff("a", "a person began it"), status: "False", reason: v1alpha1.ReasonMoveUnfinished, says: "a person began it"},
		"another node sees a disk": {devices: list("a"), node: otherRefused(v1alpha1.RefusalSharedDisk), status: "False", reason: v1alpha1.ReasonSharedDisk, says: "/dev/disk/by-id/b"},
		"and the empty one leaves": {devices: list("c"), node: otherRefused(v1alpha1.RefusalSharedDisk), release: "c", status: "False", reason: v1alpha1.ReasonRetiring, says: "leaves"},
		"another is not readable":  {devices: list("a"), node: otherRefused(v1alpha1.RefusalUnreadable), move: "a", avoid: "/dev/disk/by-id/b", status: "False", reason: v1alpha1.ReasonRetiring, says: "1Gi are left"},
		"none other is readable": {
			devices: list("a", "c"), node: otherRefused(v1alpha1.RefusalUnreadable), release: "c", status: "False", reason: v1alpha1.ReasonNoRoom, says: "room for 0",
		},
		"another is not reported": {devices: list("a"), node: func(all []decide.Device) []decide.Device { return slices.Delete(all, 1, 2) }, move: "a", avoid: "/dev/disk/by-id/b", status: "False", reason: v1alpha1.ReasonRetiring, says: "1Gi are left"},
		"the only one":            {devices: list("a"), group: func(g *decide.Group) { g.PVs = g.PVs[:1] }, status: "False", reason: v1alpha1.ReasonDeviceRefused, says: "only device"},
		"LVM does not report":     {devices: list("a"), group: func(g *decide.Group) { g.Unknown = true }, status: "False", reason: v1alpha1.ReasonVolumeGroupUnknown, says: "cannot report"},
	} {
		t.Run(name, func(t *testing.T) {
			g := decide.Group{Name: "g", OwnerUID: "uid", PVs: []decide.PV{
				{Path: "/dev/disk/by-id/a", SizeBytes: 2 * gib, FreeBytes: gib},
				{Path: "/dev/disk/by-id/b", SizeBytes: 2 * gib, FreeBytes: gib},
				{Path: "/dev/disk/by-id/c", SizeBytes: 2 * gib, FreeBytes: 2 * gib},
			}}
			if c.group != nil {
				c.group(&g)
			}
			node := decide.Node{Devices: []decide.Device{
				device("a", "uid"), device("b", "uid"), device("c", "uid"), device("x", "other"), device("z", ""),
				device("w", "uid"), device("v", ""), device("u", ""),
			}}
			node.Devices[4].Digest, node.Devices[6].PVUUID = "v1:z", "pv"
			if c.node != nil {
				node.Devices = c.node(node.Devices)
			}
			out := Decide(Input{Node: node, UID: "uid", Group: &g, Devices: c.devices, All: c.devices})
			if kernelName(out.Move) != c.move || kernelName(out.Release) != c.release || strings.Join(out.Avoid, " ") != c.avoid {
				t.Errorf("move %q, avoid %q, release %q", kernelName(out.Move), out.Avoid, kernelName(out.Release))
			}
			if out.Condition == nil {
				out.Condition = &metav1.Condition{}
			}
			if o := out.Condition; o.Status != c.status || o.Reason != c.reason || !strings.Contains(o.Message, c.says) {
				t.Errorf("%+v", o)
			}
		})
	}
}

func TestSilent(t *testing.T) {
	if Silent(nil) != nil || Silent(list("a")).Status != metav1.ConditionUnknown {
		t.Error(Silent(list("a")))
	}
}

func kernelName(d *decide.Device) string {
	if d == nil {
		return ""
	}
	return d.KernelName
}
