package inventory

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"quarry.storage/quarry/agent/internal/host/block"
	"quarry.storage/quarry/agent/internal/host/disk"
	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/pkg/refusal"
)

const (
	corpusSize = 64 << 20
	// osdLabel is how a label of BlueStore begins.
	osdLabel = "bluestore block device\n1f5ef2b5-5d5f-4f0c-9d52-0d4f0fb1f7d4\n"
)

// used is one kind of disk that is not ours to take.
type used struct {
	name string
	// marks are what stands on it; negative offsets count from the end.
	marks map[int64]string
	// size in bytes; corpusSize when it is zero.
	size int64
	// fact is what else the node tells of it.
	fact func(*plan.Device)
	// want is the refusal.
	want string
}

// lvmLabel is the label of a physical volume.
var lvmLabel = map[int64]string{512: "LABELONE\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x20\x00\x00\x00LVM2 001"}

// corpus are the kinds of disk that must be refused, each for its reason. Those that real tools make are in the tests of package disk, and
// those that real programs use in the end-to-end tests.
var corpus = []used{
	// Encrypted, or part of something larger.
	{name: "LUKS", marks: map[int64]string{0: "LUKS\xba\xbe\x00\x01"}, want: refusal.Encrypted},
	{name: "LUKS2 of which only the second header is left", marks: map[int64]string{16 << 10: "SKUL\xba\xbe\x00\x02"}, want: refusal.Encrypted},
	{name: "BitLocker", marks: map[int64]string{3: "-FVE-FS-"}, want: refusal.Encrypted},
	{name: "CoreStorage", marks: map[int64]string{8: "\x01\x00\x10\x00", 88: "CS"}, want: refusal.Encrypted},
	{name: "Ceph OSD", marks: map[int64]string{0: osdLabel}, want: refusal.Ceph},
	{name: "Ceph OSD, both ends zeroed, label at 1 GiB", size: 2 << 30, marks: map[int64]string{1 << 30: osdLabel}, want: refusal.Ceph},
	{name: "Ceph OSD, both ends zeroed, label at 10 GiB", size: 11 << 30, marks: map[int64]string{10 << 30: osdLabel}, want: refusal.Ceph},
	{name: "Ceph OSD, both ends zeroed, label at 100 GiB", size: 101 << 30, marks: map[int64]string{100 << 30: osdLabel}, want: refusal.Ceph},
	{name: "Ceph OSD, both ends zeroed, label at 1000 GiB", size: 1001 << 30, marks: map[int64]string{1000 << 30: osdLabel}, want: refusal.Ceph},
	{name: "bcache", marks: map[int64]string{4120: "\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81"}, want: refusal.Bcache},
	{name: "Stratis", marks: map[int64]string{516: "!Stra0tis\x86\xff\x02^\x41rh"}, want: refusal.Signature},
	{name: "VDO", marks: map[int64]string{0: "dmvdo001"}, want: refusal.Signature},
	{name: "LVM1", marks: map[int64]string{0: "HM\x01\x00"}, want: refusal.LVM},
	{name: "LVM without a readable header", marks: lvmLabel, want: refusal.LVM},
	{name: "snapshot of the device mapper", marks: map[int64]string{0: "SnAp"}, want: refusal.LVM},
	{name: "dm-verity", marks: map[int64]string{0: "verity\x00\x00"}, want: refusal.Signature},
	{name: "dm-integrity", marks: map[int64]string{0: "integrt\x00"}, want: refusal.Signature},
	{name: "Oracle ASM", marks: map[int64]string{32: "ORCLDISKDATA"}, want: refusal.Filesystem},
	{name: "ZFS of which only the last label is left", marks: uberblocks(-128 << 10), want: refusal.ZFS},
	{name: "DRBD", marks: map[int64]string{-4096 + 56: "\x00\x00\x00\x01\x83\x74\x02\x6c"}, want: refusal.RAID},

	// RAID.
	{name: "md 0.9 at the end", marks: map[int64]string{-64 << 10: "\xfc\x4e\x2b\xa9\x00\x00\x00\x00\x5a\x00\x00\x00"}, want: refusal.RAID},
	{name: "DDF", marks: map[int64]string{-512: "\xde\x11\xde\x11"}, want: refusal.RAID},
	{name: "IMSM", marks: map[int64]string{-1024: "Intel Raid ISM Cfg Sig. 1.3.00"}, want: refusal.RAID},
	{name: "RAID of NVIDIA", marks: map[int64]string{-1024: "NVIDIA  \x1e\x00\x00\x00\x64\x00\x00\x00"}, want: refusal.RAID},
	{name: "RAID of LSI", marks: map[int64]string{-512: "$XIDE$"}, want: refusal.RAID},
	{name: "RAID of HighPoint, 37x", marks: map[int64]string{4640: "\xf0\x16\x78\x5a"}, want: refusal.RAID},
	{name: "RAID of HighPoint, 45x", marks: map[int64]string{-11 * 512: "\xf3\x16\x78\x5a"}, want: refusal.RAID},
	{name: "RAID of Promise", marks: map[int64]string{-63 * 512: "Promise Technology, Inc."}, want: refusal.RAID},

	// Swap.
	{name: "swap", marks: map[int64]string{4086: "SWAP-SPACE"}, want: refusal.Swap},
	{name: "hibernated machine", marks: map[int64]string{4086: "S1SUSPEND\x00"}, want: refusal.Swap},

	// Filesystems.
	{name: "XFS", marks: map[int64]string{0: "XFSB"}, want: refusal.Filesystem},
	{name: "journal of XFS", marks: map[int64]string{0: "\xfe\xed\xba\xbe\x00\x00\x00\x00\x00\x00\x00\x02"}, want: refusal.Filesystem},
	{name: "btrfs", marks: map[int64]string{64<<10 + 64: "_BHRfS_M"}, want: refusal.Filesystem},
	{name: "bcachefs", marks: map[int64]string{4120: "\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef"}, want: refusal.Filesystem},
	{name: "f2fs", marks: map[int64]string{1024: "\x10\x20\xf5\xf2"}, want: refusal.Filesystem},
	{name: "nilfs2", marks: map[int64]string{1024: "\x02\x00\x00\x00\x00\x00\x34\x34\x18\x01\x00\x00"}, want: refusal.Filesystem},
	{name: "erofs", marks: map[int64]string{1024: "\xe2\xe1\xf5\xe0"}, want: refusal.Filesystem},
	{name: "squashfs", marks: map[int64]string{0: "hsqs"}, want: refusal.Filesystem},
	{name: "JFS", marks: map[int64]string{32 << 10: "JFS1"}, want: refusal.Filesystem},
	{name: "ReiserFS", marks: map[int64]string{64<<10 + 52: "ReIsEr2Fs"}, want: refusal.Filesystem},
	{name: "GFS2", marks: map[int64]string{64 << 10: "\x01\x16\x19\x70"}, want: refusal.Filesystem},
	{name: "OCFS2", marks: map[int64]string{4 << 10: "OCFSV2"}, want: refusal.Filesystem},
	{name: "UBIFS", marks: map[int64]string{0: "\x31\x18\x10\x06"}, want: refusal.Filesystem},
	{name: "UBI", marks: map[int64]string{0: "UBI#\x01"}, want: refusal.Signature},
	{name: "zonefs", marks: map[int64]string{0: "SFOZ"}, want: refusal.Filesystem},
	{name: "NTFS", marks: map[int64]string{3: "NTFS    "}, want: refusal.Filesystem},
	{name: "NTFS of which only the last sector is left", marks: map[int64]string{-512 + 3: "NTFS    "}, want: refusal.Filesystem},
	{name: "ReFS", marks: map[int64]string{3: "ReFS\x00\x00\x00\x00\x00FSRS"}, want: refusal.Filesystem},
	{name: "exFAT", marks: map[int64]string{3: "EXFAT   "}, want: refusal.Filesystem},
	{name: "ISO 9660", marks: map[int64]string{32<<10 + 1: "CD001"}, want: refusal.Filesystem},
	{name: "APFS", marks: map[int64]string{32: "NXSB\x00\x10\x00\x00"}, want: refusal.Filesystem},
	{name: "HFS+", marks: map[int64]string{1024: "H+\x00\x04"}, want: refusal.Filesystem},
	{name: "UFS", marks: map[int64]string{8<<10 + 1372: "\x54\x19\x01\x00"}, want: refusal.Filesystem},
	{name: "VMFS", marks: map[int64]string{2 << 20: "\x5e\xf1\xab\x2f"}, want: refusal.Filesystem},
	{name: "volume of VMFS", marks: map[int64]string{1 << 20: "\x0d\xd0\x01\xc0"}, want: refusal.Filesystem},

	// Partition tables.
	{name: "GPT with a damaged primary header", marks: map[int64]string{512: "EFI PART\xff\xff\xff\xff"}, want: refusal.PartitionTable},
	{name: "GPT of which only the backup is left", marks: map[int64]string{-512: "EFI PART\x00\x00\x01\x00"}, want: refusal.PartitionTable},
	{name: "GPT of 4 KiB sectors on a disk of 512 bytes", marks: map[int64]string{4096: "EFI PART\x00\x00\x01\x00"}, want: refusal.PartitionTable},
	{name: "hybrid MBR", marks: map[int64]string{446: entry("\x00", "\xee") + entry("\x80", "\x83"), 510: "\x55\xaa"}, want: refusal.PartitionTable},
	{name: "MBR without partitions", marks: map[int64]string{510: "\x55\xaa"}, want: refusal.PartitionTable},
	{name: "LDM", marks: map[int64]string{-512: "PRIVHEAD"}, want: refusal.PartitionTable},
	{name: "label of BSD", marks: map[int64]string{512: "\x57\x45\x56\x82", 512 + 132: "\x57\x45\x56\x82"}, want: refusal.PartitionTable},
	{name: "label of SGI", marks: map[int64]string{0: "\x0b\xe5\xa9\x41"}, want: refusal.PartitionTable},
	{name: "AIX", marks: map[int64]string{0: "\xc9\xc2\xd4\xc1"}, want: refusal.PartitionTable},
	{name: "boot sector of an unknown kind", marks: map[int64]string{446: "xxxx", 510: "\x55\xaa"}, want: refusal.Signature},

	// Nobody knows what it is.
	{name: "data of nobody at the start", marks: map[int64]string{8192: "a database without a filesystem"}, want: refusal.UnknownData},
	{name: "data of nobody at the end", marks: map[int64]string{-4096: "metadata of something"}, want: refusal.UnknownData},
	{name: "half wiped under another approval", fact: func(d *plan.Device) { d.Wipe = &plan.WipeMark{Digest: "another"} }, want: refusal.WipeInterrupted},

	// In use, without a mark.
	{name: "below a loop device", fact: inUseBy("loop device loop3"), want: refusal.Busy},
	{name: "bound into a pod", fact: inUseBy("a mount of its device node at /vol, as process pause (pid 200) sees it"), want: refusal.Busy},
	{name: "open by a process", fact: inUseBy("process qemu (pid 200)"), want: refusal.Busy},
	{name: "exported by the kernel's NVMe target", fact: inUseBy("the kernel's NVMe target (subsystem nqn.x, namespace 1)"), want: refusal.Busy},
	{name: "exported by the kernel's SCSI target", fact: inUseBy("the kernel's SCSI target (backstore iblock_0/disk)"), want: refusal.Busy},
	{name: "plugged in a moment ago", fact: func(d *plan.Device) { d.Use = plan.Untested }, want: refusal.Settling},
	{name: "opened exclusively", fact: inUseBy(), want: refusal.Busy},
	{name: "below a device-mapper device", fact: func(d *plan.Device) { d.Holders = []string{"dm-0"} }, want: refusal.Held},
	{name: "mounted", fact: func(d *plan.Device) { d.Mounts = []string{"/srv"} }, want: refusal.Mounted},
	{name: "with partitions and no table", fact: func(d *plan.Device) { d.Partitions = []string{"sda1"} }, want: refusal.PartitionTable},
	{name: "path of a multipath device", fact: func(d *plan.Device) { d.UdevTags = map[string]string{"DM_MULTIPATH_DEVICE_PATH": "1"} }, want: refusal.Multipath},
	{name: "seen over two paths", fact: func(d *plan.Device) { d.Paths = []string{"sdb"} }, want: refusal.TwoPaths},
	{name: "known to udev only", fact: func(d *plan.Device) { d.UdevTags = map[string]string{"ID_FS_TYPE": "ext4"} }, want: refusal.Filesystem},
	{name: "in a volume group of somebody else", fact: func(d *plan.Device) { d.PVUUID, d.Group = "pv", "theirs" }, want: refusal.LVM},
	{name: "in a volume group of another node", marks: lvmLabel, fact: inGroupOf("quarry-n2"), want: refusal.OtherNode},
	{name: "in a volume group of another machine", marks: lvmLabel, fact: inGroupOf("san-host"), want: refusal.OtherNode},
	{name: "in a volume group of a Cluster", fact: func(d *plan.Device) { d.PVUUID, d.Group, d.OwnerUID = "pv", "ours", "uid" }, want: refusal.Owned},

	// Not a disk to write to.
	{name: "zoned", fact: func(d *plan.Device) { d.Zoned = "host-managed" }, want: refusal.Zoned},
	{name: "read-only", fact: func(d *plan.Device) { d.ReadOnly = true }, want: refusal.ReadOnly},
	{name: "removable", fact: func(d *plan.Device) { d.Removable = true }, want: refusal.Removable},
	{name: "suspended", fact: func(d *plan.Device) { d.Suspended = true }, want: refusal.Suspended},
	{name: "a partition", fact: func(d *plan.Device) { d.Type = "partition" }, want: refusal.Partition},
	{name: "a loop device", fact: func(d *plan.Device) { d.Type = "loop" }, want: refusal.Virtual},
	{name: "too small", fact: func(d *plan.Device) { d.SizeBytes = 1 << 19 }, want: refusal.TooSmall},
	{name: "without anything that tells it from others", fact: func(d *plan.Device) { d.Path, d.Serial, d.WWN = "/dev/sda", "", "" }, want: refusal.NoIdentity},
	{name: "with a fact that cannot be read", fact: func(d *plan.Device) { d.Unreadable = []string{"users: permission denied"} }, want: refusal.Unreadable},
}

func uberblocks(at int64) map[int64]string {
	out := map[int64]string{}
	for i := range int64(16) {
		out[at+i<<10] = "\x0c\xb1\xba\x00\x00\x00\x00\x00"
	}
	return out
}

// entry is one of the four entries of a master boot record.
func entry(active, kind string) string {
	return active + "\x00\x02\x00" + kind + "\xff\xff\xff\x01\x00\x00\x00\x00\x10\x00\x00"
}

// inGroupOf puts the disk into a group of a Cluster that has a system ID, as it is seen on node n1.
func inGroupOf(systemID string) func(*plan.Device) {
	return func(d *plan.Device) {
		i := &Inventory{cfg: Config{SystemID: "quarry-n1"}}
		d.PVUUID, d.Group, d.OwnerUID, d.OtherNode = "pv", "g", "uid", i.otherNode(systemID)
	}
}

func inUseBy(who ...string) func(*plan.Device) {
	return func(d *plan.Device) { d.Use, d.Users = plan.Used, who }
}

// judged is what is said of such a disk.
func judged(t *testing.T, u used) []plan.Refusal {
	t.Helper()
	size := cmp.Or(u.size, corpusSize)
	image := filepath.Join(t.TempDir(), "disk.img")
	f, err := os.Create(image)
	if err != nil {
		t.Fatal(err)
	}
	err = f.Truncate(size)
	for off, text := range u.marks {
		if off < 0 {
			off += size
		}
		_, failed := f.WriteAt([]byte(text), off)
		err = errors.Join(err, failed)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	facts, err := disk.New().Probe(t.Context(), image)
	if err != nil {
		t.Fatal(err)
	}
	d := inspected(block.Device{
		Name: "sda", Path: "/dev/disk/by-id/wwn-0x1", Type: "disk", SizeBytes: size, LogicalSectorBytes: 512, WWN: "0x1", Serial: "S1",
	}, facts)
	if u.fact != nil {
		u.fact(&d)
	}
	return plan.Judge(d, plan.Policy{MinSizeBytes: 1 << 20})
}

// reasons returns all that a disk can be refused for.
func reasons(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "pkg", "refusal", "refusal.go"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range regexp.MustCompile(`(?m)^\t[A-Z]\w* += "(\w+)"`).FindAllStringSubmatch(string(text), -1) {
		out = append(out, m[1])
	}
	if len(out) < 25 {
		t.Errorf("only %v were found", out)
	}
	return out
}

// TestCorpus wants every kind of disk refused for its reason, every reason to have such a disk, and an empty one to be clean.
func TestCorpus(t *testing.T) {
	names := map[string]bool{}
	for _, u := range corpus {
		names[u.name] = true
		t.Run(u.name, func(t *testing.T) {
			got := judged(t, u)
			if !slices.ContainsFunc(got, func(r plan.Refusal) bool { return r.Reason == u.want }) {
				t.Errorf("refused for %+v, want %s", got, u.want)
			}
		})
	}
	if len(names) < 60 || len(names) != len(corpus) {
		t.Errorf("%d entries of %d kinds, want at least 60 kinds", len(corpus), len(names))
	}
	for _, reason := range reasons(t) {
		// Only the controller hears all nodes.
		if reason != refusal.SharedDisk && !slices.ContainsFunc(corpus, func(u used) bool { return u.want == reason }) {
			t.Errorf("no disk is refused for %s", reason)
		}
	}
	if got := judged(t, used{}); len(got) > 0 {
		t.Errorf("an empty disk is refused: %+v", got)
	}
}
