package plan

import "testing"

func TestOutdated(t *testing.T) {
	tags := func(pairs ...string) map[string]string {
		out := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			out[pairs[i]] = pairs[i+1]
		}
		return out
	}
	pv := func(owner, group string, tags map[string]string) Device {
		return with(func(d *Device) {
			d.HeadTailZero, d.PVUUID, d.OwnerUID, d.Group, d.UdevTags = false, "u", owner, group, tags
			d.Signatures = []Signature{{Type: "LVM2_member", UUID: "u"}}
		})
	}
	known := tags("ID_FS_TYPE", "LVM2_member", "ID_FS_UUID", "u")
	for name, tt := range map[string]struct {
		device Device
		want   string
	}{
		"a clean disk":                   {with(func(d *Device) { d.UdevTags = tags() }), ""},
		"a released disk":                {with(func(d *Device) { d.UdevTags = known }), "udev knows a LVM2_member where nothing is"},
		"a wiped disk":                   {with(func(d *Device) { d.UdevTags = tags("ID_PART_TABLE_TYPE", "gpt") }), "udev knows a gpt where nothing is"},
		"a host without udev":            {pv("uid", "vg", nil), ""},
		"a released disk in use":         {with(func(d *Device) { d.UdevTags, d.Holders = known, []string{"dm-0"} }), ""},
		"what cannot be read":            {with(func(d *Device) { d.UdevTags, d.Unreadable = known, []string{"x"} }), ""},
		"another mark than a format":     {with(func(d *Device) { d.UdevTags = tags("SYSTEMD_READY", "0") }), ""},
		"data that udev has a name for":  {with(func(d *Device) { d.UdevTags, d.HeadTailZero = tags("ID_FS_TYPE", "x"), false }), ""},
		"a disk of ours":                 {pv("uid", "vg", known), ""},
		"a disk of ours, not told":       {pv("uid", "vg", tags()), "udev knows nothing of the physical volume u"},
		"a disk of ours, another before": {pv("uid", "vg", tags("ID_FS_TYPE", "LVM2_member", "ID_FS_UUID", "v")), `udev knows a LVM2_member with uuid "v" where the physical volume u is`},
		"left behind before it was told": {pv("", "", tags()), "udev knows nothing of the physical volume u"},
		"a disk of somebody's group":     {pv("", "vg", tags()), ""},
		"a path of a multipath device":   {pv("", "", tags("DM_MULTIPATH_DEVICE_PATH", "1")), ""},
		"a RAID member with a label": {func() Device {
			d := pv("", "", tags())
			d.Signatures = append(d.Signatures, Signature{Type: "linux_raid_member"})
			return d
		}(), ""},
		"somebody's filesystem, not told": {func() Device { d := signed("ext4", "", ""); d.UdevTags = tags(); return d }(), ""},
	} {
		if got := Outdated(tt.device); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
