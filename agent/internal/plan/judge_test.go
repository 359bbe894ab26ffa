package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/pkg/refusal"
)

const gib = 1 << 30

var testPolicy = Policy{MinSizeBytes: gib, AllowTypes: []string{"loop", "ubd"}}

// cleanDisk is a disk that nothing speaks against.
func cleanDisk(name string) Device {
	return Device{
		Path: "/dev/disk/by-id/ata-" + name, KernelName: name, Major: 8, Type: "disk",
		Links:     []string{"/dev/disk/by-id/ata-" + name, "/dev/disk/by-path/pci-" + name},
		SizeBytes: 100 * gib, LogicalSectorBytes: 512, PhysicalSectorBytes: 4096,
		Model: "Model", Serial: "SERIAL-" + name, WWN: "0x5000" + name, Transport: "sata",
		HeadTailZero: true, ContentDigest: "00" + name, Use: Unused,
	}
}

// with is a clean disk with a change.
func with(change func(*Device)) Device {
	d := cleanDisk("sdb")
	change(&d)
	return d
}

func signed(format, label, uuid string) Device {
	return with(func(d *Device) {
		d.HeadTailZero = false
		d.Signatures = []Signature{{Type: format, Offset: 1080, Label: label, UUID: uuid}}
	})
}

func TestJudge(t *testing.T) {
	for name, tt := range map[string]struct {
		device Device
		want   []Refusal
	}{
		"a clean disk is taken": {cleanDisk("sdb"), nil},
		"a loop device that is allowed is taken by its name": {with(func(d *Device) {
			d.Type, d.Path, d.Links, d.WWN, d.Serial = "loop", "/dev/loop0", nil, "", ""
		}), nil},
		"a disk with a path only is taken": {with(func(d *Device) {
			d.Path, d.Links, d.WWN, d.Serial = "/dev/disk/by-path/pci-1", nil, "", ""
		}), nil},
		"an unreadable fact": {
			with(func(d *Device) { d.Unreadable = []string{"size: open: permission denied", "mounts: eof"} }),
			[]Refusal{{"Unreadable", "These facts could not be read: size: open: permission denied; mounts: eof."}},
		},
		"a content that was not read": {
			with(func(d *Device) { d.ContentDigest, d.HeadTailZero = "", false }),
			[]Refusal{{"Unreadable", "The content of the device was not read."}},
		},
		"a suspended device": {
			with(func(d *Device) { d.Suspended = true }),
			[]Refusal{{"Suspended", "The device is suspended; reading it would block."}},
		},
		"a partition": {
			with(func(d *Device) { d.Type = "partition" }),
			[]Refusal{{"Partition", "The device is a partition; only whole disks are taken."}},
		},
		"a virtual device": {
			with(func(d *Device) { d.Type = "dm" }),
			[]Refusal{{"VirtualDevice", `The device is of kind "dm"; only disks are taken.`}},
		},
		"a device of no kind": {
			with(func(d *Device) { d.Type = "" }),
			[]Refusal{{"VirtualDevice", "The kind of the device is not known."}},
		},
		"an optical drive has several reasons": {
			with(func(d *Device) { d.Type, d.ReadOnly, d.SizeBytes = "rom", true, gib-1 }),
			[]Refusal{
				{"VirtualDevice", `The device is of kind "rom"; only disks are taken.`},
				{"Removable", "The device, or its medium, is removable."},
				{"ReadOnly", "The device cannot be written."},
				{"TooSmall", "The device has 1073741823 bytes; at least 1073741824 are wanted."},
			},
		},
		"a disk that is seen twice": {
			with(func(d *Device) { d.WWN, d.Paths = "0x5", []string{"sdc", "sdd"} }),
			[]Refusal{{"TwoPaths", "The device is the same disk as sdc, sdd (WWN 0x5) over another path: set up multipath on the node, or leave one path."}},
		},
		"a disk that is seen twice, and that multipath has": {
			with(func(d *Device) {
				d.Paths, d.UdevTags = []string{"sdc"}, map[string]string{"DM_MULTIPATH_DEVICE_PATH": "1"}
			}),
			[]Refusal{{"MultipathMember", "The device is a path of a multipath device."}},
		},
		"a zoned disk": {
			with(func(d *Device) { d.Zoned = "host-managed" }),
			[]Refusal{{"Zoned", "The device is zoned (host-managed); volumes need a disk that can be written in any order."}},
		},
		"a disk without identity": {
			with(func(d *Device) {
				d.Path, d.Links, d.WWN, d.Serial = "/dev/sdb", []string{"/dev/disk/by-id/lvm-pv-uuid-x"}, "", ""
			}),
			[]Refusal{{"NoIdentity", "The device has neither a serial number nor a WWN, and no stable link leads to it."}},
		},
		"mounted once": {
			with(func(d *Device) { d.Mounts = []string{"/srv"} }),
			[]Refusal{{"Mounted", "The device is mounted at /srv."}},
		},
		"mounted twice": {
			with(func(d *Device) { d.Mounts = []string{"/srv", "/x"} }),
			[]Refusal{{"Mounted", "The device is mounted at /srv and 1 other place."}},
		},
		"mounted often, and swap": {
			with(func(d *Device) { d.Mounts = []string{"/srv", "/x", "/y", "[swap]"} }),
			[]Refusal{
				{"Mounted", "The device is mounted at /srv and 2 other places."},
				{"Swap", "The device is in use as swap space."},
			},
		},
		"formatted as swap": {
			signed("swap", "", ""),
			[]Refusal{{"Swap", "The device carries a swap area."}},
		},
		"held": {
			with(func(d *Device) { d.Holders = []string{"dm-0", "md1"} }),
			[]Refusal{{"Held", "The device is in use by dm-0, md1."}},
		},
		"owned by a Cluster": {
			with(func(d *Device) {
				d.PVUUID, d.Group, d.OwnerUID = "u", "g", "uid"
				d.Signatures = []Signature{{Type: "LVM2_member"}}
			}),
			[]Refusal{{"Owned", `The device belongs to group "g" of the Cluster with UID uid.`}},
		},
		"in a foreign group": {
			with(func(d *Device) { d.PVUUID, d.Group = "u", "vg0" }),
			[]Refusal{{"LVMPhysicalVolume", `The device is a physical volume of the LVM group "vg0".`}},
		},
		"in no group": {
			with(func(d *Device) { d.PVUUID = "u" }),
			[]Refusal{{"LVMPhysicalVolume", "The device is an LVM physical volume (uuid u) in no group."}},
		},
		"LVM in udev's eyes only": {
			with(func(d *Device) { d.UdevTags = map[string]string{"ID_FS_TYPE": "LVM2_member", "ID_FS_UUID": "u"} }),
			[]Refusal{{"LVMPhysicalVolume", "The device carries an LVM2_member (uuid u, according to udev)."}},
		},
		"a partition table without partitions": {
			signed("gpt", "", "0-1"),
			[]Refusal{{"PartitionTable", "The device carries a gpt partition table (uuid 0-1)."}},
		},
		"a partition table with partitions": {
			with(func(d *Device) { d.Signatures, d.Partitions = []Signature{{Type: "dos"}}, []string{"sdb1", "sdb2"} }),
			[]Refusal{{"PartitionTable", "The device carries a dos partition table with the partitions sdb1, sdb2."}},
		},
		"partitions without a table": {
			with(func(d *Device) { d.Partitions, d.HeadTailZero = []string{"sdb1"}, false }),
			[]Refusal{{"PartitionTable", "The device has 1 partitions: sdb1."}},
		},
		"software RAID":    {signed("linux_raid_member", "", ""), []Refusal{{"RAIDMember", "The device carries a linux_raid_member mark."}}},
		"firmware RAID":    {signed("isw_raid_member", "", ""), []Refusal{{"RAIDMember", "The device carries an isw_raid_member mark."}}},
		"multipath":        {signed("mpath_member", "", ""), []Refusal{{"MultipathMember", "The device carries an mpath_member mark."}}},
		"ZFS":              {signed("zfs_member", "tank", ""), []Refusal{{"ZFSMember", `The device carries a zfs_member label (label "tank").`}}},
		"bcache":           {signed("bcache", "", ""), []Refusal{{"Bcache", "The device carries a bcache superblock."}}},
		"LUKS":             {signed("crypto_LUKS", "", "u"), []Refusal{{"Encrypted", "The device carries a crypto_LUKS header (uuid u)."}}},
		"Ceph":             {signed("ceph_bluestore", "", ""), []Refusal{{"Ceph", "The device carries a ceph_bluestore label."}}},
		"ext4":             {signed("ext4", "photos", "u"), []Refusal{{"Filesystem", `The device carries an ext4 filesystem (label "photos", uuid u).`}}},
		"an odd signature": {signed("stratis", "", ""), []Refusal{{"Signature", "The device carries a stratis signature."}}},
		"multipath in udev's eyes": {
			with(func(d *Device) { d.UdevTags = map[string]string{"DM_MULTIPATH_DEVICE_PATH": "1"} }),
			[]Refusal{{"MultipathMember", "The device is a path of a multipath device."}},
		},
		"several signatures": {
			with(func(d *Device) {
				d.HeadTailZero = false
				d.Signatures = []Signature{{Type: "xfs", Offset: 9}, {Type: "vfat", Offset: 0}, {Type: "gpt", Offset: 512}, {Type: "btrfs", Offset: 9}}
			}),
			[]Refusal{
				{"PartitionTable", "The device carries a gpt partition table."},
				{"Filesystem", "The device carries a vfat filesystem and a btrfs filesystem and an xfs filesystem."},
			},
		},
		"an interrupted wipe": {
			with(func(d *Device) {
				d.HeadTailZero, d.Wipe = false, &WipeMark{Digest: "x"}
				d.Signatures = []Signature{{Type: "quarry_wipe"}}
			}),
			[]Refusal{{"WipeInterrupted", "A wipe of the device, approved earlier, has not finished."}},
		},
		"an interrupted wipe of a disk that was used since": {
			with(func(d *Device) {
				d.HeadTailZero, d.Wipe = false, &WipeMark{Digest: "x", Later: []string{"zfs_member"}}
				d.Signatures = []Signature{{Type: "quarry_wipe"}}
			}),
			[]Refusal{{
				"WipeInterrupted",
				"A wipe of the device, approved earlier, has not finished, and since then the device got what it does not cover: zfs_member.",
			}},
		},
		"a damaged mark of a wipe": {
			signed("quarry_wipe", "", ""),
			[]Refusal{{"WipeInterrupted", "The device carries a quarry_wipe."}},
		},
		"unknown data": {
			with(func(d *Device) { d.HeadTailZero = false }),
			[]Refusal{{"UnknownData", "The device is not empty, and no known format was recognised on it."}},
		},
		"quiet for too short a time": {
			with(func(d *Device) { d.Use = Untested }),
			[]Refusal{{"Settling", "Something happened to the device a moment ago; it can be taken once it has been quiet for a while."}},
		},
		"what is not clean is not tested": {
			with(func(d *Device) { d.Use, d.ReadOnly = Untested, true }),
			[]Refusal{{"ReadOnly", "The device cannot be written."}},
		},
		"busy": {
			with(func(d *Device) { d.Use = Used }),
			[]Refusal{{"Busy", "The device could not be opened exclusively; something uses it."}},
		},
		"busy, and it is known with whom": {
			with(func(d *Device) { d.Use, d.Users = Used, []string{"loop device loop0", "process dd (pid 7)"} }),
			[]Refusal{{"Busy", "The device is in use by loop device loop0, process dd (pid 7)."}},
		},
		"busy with many": {
			with(func(d *Device) { d.Use, d.Users = Used, []string{"a", "b", "c", "d", "e"} }),
			[]Refusal{{"Busy", "The device is in use by a, b, c and 2 more."}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Judge(tt.device, testPolicy)); diff != "" {
				t.Errorf("refusals (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPromising(t *testing.T) {
	for use := range Used + 1 {
		if !Promising(with(func(d *Device) { d.Use = use }), testPolicy) {
			t.Errorf("a clean disk with use %d is not worth a test", use)
		}
	}
	for _, d := range []Device{signed("ext4", "", ""), with(func(d *Device) { d.Unreadable = []string{"x"} })} {
		if Promising(d, testPolicy) {
			t.Errorf("%+v is tested", d)
		}
	}
}

func TestSignatureReason_default(t *testing.T) {
	if got := signatureReason("never-heard-of"); got != refusal.Signature {
		t.Errorf("reason %q", got)
	}
}
