package disk

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// record is that of a GlusterNode for a device of a host.
func record(host, name, wwn, serial string) []Record {
	n := v1alpha1.GlusterNode{ObjectMeta: metav1.ObjectMeta{Namespace: "gluster", Name: "g1"}}
	path := v1alpha1.DevicePath("/dev/disk/by-id/" + name)
	n.Spec.Devices = []v1alpha1.GlusterDevice{{Device: path, Path: path, Node: v1alpha1.HostName(host), WWN: wwn, Serial: serial, Size: 100 * gib}}
	return RecordsOf([]v1alpha1.GlusterNode{{}, n})
}

func TestSelect_recordedDeviceIsTakenByNobody(t *testing.T) {
	const refusal = "DeviceConflict /dev/disk/by-id/sda: is on record as a device of GlusterNode gluster/g1\n"
	for name, c := range map[string]struct {
		in   Input
		want string
	}{
		"a clean device":          {Input{Claim: claim("a", 1, nil), Node: node(disk("sda"), disk("sdb")), Recorded: record("n1", "sda", "", "S-sda")}, "take sdb\nrefused " + refusal},
		"by its serial number":    {Input{Claim: claim("a", 1, nil), Node: node(disk("sda")), Recorded: record("n1", "old", "", "S-sda")}, "refused " + refusal},
		"by its WWN":              {Input{Claim: claim("a", 1, nil), Node: node(disk("sda", twice)), Recorded: record("n1", "old", "0x51", "of the other path")}, "refused " + refusal},
		"elsewhere, for certain":  {Input{Claim: claim("a", 1, nil), Node: node(disk("sda", wwn)), Recorded: record("n9", "old", "0x51", "S-sda")}, "refused " + refusal},
		"elsewhere, by one name":  {Input{Claim: claim("a", 1, nil), Node: node(disk("sda", wwn)), Recorded: record("n9", "old", "", "S-sda")}, "take sda\n"},
		"another one at its path": {Input{Claim: claim("a", 1, nil), Node: node(disk("sda")), Recorded: record("n1", "sda", "", "S-old")}, "refused " + refusal},
		"at its path elsewhere":   {Input{Claim: claim("a", 1, nil), Node: node(disk("sda")), Recorded: record("n2", "sda", "", "S-old")}, "take sda\n"},
		"another device":          {Input{Claim: claim("a", 1, nil), Node: node(disk("sda")), Recorded: record("n1", "sdb", "", "S-sdb")}, "take sda\n"},
		"one that the spec names": {Input{Claim: claim("a", 1, paths("/dev/disk/by-id/sda")), Node: node(disk("sda")), Recorded: record("n1", "sda", "", "S-sda")}, "problem " + refusal},
		"a consent does not cover it": {
			Input{Claim: claim("a", 1, wipe("/dev/disk/by-id/sda", "")), Node: node(disk("sda", written)), Recorded: record("n1", "sda", "", "S-sda")}, "problem " + refusal,
		},
		"nor what an interrupted call left": {Input{Claim: claim("a", 1, nil), Node: node(disk("sda", begun)), Recorded: record("n1", "sda", "", "S-sda")}, "refused " + refusal},
		"nobody knows": {
			Input{Claim: claim("a", 1, paths("/dev/disk/by-id/sda")), Node: node(disk("sda"), disk("sdb", written)), Unread: "no right"},
			"problem DeviceConflict /dev/disk/by-id/sda: may be on record as a device of a GlusterNode, which nobody knows: no right\n",
		},
		"nobody knows, with a consent": {
			Input{Claim: claim("a", 1, wipe("/dev/disk/by-id/sda", "")), Node: node(disk("sda", written)), Unread: "no right"},
			"problem DeviceConflict /dev/disk/by-id/sda: may be on record as a device of a GlusterNode, which nobody knows: no right\n",
		},
		"nobody knows, and an interrupted call left it": {
			Input{Claim: claim("a", 1, nil), Node: node(disk("sda", begun)), Unread: "no right"},
			"refused DeviceConflict /dev/disk/by-id/sda: may be on record as a device of a GlusterNode, which nobody knows: no right\n",
		},
		"nobody knows, and it is not clean": {
			Input{Claim: claim("a", 1, nil), Node: node(disk("sda", written)), Unread: "no right"}, "refused DeviceRefused /dev/disk/by-id/sda: " + Why(disk("sda", written)) + "\n",
		},
		"nobody knows, and it came late": {
			Input{Claim: joined(claim("a", 1, nil)), Node: node(disk("sda")), Unread: "no right"}, "passed /dev/disk/by-id/sda: " + lateText + "\n",
		},
		"nobody knows, and another Cluster chose it": {
			Input{Claim: claim("b", 1, nil), Rivals: []Claim{claim("a", 2, nil)}, Node: node(disk("sda")), Unread: "no right"},
			"refused DeviceConflict /dev/disk/by-id/sda: is also chosen by Cluster a, which is older\n",
		},
		"nobody knows, and the group holds it": {
			Input{Claim: claim("a", 1, nil), Group: group(empty("sda")), Node: node(disk("sda", owned("uid-a"))), Unread: "no right"}, "owned sda\n",
		},
		"what the group holds stays owned": {
			Input{Claim: claim("a", 1, nil), Group: group(empty("sda")), Node: node(disk("sda", owned("uid-a"))), Recorded: record("n1", "sda", "", "S-sda")}, "owned sda\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.in.Host = "n1"
			got := choose(c.in)
			if d := cmp.Diff(c.want, show(got)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
			if want := strings.Contains(c.want, "which nobody knows"); got.Unread != want {
				t.Errorf("refused for that alone: %t, want %t", got.Unread, want)
			}
		})
	}
}

func wwn(d *decide.Device) { d.WWN = "0x51" }

// TestRecord: on the node on record each fact on record has to be that of the device. Another node sees the same disk only if all three facts are known and equal.
func TestRecord(t *testing.T) {
	device := func(edits ...func(*decide.Device)) decide.Device {
		d := decide.Device{Path: "/dev/disk/by-id/other", WWN: "w", Serial: "s", SizeBytes: 100 * gib}
		for _, e := range edits {
			e(&d)
		}
		return d
	}
	atPath := func(d *decide.Device) { d.Path = "/dev/disk/by-id/sda" }
	noWWN, noSerial := func(d *decide.Device) { d.WWN = "" }, func(d *decide.Device) { d.Serial = "" }
	otherWWN, otherSerial := func(d *decide.Device) { d.WWN = "v" }, func(d *decide.Device) { d.Serial = "r" }
	grown, shrunk := func(d *decide.Device) { d.SizeBytes++ }, func(d *decide.Device) { d.SizeBytes-- }
	type names struct{ wwn, serial string }
	both := names{"w", "s"}
	for name, row := range map[string]struct {
		names
		node      string
		allocated bool
		device    decide.Device
		is, may   bool
	}{
		"the same":                        {both, "n1", false, device(), true, true},
		"its serial number is unknown":    {both, "n1", false, device(noSerial), false, true},
		"its WWN is unknown":              {both, "n1", false, device(noWWN), false, false},
		"its WWN is another":              {both, "n1", false, device(otherWWN), false, false},
		"its serial number is another":    {both, "n1", false, device(otherSerial), false, true},
		"it is larger":                    {both, "n1", false, device(grown), false, true},
		"it has grown in use":             {both, "n1", true, device(grown), true, true},
		"it has shrunk in use":            {both, "n1", true, device(shrunk), false, true},
		"a WWN alone":                     {names{"w", ""}, "n1", false, device(otherSerial), true, true},
		"a serial number alone":           {names{"", "s"}, "n1", false, device(noWWN), true, true},
		"no name, and its path":           {names{}, "n1", false, device(atPath, noWWN, noSerial), false, true},
		"another disk at its path":        {both, "n1", false, device(atPath, otherWWN, otherSerial), false, true},
		"elsewhere":                       {both, "n2", false, device(), true, true},
		"elsewhere, at its path":          {both, "n2", false, device(atPath, otherWWN), false, false},
		"elsewhere, larger":               {both, "n2", true, device(grown), false, false},
		"elsewhere, a WWN alone":          {names{"w", ""}, "n2", false, device(noSerial), false, false},
		"elsewhere, a serial alone":       {names{"", "s"}, "n2", false, device(noWWN), false, false},
		"elsewhere, a name not on record": {names{"", "s"}, "n2", false, device(), false, false},
	} {
		r := record("n1", "sda", row.wwn, row.serial)[0]
		r.Device.Allocated = row.allocated
		if is, may := r.Is(row.node, row.device), r.May(row.node, row.device); is != row.is || may != row.may {
			t.Errorf("%s: is %t, may %t", name, is, may)
		}
	}
}
