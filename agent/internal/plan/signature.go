package plan

import (
	"fmt"
	"strings"

	"quarry.storage/quarry/pkg/refusal"
)

// Signature is one mark found on a device.
type Signature struct {
	// Type as libblkid names it where it knows it: "ext4", "gpt", "dos", "LVM2_member", "crypto_LUKS", …
	Type string
	// Offset in bytes.
	Offset int64
	// UUID and Label that the format carries, if any.
	UUID, Label string
}

// signatureReasons gives the refusal for the formats that have one of their own. Whatever is not listed, and does not end in
// "_raid_member", is RefusalSignature.
var signatureReasons = map[string]string{
	"gpt": refusal.PartitionTable, "dos": refusal.PartitionTable, "mbr": refusal.PartitionTable,
	"PMBR": refusal.PartitionTable, "pmbr": refusal.PartitionTable, "bsd": refusal.PartitionTable,
	"sun": refusal.PartitionTable, "sgi": refusal.PartitionTable, "mac": refusal.PartitionTable,
	"atari": refusal.PartitionTable, "ultrix": refusal.PartitionTable, "minix_pt": refusal.PartitionTable,
	"solaris_x86": refusal.PartitionTable, "unixware": refusal.PartitionTable, "dasd": refusal.PartitionTable,
	"aix": refusal.PartitionTable, "ldm": refusal.PartitionTable,

	"swap": refusal.Swap, "swsuspend": refusal.Swap, "swap_area": refusal.Swap,

	"LVM2_member": refusal.LVM, "LVM1_member": refusal.LVM, "DM_snapshot_cow": refusal.LVM,
	"DM_integrity": refusal.Signature, "DM_verity_hash": refusal.Signature,

	"linux_raid_member": refusal.RAID, "ddf_raid_member": refusal.RAID, "drbd": refusal.RAID,
	"mpath_member": refusal.Multipath,
	"zfs_member":   refusal.ZFS, "zfs": refusal.ZFS,
	"bcache": refusal.Bcache, "bcachefs": refusal.Filesystem,
	"crypto_LUKS": refusal.Encrypted, "luks": refusal.Encrypted, "BitLocker": refusal.Encrypted,
	"cs_fvault2": refusal.Encrypted,

	"quarry_wipe": refusal.WipeInterrupted,

	"ceph_bluestore": refusal.Ceph, "ceph": refusal.Ceph, "bluestore": refusal.Ceph,

	"ext2": refusal.Filesystem, "ext3": refusal.Filesystem, "ext4": refusal.Filesystem,
	"ext4dev": refusal.Filesystem, "jbd": refusal.Filesystem, "xfs": refusal.Filesystem,
	"xfs_external_log": refusal.Filesystem, "btrfs": refusal.Filesystem, "vfat": refusal.Filesystem, "ReFS": refusal.Filesystem,
	"exfat": refusal.Filesystem, "ntfs": refusal.Filesystem, "iso9660": refusal.Filesystem,
	"udf": refusal.Filesystem, "squashfs": refusal.Filesystem, "squashfs3": refusal.Filesystem,
	"erofs": refusal.Filesystem, "cramfs": refusal.Filesystem, "romfs": refusal.Filesystem,
	"f2fs": refusal.Filesystem, "nilfs2": refusal.Filesystem, "jfs": refusal.Filesystem,
	"reiserfs": refusal.Filesystem, "reiser4": refusal.Filesystem, "gfs": refusal.Filesystem,
	"gfs2": refusal.Filesystem, "ocfs": refusal.Filesystem, "ocfs2": refusal.Filesystem,
	"hfs": refusal.Filesystem, "hfsplus": refusal.Filesystem, "apfs": refusal.Filesystem,
	"ufs": refusal.Filesystem, "minix": refusal.Filesystem, "zonefs": refusal.Filesystem,
	"VMFS": refusal.Filesystem, "VMFS_volume_member": refusal.Filesystem, "hpfs": refusal.Filesystem,
	"befs": refusal.Filesystem, "bfs": refusal.Filesystem, "oracleasm": refusal.Filesystem,
	"ubifs": refusal.Filesystem, "jffs2": refusal.Filesystem, "nss": refusal.Filesystem,
}

// signatureReason classifies one format.
func signatureReason(format string) string {
	if reason, ok := signatureReasons[format]; ok {
		return reason
	}
	if strings.HasSuffix(format, "_raid_member") {
		return refusal.RAID
	}
	return refusal.Signature
}

// marks are the signatures of a device together with the formats that only udev's database names, ordered.
func marks(d Device) []Signature {
	out := sortedSignatures(d.Signatures)
	for _, key := range []string{"ID_PART_TABLE_TYPE", "ID_FS_TYPE"} {
		format := d.UdevTags[key]
		if format != "" && !hasFormat(out, format) {
			out = append(out, Signature{
				Type: format, Offset: offsetUnknown, UUID: d.UdevTags["ID_FS_UUID"], Label: d.UdevTags["ID_FS_LABEL"],
			})
		}
	}
	return out
}

// offsetUnknown is the offset of a mark that is known from udev's database only.
const offsetUnknown = -1

func hasFormat(in []Signature, format string) bool {
	for _, s := range in {
		if s.Type == format {
			return true
		}
	}
	return false
}

// describe says what the marks of one refusal are: `carries an ext4 filesystem (label "photos")`.
func describe(d Device, reason, noun string) string {
	var parts []string
	for _, s := range marks(d) {
		if signatureReason(s.Type) == reason {
			parts = append(parts, describeMark(s, noun))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "The device carries " + strings.Join(parts, " and ") + "."
}

func describeMark(s Signature, noun string) string {
	text := article(s.Type) + " " + s.Type
	if noun != "" {
		text += " " + noun
	}
	var details []string
	if s.Label != "" {
		details = append(details, fmt.Sprintf("label %q", s.Label))
	}
	if s.UUID != "" {
		details = append(details, "uuid "+s.UUID)
	}
	if s.Offset == offsetUnknown {
		details = append(details, "according to udev")
	}
	if len(details) == 0 {
		return text
	}
	return text + " (" + strings.Join(details, ", ") + ")"
}

// article is "an" before the names of formats that are spoken with a vowel first.
func article(format string) string {
	for _, prefix := range []string{"a", "e", "i", "o", "A", "E", "xfs", "f2fs", "ntfs", "hfs", "LVM", "mbr", "mpath"} {
		if strings.HasPrefix(format, prefix) {
			return "an"
		}
	}
	return "a"
}
