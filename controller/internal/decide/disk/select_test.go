package disk

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

const gib = 1 << 30

// disk returns a clean disk with links as udev makes them.
// noon is when the choices are made.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// choose makes a choice at noon.
func choose(in Input) Choice {
	in.Now = noon
	return Select(in)
}

func disk(name string, edits ...func(*decide.Device)) decide.Device {
	d := decide.Device{
		Path: "/dev/disk/by-id/" + name, KernelName: name, Type: "disk", SizeBytes: 100 * gib, Serial: "S-" + name, Digest: "seen-" + name,
		Links: []string{"/dev/disk/by-id/" + name, "/dev/disk/by-path/slot-" + name}, LogicalSectorBytes: 512, Since: noon.Add(-time.Hour),
	}
	for _, e := range edits {
		e(&d)
	}
	return d
}

func refused(reason string) func(*decide.Device) {
	return func(d *decide.Device) {
		d.Refusals = append(d.Refusals, v1alpha1.Refusal{Reason: reason, Message: "It is " + reason + "."})
	}
}

// written is a device that only what is written on it speaks against.
func written(d *decide.Device) {
	refused(v1alpha1.RefusalFilesystem)(d)
	d.Wipeable = true
}

// over attaches a device in some way.
func over(transport string) func(*decide.Device) {
	return func(d *decide.Device) { d.Transport = transport }
}

// twice is a path to a disk to which there is another one.
func twice(d *decide.Device) {
	refused(v1alpha1.RefusalTwoPaths)(d)
	d.WWN = "0x51"
}

// begun is a device with which a call for Cluster a was interrupted.
func begun(d *decide.Device) {
	refused(v1alpha1.RefusalLVM)(d)
	d.PVUUID = Future(*d, "uid-a")
}

func owned(uid string) func(*decide.Device) {
	return func(d *decide.Device) {
		d.OwnerUID, d.VolumeGroup, d.PVUUID = uid, "g-"+uid, "pv-"+d.KernelName
		refused(v1alpha1.RefusalOwned)(d)
	}
}

func sized(n int64) func(*decide.Device) { return func(d *decide.Device) { d.SizeBytes = n } }

func node(devices ...decide.Device) decide.Node {
	return decide.Node{Name: "n1", Agent: decide.AgentUp, Devices: devices}
}

func claim(name string, age int, s *v1alpha1.DeviceSelector) Claim {
	created := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(-time.Duration(age) * time.Hour)
	return Claim{Name: name, UID: "uid-" + name, Created: created, Selector: s, Host: "n1"}
}

func paths(p ...string) *v1alpha1.DeviceSelector {
	s := &v1alpha1.DeviceSelector{}
	for _, x := range p {
		s.Paths = append(s.Paths, v1alpha1.DevicePath(x))
	}
	return s
}

func wipe(path, serial string) *v1alpha1.DeviceSelector {
	return &v1alpha1.DeviceSelector{Wipe: []v1alpha1.WipeConsent{{Host: "n1", Path: v1alpha1.DevicePath(path), Serial: serial}}}
}

// show writes a choice as readable lines.
func show(c Choice) string {
	var b strings.Builder
	for _, l := range []struct {
		name    string
		devices []decide.Device
	}{{"owned", c.Owned}, {"take", c.Take}, {"wipe", c.Wipe}, {"release", c.Release}} {
		for _, d := range l.devices {
			b.WriteString(l.name + " " + d.KernelName + "\n")
		}
	}
	for _, r := range c.Problems {
		b.WriteString("problem " + r.Reason + " " + r.String() + "\n")
	}
	for _, r := range c.Passed {
		b.WriteString("passed " + r.String() + "\n")
	}
	if c.Wake > 0 {
		b.WriteString("wake " + c.Wake.String() + "\n")
	}
	for _, r := range c.Refused {
		b.WriteString("refused " + r.Reason + " " + r.String() + "\n")
	}
	return b.String()
}

// group is the group of Cluster a.
func group(pvs ...decide.PV) *decide.Group {
	return &decide.Group{Name: "g", OwnerUID: "uid-a", PVs: pvs}
}

func empty(name string) decide.PV {
	return decide.PV{Path: "/dev/disk/by-id/" + name, UUID: "pv-" + name, SizeBytes: 100, FreeBytes: 100}
}

func filled(name string) decide.PV {
	p := empty(name)
	p.FreeBytes = 10
	return p
}

func TestSelect(t *testing.T) {
	size := func(s string) *resource.Quantity { q := resource.MustParse(s); return &q }
	spinning := true
	for name, c := range map[string]struct {
		in   Input
		want string
	}{
		"exactly the clean disks are taken": {
			Input{Claim: claim("a", 1, nil), Node: node(disk("sda", refused(v1alpha1.RefusalPartitionTable)),
				disk("sdb", refused(v1alpha1.RefusalFilesystem)), disk("sdc", refused(v1alpha1.RefusalMounted)), disk("sdd"))},
			"take sdd\n" +
				"refused DeviceRefused /dev/disk/by-id/sda: It is PartitionTable (PartitionTable)\n" +
				"refused DeviceRefused /dev/disk/by-id/sdb: It is Filesystem (Filesystem)\n" +
				"refused DeviceRefused /dev/disk/by-id/sdc: It is Mounted (Mounted)\n",
		},
		"a disk that settles is taken: who takes it waits": {
			Input{Claim: claim("a", 1, nil), Node: node(disk("sda", refused(v1alpha1.RefusalSettling)))},
			"take sda\n",
		},
		"a disk that settles goes to the older Cluster too": {
			Input{Claim: claim("a", 1, nil), Node: node(disk("sda", refused(v1alpha1.RefusalSettling))), Rivals: []Claim{claim("b", 2, nil)}},
			"refused DeviceConflict /dev/disk/by-id/sda: is also chosen by Cluster b, which is older\n",
		},
		"without a digest nothing is known, so nothing is taken": {
			Input{Claim: claim("a", 1, nil), Node: node(disk("sda", func(d *decide.Device) { d.Digest = "" }))},
			"refused DeviceRefused /dev/disk/by-id/sda: its content could not be read\n",
		},
		"loop devices and partitions are not listed": {
			Input{Claim: claim("a", 1, nil), Node: node(disk("loop0", refused(v1alpha1.RefusalVirtual)), disk("sda1", refused(v1alpha1.RefusalPartition)))},
			"",
		},
		"sizes are inclusive": {
			Input{Claim: claim("a", 1, &v1alpha1.DeviceSelector{MinSize: size("10Gi"), MaxSize: size("20Gi")}), Node: node(
				disk("sda", sized(10*gib-1)), disk("sdb", sized(10*gib)), disk("sdc", sized(20*gib)), disk("sdd", sized(20*gib+1)))},
			"take sdb\ntake sdc\n",
		},
		"rotational and model must match": {
			Input{Claim: claim("a", 1, &v1alpha1.DeviceSelector{Rotational: &spinning, Model: "wdc*red"}), Node: node(
				disk("sda", func(d *decide.Device) { d.Rotational, d.Model = true, "WDC 1 Red " }),
				disk("sdb", func(d *decide.Device) { d.Rotational, d.Model = false, "WDC 1 Red" }),
				disk("sdc", func(d *decide.Device) { d.Rotational, d.Model = true, "WDC 1 Blue" }))},
			"take sda\n",
		},
		"a path means the device by any of its links": {
			Input{Claim: claim("a", 1, paths("/dev/disk/by-path/slot-sda", "/dev/sdb")), Node: node(disk("sda"), disk("sdb"), disk("sdc"))},
			"take sda\ntake sdb\n",
		},
		"a path without a device is told": {
			Input{Claim: claim("a", 1, paths("/dev/disk/by-id/gone", "/dev/disk/by-id/sda")), Node: node(disk("sda"))},
			"take sda\nproblem DeviceNotFound /dev/disk/by-id/gone: no such device on this host\n",
		},
		"a disk that is plugged in elsewhere is not missed here": {
			Input{
				Claim: claim("a", 1, paths("/dev/disk/by-id/far", "/dev/disk/by-path/slot-x")), Node: node(disk("sda")),
				Elsewhere: func(string) bool { return true },
			},
			"problem DeviceNotFound /dev/disk/by-path/slot-x: no such device on this host\n",
		},
		"a named device in use is a problem": {
			Input{Claim: claim("a", 1, paths("/dev/disk/by-id/sda")), Node: node(disk("sda", refused(v1alpha1.RefusalMounted), refused(v1alpha1.RefusalFilesystem)))},
			"problem DeviceRefused /dev/disk/by-id/sda: It is Mounted (Mounted), It is Filesystem (Filesystem)\n",
		},
		"what the group holds is owned, whatever the selector says": {
			Input{
				Claim: claim("a", 1, &v1alpha1.DeviceSelector{MinSize: size("1Ti")}), Group: group(empty("sda")),
				Node: node(disk("sda", owned("uid-a")), disk("sdb")),
			},
			"owned sda\n",
		},
		"a device that was just taken is owned even if the device list is older": {
			Input{Claim: claim("a", 1, nil), Group: group(empty("sda")), Node: node(disk("sda"))},
			"owned sda\n",
		},
		"disks over a network and on USB are not taken by default": {
			Input{Claim: claim("a", 1, nil), Node: node(disk("sda"), disk("sdb", over("iscsi")), disk("sdc", over("usb")), disk("sdd", over("sas")),
				disk("nvme0n1", over("nvme-tcp")), disk("sde", over("fc"), refused(v1alpha1.RefusalFilesystem)))},
			"take sda\ntake sdd\n" +
				"refused DeviceRefused /dev/disk/by-id/sdb: is attached over iscsi: such disks are taken only if devices.transports lists iscsi, or devices.paths the disk\n" +
				"refused DeviceRefused /dev/disk/by-id/sdc: is attached over usb: such disks are taken only if devices.transports lists usb, or devices.paths the disk\n" +
				"refused DeviceRefused /dev/disk/by-id/nvme0n1: is attached over nvme-tcp: such disks are taken only if devices.transports lists nvme-tcp, or devices.paths the disk\n" +
				"refused DeviceRefused /dev/disk/by-id/sde: It is Filesystem (Filesystem)\n",
		},
		"nor by a selector that says something else": {
			Input{Claim: claim("a", 1, &v1alpha1.DeviceSelector{MinSize: size("1Gi")}), Node: node(disk("sdb", over("rbd")))},
			"refused DeviceRefused /dev/disk/by-id/sdb: is attached over rbd: such disks are taken only if devices.transports lists rbd, or devices.paths the disk\n",
		},
		"one that the spec names is taken": {
			Input{Claim: claim("a", 1, paths("/dev/disk/by-path/slot-sdb")), Node: node(disk("sdb", over("iscsi")), disk("sdc", over("iscsi")))},
			"take sdb\n",
		},
		"one that may be wiped is named": {
			Input{Claim: claim("a", 1, wipe("/dev/disk/by-id/sda", "")), Host: "n1", Node: node(disk("sda", written, over("usb")), disk("sdb", over("usb")))},
			"wipe sda\nrefused DeviceRefused /dev/disk/by-id/sdb: is attached over usb: such disks are taken only if devices.transports lists usb, or devices.paths the disk\n",
		},
		"transports choose exactly what they list": {
			Input{Claim: claim("a", 1, &v1alpha1.DeviceSelector{Transports: []v1alpha1.Transport{"nvme", "iscsi"}}), Node: node(
				disk("sda", over("sata")), disk("sdb", over("iscsi")), disk("nvme0n1", over("nvme")), disk("nvme1n1", over("nvme-tcp")), disk("sdc"))},
			"take sdb\ntake nvme0n1\n",
		},
		"an older Cluster that does not name the transport is no rival": {
			Input{
				Claim: claim("young", 1, &v1alpha1.DeviceSelector{Transports: []v1alpha1.Transport{"iscsi"}}), Rivals: []Claim{claim("old", 2, nil)},
				Node: node(disk("sda", over("iscsi"))),
			},
			"take sda\n",
		},
		"what an interrupted call has begun with is finished": {
			Input{Claim: claim("a", 1, nil), Node: node(disk("sda", over("usb"), begun))},
			"take sda\n",
		},
		"what the group holds stays owned over whatever transport": {
			Input{Claim: claim("a", 1, nil), Group: group(empty("sda")), Node: node(disk("sda", over("usb"), owned("uid-a")))},
			"owned sda\n",
		},
		"two paths to one disk are told of once": {
			Input{Claim: claim("a", 1, nil), Node: node(disk("sda", twice), disk("sdb"), disk("sdc", twice), disk("sdd", refused(v1alpha1.RefusalTwoPaths)))},
			"take sdb\n" +
				"refused DeviceRefused /dev/disk/by-id/sda: It is TwoPaths (TwoPaths)\n" +
				"refused DeviceRefused /dev/disk/by-id/sdd: It is TwoPaths (TwoPaths)\n",
		},
		"a path that the spec names is a problem, whatever else was told": {
			Input{Claim: claim("a", 1, paths("/dev/disk/by-id/sda", "/dev/disk/by-id/sdc")), Node: node(disk("sda", twice), disk("sdc", twice))},
			"problem DeviceRefused /dev/disk/by-id/sda: It is TwoPaths (TwoPaths)\nproblem DeviceRefused /dev/disk/by-id/sdc: It is TwoPaths (TwoPaths)\n",
		},
		"a consented device is wiped": {
			Input{Claim: claim("a", 1, wipe("/dev/disk/by-id/sda", "S-sda")), Host: "n1", Node: node(disk("sda", written))},
			"wipe sda\n",
		},
		"a consent for another serial number wipes nothing": {
			Input{Claim: claim("a", 1, wipe("/dev/disk/by-path/slot-sda", "S-old")), Host: "n1", Node: node(disk("sda", written))},
			"problem DeviceRefused /dev/disk/by-id/sda: devices.wipe names the disk with serial number \"S-old\", the one there now has \"S-sda\": it is not wiped\n",
		},
		"a consent does not cover a device in use": {
			Input{
				Claim: claim("a", 1, wipe("/dev/disk/by-id/sda", "")), Host: "n1",
				Node: node(disk("sda", refused(v1alpha1.RefusalFilesystem), refused(v1alpha1.RefusalMounted))),
			},
			"problem DeviceRefused /dev/disk/by-id/sda: cannot be wiped: It is Filesystem (Filesystem), It is Mounted (Mounted)\n",
		},
		"an older Cluster that may wipe a device wants it": {
			Input{
				Claim: claim("a", 1, wipe("/dev/disk/by-id/sda", "")), Host: "n1", Node: node(disk("sda", written)),
				Rivals: []Claim{claim("b", 2, wipe("/dev/disk/by-id/sda", ""))},
			},
			"problem DeviceConflict /dev/disk/by-id/sda: is also chosen by Cluster b, which is older\n",
		},
		"a consent does not cover what could not be read": {
			Input{
				Claim: claim("a", 1, wipe("/dev/disk/by-id/sda", "")), Host: "n1",
				Node: node(disk("sda", refused(v1alpha1.RefusalUnreadable), func(d *decide.Device) { d.Digest = "" })),
			},
			"problem DeviceRefused /dev/disk/by-id/sda: cannot be wiped: It is Unreadable (Unreadable)\n",
		},
		"a consent on another host does nothing here": {
			Input{
				Claim: claim("a", 1, &v1alpha1.DeviceSelector{Wipe: []v1alpha1.WipeConsent{{Host: "n2", Path: "/dev/disk/by-id/sda"}}}), Host: "n1",
				Node: node(disk("sda", written)),
			},
			"refused DeviceRefused /dev/disk/by-id/sda: It is Filesystem (Filesystem)\n",
		},
		"a consent without a device is told": {
			Input{Claim: claim("a", 1, wipe("/dev/disk/by-id/gone", "")), Host: "n1", Node: node()},
			"problem DeviceNotFound /dev/disk/by-id/gone: is listed under devices.wipe, but there is no such device on this host\n",
		},
		"a consent that the selector does not choose is told": {
			Input{
				Claim: claim("a", 1, &v1alpha1.DeviceSelector{
					Paths: []v1alpha1.DevicePath{"/dev/disk/by-id/sdb"},
					Wipe:  []v1alpha1.WipeConsent{{Host: "n1", Path: "/dev/disk/by-id/sda"}},
				}), Host: "n1",
				Node: node(disk("sda", written), disk("sdb")),
			},
			"take sdb\nproblem DeviceRefused /dev/disk/by-id/sda: is listed under devices.wipe, but the rest of spec.devices does not choose it\n",
		},
		"a clean device is not wiped, consent or not": {
			Input{Claim: claim("a", 1, wipe("/dev/disk/by-id/sda", "")), Host: "n1", Node: node(disk("sda"))},
			"take sda\n",
		},
		"of two Clusters the older gets the disk": {
			Input{Claim: claim("young", 1, nil), Rivals: []Claim{claim("old", 2, nil)}, Node: node(disk("sda"))},
			"refused DeviceConflict /dev/disk/by-id/sda: is also chosen by Cluster old, which is older\n",
		},
		"the older one takes it": {
			Input{Claim: claim("old", 2, nil), Rivals: []Claim{claim("young", 1, nil)}, Node: node(disk("sda"))},
			"take sda\n",
		},
		"of the same age the name decides": {
			Input{Claim: claim("b", 1, nil), Rivals: []Claim{claim("a", 1, nil)}, Node: node(disk("sda"))},
			"refused DeviceConflict /dev/disk/by-id/sda: is also chosen by Cluster a, which is older\n",
		},
		"an older Cluster that does not want it is no rival": {
			Input{Claim: claim("young", 1, nil), Rivals: []Claim{claim("old", 2, paths("/dev/disk/by-id/sdx"))}, Node: node(disk("sda"))},
			"take sda\n",
		},
		"a rival that takes nothing new is none": {
			Input{
				Claim: claim("young", 1, nil), Node: node(disk("sda")),
				Rivals: []Claim{func() Claim { c := claim("old", 2, nil); c.Idle = true; return c }()},
			},
			"take sda\n",
		},
		"a disk that a younger Cluster owns stays its": {
			Input{Claim: claim("old", 2, paths("/dev/disk/by-id/sda")), Rivals: []Claim{claim("young", 1, nil)}, Node: node(disk("sda", owned("uid-young")))},
			"problem DeviceConflict /dev/disk/by-id/sda: belongs to Cluster young\n",
		},
		"a disk of a Cluster that is gone is named by its tag, and never wiped": {
			Input{Claim: claim("a", 2, wipe("/dev/disk/by-id/sda", "")), Host: "n1", Node: node(disk("sda", owned("uid-lost")))},
			"problem DeviceConflict /dev/disk/by-id/sda: belongs to a Cluster with UID uid-lost, which does not exist any more\n",
		},
		"a device taken out of the list is given back when it is empty": {
			Input{
				Claim: claim("a", 1, paths("/dev/disk/by-id/sda")), Group: group(empty("sda"), empty("sdb")),
				Node: node(disk("sda", owned("uid-a")), disk("sdb", owned("uid-a"))),
			},
			"owned sda\nowned sdb\nrelease sdb\n",
		},
		"a device taken out of the list stays while it holds data": {
			Input{
				Claim: claim("a", 1, paths("/dev/disk/by-id/sda")), Group: group(empty("sda"), filled("sdb")),
				Node: node(disk("sda", owned("uid-a")), disk("sdb", owned("uid-a"))),
			},
			"owned sda\nowned sdb\nproblem VolumesExist /dev/disk/by-id/sdb: is not listed under devices.paths any more, but holds volumes: it stays until they are deleted\n",
		},
		"the last device of a group stays": {
			Input{
				Claim: claim("a", 1, paths("/dev/disk/by-id/sdx")), Group: group(empty("sda")), Node: node(disk("sda", owned("uid-a"))),
				Elsewhere: func(string) bool { return true },
			},
			"owned sda\nproblem DeviceRefused /dev/disk/by-id/sda: is not listed under devices.paths any more, but no other device is there to keep the volume group\n",
		},
		"a list with names of the kernel gives nothing back": {
			Input{
				Claim: claim("a", 1, paths("/dev/sda")), Group: group(empty("sda"), empty("sdb")),
				Node: node(disk("sda", owned("uid-a")), disk("sdb", owned("uid-a"))),
			},
			"owned sda\nowned sdb\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, show(choose(c.in))); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

func TestSelect_orphanOfOurs(t *testing.T) {
	d := disk("sda", refused(v1alpha1.RefusalLVM), func(d *decide.Device) { d.PVUUID = "foreign" })
	if got := choose(Input{Claim: claim("a", 1, nil), Node: node(d)}); len(got.Take) != 0 {
		t.Error("a physical volume of somebody else was taken")
	}
}

func TestClaim_everyPairHasOneWinner(t *testing.T) {
	all := []Claim{claim("a", 1, nil), claim("b", 1, nil), claim("c", 3, nil), claim("d", 0, nil)}
	for _, x := range all {
		for _, y := range all {
			if x.Name != y.Name && x.Before(y) == y.Before(x) {
				t.Errorf("%s and %s have no winner", x.Name, y.Name)
			}
		}
	}
}

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"abc", "abc", true},
		{"abc", "abcd", false},
		{"a*", "abc", true},
		{"*c", "abc", true},
		{"a*c", "abc", true},
		{"a*b*c", "axbxc", true},
		{"a*b*c", "axcxb", false},
		{"*", "", true},
		{"a*a", "a", false},
		{"*b*", "abc", true},
	} {
		if got := glob(c.pattern, c.text); got != c.want {
			t.Errorf("glob(%q, %q) = %t", c.pattern, c.text, got)
		}
	}
}

func TestSelect_retiredDeviceIsTakenByNobody(t *testing.T) {
	retire := func(path, serial string) []Retired {
		return []Retired{{Member: "b.n1", Device: v1alpha1.RetiredDevice{Path: v1alpha1.DevicePath(path), Serial: serial}}}
	}
	const refusal = "DeviceRefused /dev/disk/by-id/sda: is retired by Member b.n1, which lists it under spec.retire\n"
	for name, c := range map[string]struct {
		in   Input
		want string
	}{
		"a clean device": {
			Input{Claim: claim("a", 1, nil), Node: node(disk("sda"), disk("sdb")), Retired: retire("/dev/disk/by-id/sda", "")},
			"take sdb\nrefused " + refusal,
		},
		"by another of its names": {
			Input{Claim: claim("a", 1, nil), Node: node(disk("sda")), Retired: retire("/dev/disk/by-path/slot-sda", "S-sda")},
			"refused " + refusal,
		},
		"another device at the same path is not meant": {
			Input{Claim: claim("a", 1, nil), Node: node(disk("sda")), Retired: retire("/dev/disk/by-id/sda", "S-old")},
			"take sda\n",
		},
		"a device that the spec names is a problem": {
			Input{Claim: claim("a", 1, paths("/dev/disk/by-id/sda")), Node: node(disk("sda")), Retired: retire("/dev/disk/by-id/sda", "")},
			"problem " + refusal,
		},
		"a consent does not cover it": {
			Input{
				Claim: claim("a", 1, wipe("/dev/disk/by-id/sda", "")), Host: "n1",
				Node: node(disk("sda", refused(v1alpha1.RefusalFilesystem))), Retired: retire("/dev/disk/by-id/sda", ""),
			},
			"problem " + refusal,
		},
		"what the group holds stays owned": {
			Input{
				Claim: claim("a", 1, nil), Group: group(empty("sda")), Node: node(disk("sda", owned("uid-a"))),
				Retired: retire("/dev/disk/by-id/sda", ""),
			},
			"owned sda\n",
		},
		"an older Cluster that would choose it does not matter": {
			Input{
				Claim: claim("young", 1, nil), Rivals: []Claim{claim("old", 2, nil)}, Node: node(disk("sda")),
				Retired: retire("/dev/disk/by-id/sda", ""),
			},
			"refused " + refusal,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, show(choose(c.in))); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}
