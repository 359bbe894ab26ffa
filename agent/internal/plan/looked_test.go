package plan

import (
	"errors"
	"slices"
	"testing"

	"quarry.storage/quarry/pkg/refusal"
)

// TestLooked: what the look at one device alone found outranks what an earlier test of the observation remembers, and neither makes a device clean that the other one refuses.
func TestLooked(t *testing.T) {
	clean := Device{
		Path: "/dev/disk/by-id/wwn-1", KernelName: "sda", Type: "disk", WWN: "0x1", Serial: "S", SizeBytes: 1 << 30, LogicalSectorBytes: 512,
		HeadTailZero: true, ContentDigest: "c", Use: Unused,
	}
	none := func(*Device) {}
	pv := func(d *Device) {
		d.PVUUID, d.Signatures, d.ContentDigest, d.HeadTailZero = "pv", []Signature{{Type: "LVM2_member", UUID: "pv"}}, "", false
	}
	for name, row := range map[string]struct {
		both, seen, look func(*Device)
		// busy: it could not be opened exclusively.
		busy bool
		want []string
		err  bool
	}{
		"clean":                                       {none, none, none, false, nil, false},
		"somebody opened it since it was tested":      {none, none, func(d *Device) { d.Use, d.Users = Used, []string{"process qemu (pid 7)"} }, false, []string{refusal.Busy}, false},
		"somebody has it exclusively since":           {none, none, none, true, []string{refusal.Busy}, false},
		"whoever had it has closed it":                {none, func(d *Device) { d.Use, d.Users = Used, []string{"process qemu (pid 7)"} }, none, false, nil, false},
		"it has not been quiet for long enough":       {none, func(d *Device) { d.Use = Untested }, none, false, []string{refusal.Settling}, false},
		"not all users can be looked for":             {none, none, func(d *Device) { d.Unreadable = []string{"users: denied"} }, false, []string{refusal.Unreadable}, false},
		"the observation could not read all":          {none, func(d *Device) { d.Unreadable = []string{"content: denied"} }, none, false, []string{refusal.Unreadable}, false},
		"something was built on it":                   {none, none, func(d *Device) { d.Holders = []string{"dm-0"} }, false, nil, true},
		"something was written on it":                 {none, none, func(d *Device) { d.ContentDigest = "d" }, false, nil, true},
		"the path leads elsewhere":                    {none, none, func(d *Device) { d.KernelName = "sdb" }, false, nil, true},
		"another disk":                                {none, none, func(d *Device) { d.Serial = "S2" }, false, nil, true},
		"a physical volume that no test looked at":    {pv, func(d *Device) { d.Use = Untested }, none, false, []string{refusal.LVM}, false},
		"a physical volume that is in a pod, as well": {pv, func(d *Device) { d.Use = Untested }, func(d *Device) { d.Use, d.Users = Used, []string{"a mount"} }, false, []string{refusal.LVM, refusal.Busy}, false},
	} {
		t.Run(name, func(t *testing.T) {
			seen, look := clean, clean
			row.both(&seen)
			row.both(&look)
			row.seen(&seen)
			row.look(&look)
			at := &look
			if row.busy {
				at = nil
			}
			got, err := Looked(seen, at, Policy{})
			if (err != nil) != row.err || row.err && !errors.Is(err, ErrMismatch) {
				t.Fatal(err)
			}
			if row.err {
				return
			}
			var reasons []string
			for _, r := range Judge(got, Policy{}) {
				reasons = append(reasons, r.Reason)
			}
			if !slices.Equal(reasons, row.want) {
				t.Errorf("%v, want %v", Judge(got, Policy{}), row.want)
			}
		})
	}
}
