package format

import "encoding/binary"

var (
	start = []int64{0}
	at3   = []int64{3}
	at1k  = []int64{1024}
	at32k = []int64{32 * kib}
	at64k = []int64{64 * kib}
)

// magics is the table of formats. The order does not matter; all are looked for.
var magics = []magic{
	// Containers and members of something larger.
	{kind: "crypto_LUKS", at: start, bytes: "LUKS\xba\xbe", uuid: 168, text: true, label: 24, labelLen: 48, check: luksHasLabel},
	{kind: "crypto_LUKS", at: start, bytes: "LUKS\xba\xbe", uuid: 168, text: true, check: not(luksHasLabel)},
	{kind: "crypto_LUKS", at: luksSecond, bytes: "SKUL\xba\xbe", uuid: 168, text: true},
	{kind: "BitLocker", at: at3, bytes: "-FVE-FS-"},
	{kind: "BitLocker", at: at3, bytes: "MSWIN4.1", check: bitlockerToGo},
	{kind: BlueStore, at: bluestoreLabels, bytes: "bluestore block device", uuid: 23, text: true},
	{kind: "bcache", at: []int64{4*kib + 24}, bytes: "\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81", uuid: 16, label: 48, labelLen: 32},
	{kind: "bcachefs", at: []int64{4*kib + 24}, bytes: "\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef", uuid: 32, label: 48, labelLen: 32},
	{kind: "stratis", at: []int64{516, 4*kib + 516}, bytes: "!Stra0tis\x86\xff\x02^\x41rh"},
	{kind: "vdo", at: start, bytes: "dmvdo001"},
	{kind: "LVM1_member", at: start, bytes: "HM\x01\x00"},
	{kind: "LVM1_member", at: start, bytes: "HM\x02\x00"},
	{kind: "DM_snapshot_cow", at: start, bytes: "SnAp"},
	{kind: "DM_verity_hash", at: start, bytes: "verity\x00\x00", uuid: 16},
	{kind: "DM_integrity", at: start, bytes: "integrt\x00"},
	{kind: "oracleasm", at: []int64{32}, bytes: "ORCLDISK"},
	{kind: "VMFS_volume_member", at: []int64{mib}, bytes: "\x0d\xd0\x01\xc0"},
	{kind: "VMFS", at: []int64{2 * mib}, bytes: "\x5e\xf1\xab\x2f"},
	{kind: "cs_fvault2", at: []int64{88}, bytes: "CS", check: coreStorage},

	// RAID by firmware.
	{kind: "isw_raid_member", at: []int64{-1024, -8192}, bytes: "Intel Raid ISM Cfg Sig. "},
	{kind: "nvidia_raid_member", at: []int64{-1024}, bytes: "NVIDIA"},
	{kind: "lsi_mega_raid_member", at: []int64{-512}, bytes: "$XIDE$"},
	{kind: "hpt37x_raid_member", at: []int64{4640}, bytes: "\xf0\x16\x78\x5a"},
	{kind: "hpt37x_raid_member", at: []int64{4640}, bytes: "\xfd\x16\x78\x5a"},
	{kind: "hpt45x_raid_member", at: []int64{-11 * 512}, bytes: "\xf3\x16\x78\x5a"},
	{kind: "hpt45x_raid_member", at: []int64{-11 * 512}, bytes: "\xfd\x16\x78\x5a"},
	{kind: "ddf_raid_member", at: []int64{-512, -257 * 512}, bytes: "\xde\x11\xde\x11"},
	{kind: "ddf_raid_member", at: []int64{-512, -257 * 512}, bytes: "\x11\xde\x11\xde"},

	// Swap space, and what a hibernated machine makes of it.
	{kind: "swap", at: pages, bytes: "SWAP-SPACE"},
	{kind: "swsuspend", at: pages, bytes: "S1SUSPEND\x00"},
	{kind: "swsuspend", at: pages, bytes: "S2SUSPEND\x00"},
	{kind: "swsuspend", at: pages, bytes: "ULSUSPEND\x00"},
	{kind: "swsuspend", at: pages, bytes: "LINHIB0001"},

	// Filesystems of Linux.
	{kind: "xfs", at: start, bytes: "XFSB", uuid: 32, label: 108, labelLen: 12},
	{kind: "xfs_external_log", at: start, bytes: "\xfe\xed\xba\xbe", check: xfsLog},
	{kind: "btrfs", at: btrfsSupers, bytes: "_BHRfS_M", uuid: -32, label: 0x12b - 0x40, labelLen: 256},
	{kind: "f2fs", at: []int64{1024, 4*kib + 1024}, bytes: "\x10\x20\xf5\xf2", uuid: 108},
	{kind: "squashfs", at: start, bytes: "hsqs"},
	{kind: "squashfs", at: start, bytes: "sqsh"},
	{kind: "erofs", at: at1k, bytes: "\xe2\xe1\xf5\xe0", uuid: 48, label: 64, labelLen: 16},
	{kind: "jfs", at: at32k, bytes: "JFS1", uuid: 136, label: 152, labelLen: 16},
	{kind: "reiserfs", at: []int64{8*kib + 52, 64*kib + 52, 64*kib + 20, 8*kib + 20}, bytes: "ReIsErFs"},
	{kind: "reiserfs", at: []int64{64*kib + 52}, bytes: "ReIsEr2Fs"},
	{kind: "reiserfs", at: []int64{64*kib + 52}, bytes: "ReIsEr3Fs"},
	{kind: "reiser4", at: at64k, bytes: "ReIsEr4"},
	{kind: "gfs2", at: at64k, bytes: "\x01\x16\x19\x70", uuid: 256},
	{kind: "ocfs2", at: []int64{1 * kib, 2 * kib, 4 * kib, 8 * kib}, bytes: "OCFSV2"},
	{kind: "ocfs", at: []int64{8}, bytes: "OracleCFS"},
	{kind: "ubifs", at: start, bytes: "\x31\x18\x10\x06"},
	{kind: "ubi", at: start, bytes: "UBI#"},
	{kind: "cramfs", at: []int64{0, 512}, bytes: "\x45\x3d\xcd\x28"},
	{kind: "cramfs", at: []int64{0, 512}, bytes: "\x28\xcd\x3d\x45"},
	{kind: "romfs", at: start, bytes: "-rom1fs-"},
	{kind: "zonefs", at: start, bytes: "SFOZ"},
	{kind: "bfs", at: start, bytes: "\xce\xfa\xad\x1b"},
	{kind: "nilfs2", at: []int64{1024 + 6}, bytes: "\x34\x34", check: nilfs},

	// Filesystems of others.
	{kind: "ntfs", at: at3, bytes: "NTFS    "},
	{kind: "ntfs", at: []int64{-512 + 3}, bytes: "NTFS    "},
	{kind: "ReFS", at: at3, bytes: "ReFS\x00\x00\x00\x00"},
	{kind: "exfat", at: []int64{3, 12*512 + 3}, bytes: "EXFAT   "},
	{kind: "iso9660", at: []int64{32*kib + 1}, bytes: "CD001", label: 39, labelLen: 32},
	{kind: "iso9660", at: []int64{32*kib + 9}, bytes: "CDROM"},
	{kind: "apfs", at: []int64{32}, bytes: "NXSB", uuid: 40},
	{kind: "hfsplus", at: []int64{1024, -1024}, bytes: "H+\x00\x04"},
	{kind: "hfsplus", at: []int64{1024, -1024}, bytes: "HX\x00\x05"},
	{kind: "hfs", at: []int64{1024, -1024}, bytes: "BD", check: hfs},
	{kind: "ufs", at: []int64{8*kib + 1372, 64*kib + 1372, 256*kib + 1372}, bytes: "\x54\x19\x01\x00"},
	{kind: "ufs", at: []int64{8*kib + 1372, 64*kib + 1372, 256*kib + 1372}, bytes: "\x00\x01\x19\x54"},
	{kind: "ufs", at: []int64{8*kib + 1372, 64*kib + 1372, 256*kib + 1372}, bytes: "\x19\x01\x54\x19"},
	{kind: "ufs", at: []int64{8*kib + 1372, 64*kib + 1372, 256*kib + 1372}, bytes: "\x19\x54\x01\x19"},

	// Partition tables that are known by bytes alone.
	{kind: "sgi", at: start, bytes: "\x0b\xe5\xa9\x41"},
	{kind: "bsd", at: []int64{64, 512}, bytes: "\x57\x45\x56\x82", check: bsdLabel},
	{kind: "ldm", at: []int64{3072, -512, -1856 * 512, -1024 * 1024}, bytes: "PRIVHEAD"},
	{kind: "aix", at: start, bytes: "\xc9\xc2\xd4\xc1"},
}

func not(check func(*Image, int64) bool) func(*Image, int64) bool {
	return func(im *Image, off int64) bool { return !check(im, off) }
}

// luksHasLabel: only the second version has one.
func luksHasLabel(im *Image, off int64) bool { return im.has(off+6, "\x00\x02") }

// bitlockerToGo tells a BitLocker volume on removable media from the FAT filesystem that it looks like.
func bitlockerToGo(im *Image, _ int64) bool {
	return im.has(424, "\x3b\xd6\x67\x49\x29\x2e\xd8\x4a\x83\x99\xf6\xa3\x39\xe3\xd0\x01")
}

// coreStorage wants the block type and the version beside two letters that could be anything.
func coreStorage(im *Image, _ int64) bool {
	b := im.at(0, 16)
	return b != nil && binary.LittleEndian.Uint16(b[8:]) == 1 && binary.LittleEndian.Uint16(b[10:]) == 16
}

// xfsLog wants a version that exists.
func xfsLog(im *Image, off int64) bool {
	b := im.at(off+8, 4)
	return b != nil && (binary.BigEndian.Uint32(b) == 1 || binary.BigEndian.Uint32(b) == 2)
}

// nilfs wants the revision and a sensible size of the superblock beside two short bytes.
func nilfs(im *Image, off int64) bool {
	b := im.at(off-6, 12)
	return b != nil && binary.LittleEndian.Uint32(b) == 2 && binary.LittleEndian.Uint16(b[8:]) <= 1024
}

// hfs wants a block size that exists beside two letters.
func hfs(im *Image, off int64) bool {
	b := im.at(off+20, 4)
	return b != nil && binary.BigEndian.Uint32(b) > 0 && binary.BigEndian.Uint32(b)%512 == 0
}

// bsdLabel wants the second magic that every label has.
func bsdLabel(im *Image, off int64) bool { return im.has(off+132, "\x57\x45\x56\x82") }
