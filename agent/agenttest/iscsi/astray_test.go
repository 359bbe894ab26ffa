package iscsi

import (
	"slices"
	"strings"
	"testing"

	"quarry.storage/quarry/pkg/sharedlun"
)

var otherLun = sharedlun.Identity{WWID: "naa.other", Serial: "other", SizeBytes: 1 << 30}

// TestAstray: whatever the kernel remembers, what a path that answers says decides whether volumes write to another LUN. Who does not answer says nothing.
func TestAstray(t *testing.T) {
	for name, c := range map[string]struct {
		become  func(x *fenced)
		group   string
		volumes []string
		// says are parts of the words; unread is true when a path could not be asked.
		says   []string
		unread bool
	}{
		"the recorded LUN": {become: func(*fenced) {}},
		"another LUN": {
			become:  func(x *fenced) { x.lun.Swap(otherLun) },
			volumes: []string{"u1", "u2"}, says: []string{portals[0], portals[1], otherLun.WWID},
		},
		"another LUN, of which the kernel was told": {
			become:  func(x *fenced) { x.lun.Swap(otherLun); x.a.Rescan(x.lun) },
			volumes: []string{"u1", "u2"}, says: []string{otherLun.WWID},
		},
		"another LUN on one path of several": {
			become:  func(x *fenced) { x.lun.Lead(portals[1], otherLun) },
			volumes: []string{"u1", "u2"}, says: []string{portals[1]},
		},
		"another LUN on one path, while the other one is deaf": {
			become:  func(x *fenced) { x.lun.Lead(portals[1], otherLun); x.lun.Deafen(portals[0], true) },
			volumes: []string{"u1", "u2"}, says: []string{portals[1]}, unread: true,
		},
		"another LUN, and volumes of another group": {
			become: func(x *fenced) { x.lun.Swap(otherLun) }, group: "another", says: []string{otherLun.WWID},
		},
		"another serial number": {
			become: func(x *fenced) {
				other := x.id
				other.Serial += "x"
				x.lun.Swap(other)
			},
			volumes: []string{"u1", "u2"}, says: []string{x1},
		},
		"a LUN that shrank": {become: func(x *fenced) { x.lun.Resize(1 << 20) }},
		"paths that are deaf": {
			become: func(x *fenced) {
				x.lun.Swap(otherLun)
				x.lun.Deafen(portals[0], true)
				x.lun.Deafen(portals[1], true)
			},
			unread: true,
		},
		"a target that is gone": {become: func(x *fenced) { x.lun.Swap(otherLun); x.target.Stop() }},
	} {
		t.Run(name, func(t *testing.T) {
			x := newFenced(t)
			x.T = t
			x.a.Hold(x.lun, VolumePrefix+"u2", VolumePrefix+"u1", "dm-of-others")
			c.become(x)
			if c.group == "" {
				c.group = VolumeGroup
			}
			volumes, says, err := x.a.Astray(t.Context(), x.id, c.group)
			if !slices.Equal(volumes, c.volumes) || (says == "") != (len(c.says) == 0) || (err != nil) != c.unread {
				t.Errorf("volumes %v, %q, %v", volumes, says, err)
			}
			for _, part := range c.says {
				if !strings.Contains(says, part) {
					t.Errorf("%q does not say %q", says, part)
				}
			}
		})
	}
}

// x1 ends the serial number of a LUN that another one replaced.
const x1 = "-0x"

// TestKnown: which devices are a LUN is known of one that does not answer, too, and never of one that has only one of its names.
func TestKnown(t *testing.T) {
	x := newFenced(t)
	other := x.id
	other.Serial += "x"
	for name, c := range map[string]struct {
		ids  []sharedlun.Identity
		want int
	}{
		"the LUN":               {[]sharedlun.Identity{other, x.id}, 3},
		"another serial number": {[]sharedlun.Identity{other}, 0},
		"no name":               {[]sharedlun.Identity{{}}, 0},
		"none":                  {nil, 0},
	} {
		for _, down := range []bool{false, true} {
			if x.target.Start(); down {
				x.target.Stop()
			}
			if got, err := x.a.Known(c.ids); len(got) != c.want || err != nil {
				t.Errorf("%s: %v, %v", name, got, err)
			}
		}
	}
}
