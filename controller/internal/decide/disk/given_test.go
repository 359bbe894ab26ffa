package disk

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// record is that of a GlusterNode for a device of a host.
func record(host, name, wwn, serial string) []Given {
	n := v1alpha1.GlusterNode{ObjectMeta: metav1.ObjectMeta{Namespace: "gluster", Name: "g1"}}
	path := v1alpha1.DevicePath("/dev/disk/by-id/" + name)
	n.Spec.Devices = []v1alpha1.GlusterDevice{{Device: path, Path: path, Node: v1alpha1.HostName(host), WWN: wwn, Serial: serial, Size: 100 * gib}}
	return GivenTo([]v1alpha1.GlusterNode{{}, n})
}

func TestSelect_givenDeviceIsTakenByNobody(t *testing.T) {
	const refusal = "DeviceConflict /dev/disk/by-id/sda: is on record as a device of GlusterNode gluster/g1\n"
	for name, c := range map[string]struct {
		in   Input
		want string
	}{
		"a clean device":          {Input{Claim: claim("a", 1, nil), Node: node(disk("sda"), disk("sdb")), Given: record("n1", "sda", "", "S-sda")}, "take sdb\nrefused " + refusal},
		"by its serial number":    {Input{Claim: claim("a", 1, nil), Node: node(disk("sda")), Given: record("n9", "old", "", "S-sda")}, "refused " + refusal},
		"by its WWN":              {Input{Claim: claim("a", 1, nil), Node: node(disk("sda", twice)), Given: record("n9", "old", "0x51", "of the other path")}, "refused " + refusal},
		"another one at its path": {Input{Claim: claim("a", 1, nil), Node: node(disk("sda")), Given: record("n1", "sda", "", "S-old")}, "refused " + refusal},
		"at its path elsewhere":   {Input{Claim: claim("a", 1, nil), Node: node(disk("sda")), Given: record("n2", "sda", "", "S-old")}, "take sda\n"},
		"another device":          {Input{Claim: claim("a", 1, nil), Node: node(disk("sda")), Given: record("n1", "sdb", "", "S-sdb")}, "take sda\n"},
		"one that the spec names": {Input{Claim: claim("a", 1, paths("/dev/disk/by-id/sda")), Node: node(disk("sda")), Given: record("n1", "sda", "", "S-sda")}, "problem " + refusal},
		"a consent does not cover it": {
			Input{Claim: claim("a", 1, wipe("/dev/disk/by-id/sda", "")), Node: node(disk("sda", written)), Given: record("n1", "sda", "", "S-sda")}, "problem " + refusal,
		},
		"nor what an interrupted call left": {Input{Claim: claim("a", 1, nil), Node: node(disk("sda", begun)), Given: record("n1", "sda", "", "S-sda")}, "refused " + refusal},
		"what the group holds stays owned": {
			Input{Claim: claim("a", 1, nil), Group: group(empty("sda")), Node: node(disk("sda", owned("uid-a"))), Given: record("n1", "sda", "", "S-sda")}, "owned sda\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.in.Host = "n1"
			if d := cmp.Diff(c.want, show(choose(c.in))); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

func TestGiven_Same(t *testing.T) {
	nameless := Given{Device: v1alpha1.GlusterDevice{Path: "/dev/disk/by-id/sda", Node: "n1"}}
	if nameless.Same(decide.Device{Path: "/dev/disk/by-id/sda"}) {
		t.Error("a record without an identity says of a device that it is the same")
	}
	if !record("n1", "sda", "w", "s")[0].Same(decide.Device{WWN: "w", Serial: "s"}) || record("n1", "sda", "w", "s")[0].Same(decide.Device{WWN: "w"}) {
		t.Error("WWN and serial number do not tell it")
	}
}
