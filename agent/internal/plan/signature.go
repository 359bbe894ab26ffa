package plan

import (
	"fmt"
	"strings"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// signatureReasons gives the refusal for the formats that have one of their own. Whatever is not listed, and does not end in
// "_raid_member", is RefusalSignature.
var signatureReasons = map[string]string{
	"gpt": v1alpha1.RefusalPartitionTable, "dos": v1alpha1.RefusalPartitionTable, "mbr": v1alpha1.RefusalPartitionTable,
	"PMBR": v1alpha1.RefusalPartitionTable, "pmbr": v1alpha1.RefusalPartitionTable, "bsd": v1alpha1.RefusalPartitionTable,
	"sun": v1alpha1.RefusalPartitionTable, "sgi": v1alpha1.RefusalPartitionTable, "mac": v1alpha1.RefusalPartitionTable,
	"atari": v1alpha1.RefusalPartitionTable, "ultrix": v1alpha1.RefusalPartitionTable, "minix_pt": v1alpha1.RefusalPartitionTable,
	"solaris_x86": v1alpha1.RefusalPartitionTable, "unixware": v1alpha1.RefusalPartitionTable, "dasd": v1alpha1.RefusalPartitionTable,
	"aix": v1alpha1.RefusalPartitionTable, "ldm": v1alpha1.RefusalPartitionTable,

	"swap": v1alpha1.RefusalSwap, "swsuspend": v1alpha1.RefusalSwap, "swap_area": v1alpha1.RefusalSwap,

	"LVM2_member": v1alpha1.RefusalLVM, "LVM1_member": v1alpha1.RefusalLVM, "DM_snapshot_cow": v1alpha1.RefusalLVM,
	"DM_integrity": v1alpha1.RefusalSignature, "DM_verity_hash": v1alpha1.RefusalSignature,

	"linux_raid_member": v1alpha1.RefusalRAID, "ddf_raid_member": v1alpha1.RefusalRAID, "drbd": v1alpha1.RefusalRAID,
	"mpath_member": v1alpha1.RefusalMultipath,
	"zfs_member":   v1alpha1.RefusalZFS, "zfs": v1alpha1.RefusalZFS,
	"bcache": v1alpha1.RefusalBcache, "bcachefs": v1alpha1.RefusalFilesystem,
	"crypto_LUKS": v1alpha1.RefusalEncrypted, "luks": v1alpha1.RefusalEncrypted, "BitLocker": v1alpha1.RefusalEncrypted,
	"cs_fvault2": v1alpha1.RefusalEncrypted,

	"quarry_wipe": v1alpha1.RefusalWipeInterrupted,

	"ceph_bluestore": v1alpha1.RefusalCeph, "ceph": v1alpha1.RefusalCeph, "bluestore": v1alpha1.RefusalCeph,

	"ext2": v1alpha1.RefusalFilesystem, "ext3": v1alpha1.RefusalFilesystem, "ext4": v1alpha1.RefusalFilesystem,
	"ext4dev": v1alpha1.RefusalFilesystem, "jbd": v1alpha1.RefusalFilesystem, "xfs": v1alpha1.RefusalFilesystem,
	"xfs_external_log": v1alpha1.RefusalFilesystem, "btrfs": v1alpha1.RefusalFilesystem, "vfat": v1alpha1.RefusalFilesystem,
	"exfat": v1alpha1.RefusalFilesystem, "ntfs": v1alpha1.RefusalFilesystem, "iso9660": v1alpha1.RefusalFilesystem,
	"udf": v1alpha1.RefusalFilesystem, "squashfs": v1alpha1.RefusalFilesystem, "squashfs3": v1alpha1.RefusalFilesystem,
	"erofs": v1alpha1.RefusalFilesystem, "cramfs": v1alpha1.RefusalFilesystem, "romfs": v1alpha1.RefusalFilesystem,
	"f2fs": v1alpha1.RefusalFilesystem, "nilfs2": v1alpha1.RefusalFilesystem, "jfs": v1alpha1.RefusalFilesystem,
	"reiserfs": v1alpha1.RefusalFilesystem, "reiser4": v1alpha1.RefusalFilesystem, "gfs": v1alpha1.RefusalFilesystem,
	"gfs2": v1alpha1.RefusalFilesystem, "ocfs": v1alpha1.RefusalFilesystem, "ocfs2": v1alpha1.RefusalFilesystem,
	"hfs": v1alpha1.RefusalFilesystem, "hfsplus": v1alpha1.RefusalFilesystem, "apfs": v1alpha1.RefusalFilesystem,
	"ufs": v1alpha1.RefusalFilesystem, "minix": v1alpha1.RefusalFilesystem, "zonefs": v1alpha1.RefusalFilesystem,
	"VMFS": v1alpha1.RefusalFilesystem, "VMFS_volume_member": v1alpha1.RefusalFilesystem, "hpfs": v1alpha1.RefusalFilesystem,
	"befs": v1alpha1.RefusalFilesystem, "bfs": v1alpha1.RefusalFilesystem, "oracleasm": v1alpha1.RefusalFilesystem,
	"ubifs": v1alpha1.RefusalFilesystem, "jffs2": v1alpha1.RefusalFilesystem, "nss": v1alpha1.RefusalFilesystem,
}

// signatureReason classifies one format.
func signatureReason(format string) string {
	if reason, ok := signatureReasons[format]; ok {
		return reason
	}
	if strings.HasSuffix(format, "_raid_member") {
		return v1alpha1.RefusalRAID
	}
	return v1alpha1.RefusalSignature
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
