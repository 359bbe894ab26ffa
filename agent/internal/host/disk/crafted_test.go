package disk

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"strings"
	"testing"

	"quarry.storage/quarry/agent/internal/host/disk/format"
)

// bluestoreLabel is how a label of BlueStore begins.
const bluestoreLabel = "bluestore block device\n1f5ef2b5-5d5f-4f0c-9d52-0d4f0fb1f7d4\n"

// crafted are images written by hand, for what no tool makes here. confirmed ones are found by libblkid too.
var crafted = []struct {
	name      string
	size      int64
	want      string
	offset    int64
	confirmed bool
	make      func(t *testing.T, img string)
}{
	{"md 1.2", testSize, "linux_raid_member", 4096, true, func(t *testing.T, img string) { putMD(t, img, 4096) }},
	{"md 1.1", testSize, "linux_raid_member", 0, true, func(t *testing.T, img string) { putMD(t, img, 0) }},
	{"md 1.0", testSize + 512*3, "linux_raid_member", testSize - 8192, true, func(t *testing.T, img string) {
		putMD(t, img, (testSize+512*3-8192)&^4095)
	}},
	{"md 0.90", testSize + 512, "linux_raid_member", testSize - 65536, true, func(t *testing.T, img string) {
		put(t, img, testSize-65536, "\xfc\x4e\x2b\xa9\x00\x00\x00\x00\x5a\x00\x00\x00")
	}},
	{"DRBD 8.4", testSize, "drbd", testSize - 4096 + 60, true, func(t *testing.T, img string) {
		put(t, img, testSize-4096+60, "\x83\x74\x02\x6c")
		put(t, img, testSize-4096+56, "\x00\x00\x00\x01")
	}},
	{"DRBD 9", testSize, "drbd", testSize - 4096 + 60, false, func(t *testing.T, img string) {
		put(t, img, testSize-4096+60, "\x83\x74\x02\x6d")
	}},
	{"ZFS, only the last label", testSize, "zfs_member", testSize - 128*kib, true, func(t *testing.T, img string) {
		for i := range int64(16) {
			put(t, img, testSize-128*kib+i*kib, "\x0c\xb1\xba\x00\x00\x00\x00\x00")
		}
	}},
	{"ZFS, big-endian, size not aligned", testSize + 12345*512, "zfs_member", 128 * kib, true, func(t *testing.T, img string) {
		for i := range int64(16) {
			put(t, img, 128*kib+i*kib, "\x00\x00\x00\x00\x00\xba\xb1\x0c")
		}
	}},
	{"bluestore", testSize, "ceph_bluestore", 0, true, func(t *testing.T, img string) {
		put(t, img, 0, bluestoreLabel)
	}},
	{"bluestore, only the label at 1 GiB", 2 * gib, "ceph_bluestore", gib, false, func(t *testing.T, img string) {
		put(t, img, gib, bluestoreLabel)
	}},
	{"bluestore, only the label at 10 GiB", 11 * gib, "ceph_bluestore", 10 * gib, false, func(t *testing.T, img string) {
		put(t, img, 10*gib, bluestoreLabel)
	}},
	{"bluestore, only the label at 100 GiB", 101 * gib, "ceph_bluestore", 100 * gib, false, func(t *testing.T, img string) {
		put(t, img, 100*gib, bluestoreLabel)
	}},
	{"bluestore, only the label at 1000 GiB", 1001 * gib, "ceph_bluestore", 1000 * gib, false, func(t *testing.T, img string) {
		put(t, img, 1000*gib, bluestoreLabel)
	}},
	{"bluestore, only a copy in the last MiB", gib + 64*kib, "ceph_bluestore", gib, false, func(t *testing.T, img string) {
		put(t, img, gib, bluestoreLabel)
	}},
	{"btrfs, only the copy at 64 MiB", 2 * testSize, "btrfs", 64*mib + 64, false, func(t *testing.T, img string) {
		put(t, img, 64*mib+64, "_BHRfS_M")
	}},
	{"LUKS2, only the second header", testSize, "crypto_LUKS", 4 * mib, false, func(t *testing.T, img string) {
		put(t, img, 4*mib, "SKUL\xba\xbe\x00\x02")
	}},
	{"Intel firmware RAID", testSize, "isw_raid_member", testSize - 1024, true, func(t *testing.T, img string) {
		put(t, img, testSize-1024, "Intel Raid ISM Cfg Sig. 1.3.00")
	}},
	{"DDF", testSize, "ddf_raid_member", testSize - 512, true, func(t *testing.T, img string) {
		put(t, img, testSize-512, "\xde\x11\xde\x11")
		put(t, img, testSize-512+8, "LINUX-MD\xde\xad\xbe\xef\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x0001.02.00")
	}},
	{"Promise", testSize, "promise_fasttrack_raid_member", testSize - 63*512, true, func(t *testing.T, img string) {
		put(t, img, testSize-63*512, "Promise Technology, Inc.")
	}},
	{"LSI", testSize, "lsi_mega_raid_member", testSize - 512, true, func(t *testing.T, img string) { put(t, img, testSize-512, "$XIDE$") }},
	{"NVIDIA", testSize, "nvidia_raid_member", testSize - 1024, true, func(t *testing.T, img string) {
		put(t, img, testSize-1024, "NVIDIA  \x1e\x00\x00\x00\x64\x00\x00\x00")
	}},
	{"HighPoint 37x", testSize, "hpt37x_raid_member", 4640, true, func(t *testing.T, img string) { put(t, img, 4640, "\xf0\x16\x78\x5a") }},
	{"BitLocker", testSize, "BitLocker", 3, false, func(t *testing.T, img string) {
		put(t, img, 0, "\xeb\x58\x90-FVE-FS-")
		put(t, img, 160, "\x3b\xd6\x67\x49\x29\x2e\xd8\x4a\x83\x99\xf6\xa3\x39\xe3\xd0\x01")
	}},
	{"VMFS", testSize, "VMFS", 2 * mib, true, func(t *testing.T, img string) { put(t, img, 2*mib, "\x5e\xf1\xab\x2f") }},
	{"VMFS volume", testSize, "VMFS_volume_member", mib, true, func(t *testing.T, img string) { put(t, img, mib, "\x0d\xd0\x01\xc0") }},
	{"ocfs2", testSize, "ocfs2", 2048, true, func(t *testing.T, img string) { put(t, img, 2048, "OCFSV2") }},
	{"stratis", testSize, "stratis", 516, false, func(t *testing.T, img string) {
		put(t, img, 516, "!Stra0tis\x86\xff\x02^\x41rh")
	}},
	{"VDO", testSize, "vdo", 0, true, func(t *testing.T, img string) { put(t, img, 0, "dmvdo001") }},
	{"Oracle ASM", testSize, "oracleasm", 32, true, func(t *testing.T, img string) { put(t, img, 32, "ORCLDISKDATA") }},
	{"bcachefs", testSize, "bcachefs", 4120, false, func(t *testing.T, img string) {
		put(t, img, 4120, "\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef")
	}},
	{"APFS", testSize, "apfs", 32, false, func(t *testing.T, img string) { put(t, img, 32, "NXSB\x00\x10\x00\x00") }},
	{"UBI", testSize, "ubi", 0, true, func(t *testing.T, img string) { put(t, img, 0, "UBI#\x01") }},
	{"UBIFS", testSize, "ubifs", 0, true, func(t *testing.T, img string) { put(t, img, 0, "\x31\x18\x10\x06") }},
	{"snapshot of device-mapper", testSize, "DM_snapshot_cow", 0, true, func(t *testing.T, img string) { put(t, img, 0, "SnAp") }},
	{"integrity of device-mapper", testSize, "DM_integrity", 0, false, func(t *testing.T, img string) { put(t, img, 0, "integrt\x00") }},
	{"zonefs", testSize, "zonefs", 0, true, func(t *testing.T, img string) { put(t, img, 0, "SFOZ") }},
	{"romfs", testSize, "romfs", 0, true, func(t *testing.T, img string) { put(t, img, 0, "-rom1fs-") }},
	{"hibernation image", testSize, "swsuspend", 4086, true, func(t *testing.T, img string) {
		put(t, img, 1024, "\x01\x00\x00\x00\x00\x10\x00\x00")
		put(t, img, 4086, "S1SUSPEND\x00")
	}},
	{"UFS", testSize, "ufs", 8192 + 1372, true, func(t *testing.T, img string) { put(t, img, 8192+1372, "\x54\x19\x01\x00") }},
	{"backup GPT alone", testSize, "gpt", testSize - 512, true, putBackupGPT},
	{"backup GPT of 4 KiB sectors alone", testSize, "gpt", testSize - 4096, false, func(t *testing.T, img string) {
		put(t, img, -4096, "EFI PART\x00\x00\x01\x00")
	}},
	{"boot sector of an unknown kind", testSize, "boot_sector", 510, false, func(t *testing.T, img string) {
		put(t, img, 446, strings.Repeat("x", 64)+"\x55\xaa")
	}},
	{"LVM without a readable header", testSize, "LVM2_member", 536, true, func(t *testing.T, img string) {
		put(t, img, 512, "LABELONE\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x20\x00\x00\x00LVM2 001")
	}},
}

// putMD writes a superblock of version 1 with its checksum.
func putMD(t *testing.T, img string, off int64) {
	t.Helper()
	b := make([]byte, 256)
	le := binary.LittleEndian
	le.PutUint32(b, 0xa92b4efc)
	le.PutUint32(b[4:], 1)
	copy(b[16:], "0123456789abcdef")
	copy(b[32:], "host:0")
	le.PutUint64(b[144:], uint64(off/512))
	var sum uint64
	for i := 0; i < len(b); i += 4 {
		sum += uint64(le.Uint32(b[i:]))
	}
	le.PutUint32(b[216:], uint32(sum&0xffffffff)+uint32(sum>>32))
	put(t, img, off, string(b))
}

// putBackupGPT writes a valid header at the end, with a table of no partitions before it.
func putBackupGPT(t *testing.T, img string) {
	t.Helper()
	last := uint64(testSize/512 - 1)
	entries := make([]byte, 128*128)
	b := make([]byte, 92)
	le := binary.LittleEndian
	copy(b, "EFI PART\x00\x00\x01\x00\x5c\x00\x00\x00")
	le.PutUint64(b[24:], last)
	le.PutUint64(b[32:], 1)
	le.PutUint64(b[40:], 34)
	le.PutUint64(b[48:], last-33)
	copy(b[56:], "0123456789abcdef")
	le.PutUint64(b[72:], last-32)
	le.PutUint32(b[80:], 128)
	le.PutUint32(b[84:], 128)
	le.PutUint32(b[88:], crc32.ChecksumIEEE(entries))
	le.PutUint32(b[16:], crc32.ChecksumIEEE(b))
	put(t, img, -512, string(b))
}

func TestProbe_crafted(t *testing.T) {
	for _, tt := range crafted {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			img := newImage(t, tt.size)
			tt.make(t, img)
			got := facts(t, img)
			found := false
			for _, s := range got.Signatures {
				found = found || (s.Type == tt.want && s.Offset == tt.offset)
			}
			if !found || got.Clean() {
				t.Errorf("no %s at %d in %+v", tt.want, tt.offset, got.Signatures)
			}
			compareWithBlkid(t, img, got)
			if blkid := wipefs(t, img); tt.confirmed && len(blkid) == 0 {
				t.Error("libblkid does not find it")
			}
			if err := New().Wipe(t.Context(), img, "digest", accept); err != nil {
				t.Fatal(err)
			}
			if got := facts(t, img); !got.Clean() {
				t.Errorf("after the wipe: %+v", got)
			}
		})
	}
}

func FuzzProbe(f *testing.F) {
	f.Add([]byte("LABELONE"), int64(512), int64(testSize))
	f.Add([]byte("EFI PART"), int64(512), int64(4096))
	f.Add([]byte(markMagic), int64(0), int64(1<<20))
	f.Fuzz(func(t *testing.T, b []byte, off, size int64) {
		if size < 0 || size > 4*mib || off < 0 || len(b) > 4096 {
			t.Skip("larger than an image is worth")
		}
		img := newImage(t, size)
		if off+int64(len(b)) > size {
			t.Skip("the bytes do not fit into the image")
		}
		put(t, img, off, string(b))
		got := facts(t, img)
		if got.Clean() && len(bytes.Trim(b, "\x00")) > 0 && (off < format.Edge || off >= size-format.Edge) {
			t.Error("data at an end counts as clean")
		}
	})
}
