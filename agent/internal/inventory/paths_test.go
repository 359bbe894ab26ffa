package inventory

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/agent/internal/host/block"
)

func TestObserve_pathsOfOneDisk(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(d []block.Device)
		want   map[string][]string
	}{
		"disks without a WWN":  {change: func([]block.Device) {}},
		"disks with their own": {change: func(d []block.Device) { d[0].WWN, d[1].WWN = "0x51", "0x52" }},
		"two paths": {
			change: func(d []block.Device) { d[0].WWN, d[2].WWN = "0x51", "0x51" },
			want:   map[string][]string{"sda": {"sdc"}, "sdc": {"sda"}},
		},
		"three paths": {
			change: func(d []block.Device) { d[0].WWN, d[1].WWN, d[2].WWN = "eui.51", "eui.51", "eui.51" },
			want:   map[string][]string{"sda": {"sdb", "sdc"}, "sdb": {"sda", "sdc"}, "sdc": {"sda", "sdb"}},
		},
		"disks whose firmware says zero": {change: func(d []block.Device) { d[0].WWN, d[2].WWN = "0x0000000000000000", "0x0000000000000000" }},
		"zero in another form":           {change: func(d []block.Device) { d[0].WWN, d[2].WWN = "eui.0000000000000000", "eui.0000000000000000" }},
		"a disk and its partition":       {change: func(d []block.Device) { d[0].WWN, d[1].WWN, d[1].Type = "0x51", "0x51", "partition" }},
		"below a multipath device": {change: func(d []block.Device) {
			d[0].WWN, d[1].WWN = "0x51", "0x51"
			d[0].Holders, d[1].Holders = []string{"sdc"}, []string{"sdc"}
			d[2].Type, d[2].DMUUID = "dm", "mpath-1"
		}},
		"a path that multipath has not taken yet": {
			change: func(d []block.Device) {
				d[0].WWN, d[1].WWN, d[0].Holders = "0x51", "0x51", []string{"sdc"}
				d[2].Type, d[2].DMUUID = "dm", "mpath-1"
			},
			want: map[string][]string{"sdb": {"sda"}},
		},
	} {
		f := newFake("sda", "sdb", "sdc")
		tt.change(f.devices)
		got := map[string][]string{}
		for kernelName, d := range f.observe(t) {
			if len(d.Paths) > 0 {
				got[kernelName] = d.Paths
			}
		}
		if tt.want == nil {
			tt.want = map[string][]string{}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
