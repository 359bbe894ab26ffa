package pathconf

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	const text = `defaults {
	verbosity 2
	find_multipaths "strict"
	no_path_retry "fail"
}
blacklist {
	devnode "!^(sd[a-z]|dasd[a-z]|nvme[0-9])"
	device {
		vendor "SGI"
		product "Universal Xport"
	}
}
devices {
	device {
		vendor "NETAPP"
		product "LUN"
		path_grouping_policy "group_by_prio"
		no_path_retry "queue"
	}
	device {
		vendor "COMPAQ"
		product "(MSA|HSV)1[01]1"
	}
	device {
		vendor "IBM"
		product "^2145"
		no_path_retry 30
	}
}
overrides {
	no_path_retry 12
	protocol {
		type "scsi:iscsi"
		fast_io_fail_tmo 5
	}
}
`
	got, whole := Parse(text)
	want := Config{FindMultipaths: "strict", Overrides: "12", Defaults: "fail", Devices: []Device{{"NETAPP", "LUN", "queue"}, {"IBM", "^2145", "30"}}}
	if diff := cmp.Diff(want, got); diff != "" || !whole {
		t.Errorf("whole: %v\n%s", whole, diff)
	}
	for _, text := range []string{"", "timeout", "defaults {\n no_path_retry 12\n"} {
		if got, whole := Parse(text); whole {
			t.Errorf("%q counts as whole: %v", text, got)
		}
	}
}
