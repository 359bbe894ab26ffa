package decide

import (
	"errors"
	"testing"

	"quarry.storage/quarry/pkg/sharedlun"
)

func TestFormat(t *testing.T) {
	ranges := []sharedlun.Range{{Start: mib, Size: 8 * mib}}
	for name, c := range map[string]struct {
		volume func(*sharedlun.Volume)
		device func(*Mapped)
		used   bool
		err    error
	}{
		"its first one":                   {nil, nil, false, nil},
		"it was used":                     {func(v *sharedlun.Volume) { v.Used, v.MakingOn = true, "" }, nil, true, nil},
		"it was used, and a mark is left": {func(v *sharedlun.Volume) { v.Used = true }, nil, true, nil},
		"nobody may":                      {func(v *sharedlun.Volume) { v.MakingOn = "" }, nil, false, sharedlun.ErrHeld},
		"another node may":                {func(v *sharedlun.Volume) { v.MakingOn = "n2" }, nil, false, sharedlun.ErrHeld},
		"another node holds it":           {func(v *sharedlun.Volume) { v.HeldBy = "n2" }, nil, false, sharedlun.ErrHeld},
		"it is leaving":                   {func(v *sharedlun.Volume) { v.Leaving = true }, nil, false, sharedlun.ErrHeld},
		"another one of the name":         {func(v *sharedlun.Volume) { v.UUID = uuidB }, nil, false, sharedlun.ErrNotFound},
		"it lies elsewhere":               {func(v *sharedlun.Volume) { v.Ranges = []sharedlun.Range{{Start: 0, Size: 8 * mib}} }, nil, false, sharedlun.ErrMoved},
		"nothing of it is ready":          {func(v *sharedlun.Volume) { v.ReadyBytes = 0 }, nil, false, sharedlun.ErrMisfit},
		"a part of it is ready":           {func(v *sharedlun.Volume) { v.ReadyBytes = 4 * mib }, nil, false, sharedlun.ErrMisfit},
		"a device that is cut":            {nil, func(m *Mapped) { m.Cut = true }, false, sharedlun.ErrMisfit},
		"a suspended device":              {nil, func(m *Mapped) { m.Suspended = true }, false, sharedlun.ErrMisfit},
		"a device on another LUN":         {nil, func(m *Mapped) { m.Lun = "8:32" }, false, sharedlun.ErrMisfit},
		"a device of a part":              {nil, func(m *Mapped) { m.Ranges = sharedlun.Front(ranges, 4*mib) }, false, sharedlun.ErrMisfit},
	} {
		on := held
		on.ReadyBytes, on.MakingOn = on.SizeBytes, "n1"
		asked := on
		if c.volume != nil {
			c.volume(&on)
		}
		m := Mapped{VolumeUUID: uuidA, Path: "/dev/x", Ranges: ranges, Lun: "8:16", Live: true, Linear: true}
		if c.device != nil {
			c.device(&m)
		}
		used, err := Format(sharedlun.Group{Volumes: []sharedlun.Volume{on}}, asked, "n1", &m, "8:16")
		if used != c.used || !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
			t.Errorf("%s: %t, %v", name, used, err)
		}
		if _, err := Format(sharedlun.Group{Volumes: []sharedlun.Volume{on}}, asked, "n1", nil, "8:16"); err == nil && !c.used {
			t.Errorf("%s: it is not mapped", name)
		}
	}
}

func TestUnmade(t *testing.T) {
	for name, c := range map[string]struct {
		have VolumeContent
		want bool
	}{
		"nothing":                        {VolumeContent{}, true},
		"remains":                        {VolumeContent{Unknown: true}, true},
		"its own filesystem, unfinished": {VolumeContent{Type: "xfs", UUID: "own", Unfinished: true}, true},
		"its own filesystem":             {VolumeContent{Type: "ext4", UUID: "own"}, false},
		"another one":                    {VolumeContent{Type: "xfs", UUID: "other"}, true},
		"another one, unfinished":        {VolumeContent{Type: "xfs", UUID: "other", Unfinished: true}, true},
		"another format":                 {VolumeContent{Type: "LVM2_member"}, true},
		"a RAID's label at the end":      {VolumeContent{Type: "linux_raid_member"}, true},
		"a ZFS label at the end":         {VolumeContent{Type: "zfs_member"}, true},
	} {
		if got := Unmade(c.have, "own"); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
