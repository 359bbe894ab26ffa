package format

import (
	"encoding/binary"
	"fmt"
)

// parsers look for formats that bytes at fixed places do not tell.
var parsers = []func(*Image) []Signature{
	extFamily, fatFamily, mdRAID, drbd, zfs, udf, minix, nilfsBackup, promise, swap,
}

// extFamily tells the members of the ext family apart by their feature flags, as libblkid does.
func extFamily(im *Image) []Signature {
	const (
		compatJournal     = 0x4
		incompatJournal   = 0x8
		incompatUpToExt3  = 0x2 | 0x4 | 0x10
		roCompatUpToExt3  = 0x1 | 0x2 | 0x4
		super, magicBytes = 1024, "\x53\xef"
	)
	b := im.at(super, 256)
	if b == nil || string(b[0x38:0x3a]) != magicBytes {
		return nil
	}
	le := binary.LittleEndian
	compat, incompat, roCompat := le.Uint32(b[0x5c:]), le.Uint32(b[0x60:]), le.Uint32(b[0x64:])
	kind := "ext2"
	switch {
	case incompat&incompatJournal != 0:
		kind = "jbd"
	case incompat&^incompatUpToExt3 != 0 || roCompat&^roCompatUpToExt3 != 0:
		kind = "ext4"
	case compat&compatJournal != 0:
		kind = "ext3"
	}
	return []Signature{{Type: kind, Offset: super + 0x38, UUID: plainUUID(b[0x68:0x78]), Label: printable(b[0x78:0x88])}}
}

// fatFamily finds FAT by the names that formatters write into the boot sector.
func fatFamily(im *Image) []Signature {
	b := im.at(0, 512)
	if b == nil {
		return nil
	}
	for _, m := range []struct {
		name       string
		off        int
		id, volume int
	}{
		{"MSWIN", 0x52, 0x43, 0x47},
		{"FAT32   ", 0x52, 0x43, 0x47},
		{"MSDOS", 0x36, 0x27, 0x2b},
		{"FAT16   ", 0x36, 0x27, 0x2b},
		{"FAT12   ", 0x36, 0x27, 0x2b},
		{"FAT     ", 0x36, 0x27, 0x2b},
	} {
		if string(b[m.off:m.off+len(m.name)]) != m.name {
			continue
		}
		s := Signature{Type: "vfat", Offset: int64(m.off), Label: printable(b[m.volume : m.volume+11])}
		if s.Label == "NO NAME" {
			s.Label = ""
		}
		id := binary.LittleEndian.Uint32(b[m.id:])
		s.UUID = fmt.Sprintf("%04X-%04X", id>>16, id&0xffff)
		return []Signature{s}
	}
	return nil
}

// mdRAID finds the superblocks of Linux software RAID, each version at its own place.
func mdRAID(im *Image) []Signature {
	const little, big = "\xfc\x4e\x2b\xa9", "\xa9\x2b\x4e\xfc"
	var out []Signature
	if off := im.Size&^(64*kib-1) - 64*kib; im.has(off, little) || im.has(off, big) {
		s := Signature{Type: "linux_raid_member", Offset: off}
		if b := im.at(off, 64); b != nil {
			// Version 0.90 keeps the first word of the UUID apart from the other three.
			s.UUID = plainUUID(append(append([]byte(nil), b[20:24]...), b[52:64]...))
		}
		out = append(out, s)
	}
	for _, off := range []int64{(im.Size/512 - 16) &^ 7 * 512, 0, 4 * kib} {
		if im.has(off, little+"\x01\x00\x00\x00") {
			out = append(out, Signature{
				Type: "linux_raid_member", Offset: off,
				UUID: plainUUID(im.at(off+16, 16)), Label: printable(im.at(off+32, 32)),
			})
		}
	}
	return out
}

// drbd finds the metadata of DRBD at the end of the device, of all versions that keep it there.
func drbd(im *Image) []Signature {
	const magicOff = 60
	off := im.Size&^(4*kib-1) - 4*kib
	for _, m := range []string{"\x83\x74\x02\x6b", "\x83\x74\x02\x6c", "\x83\x74\x02\x6d"} {
		if im.has(off+magicOff, m) {
			return []Signature{{Type: "drbd", Offset: off + magicOff}}
		}
	}
	return nil
}

// zfs finds the four labels of a pool member: two at each end, each with a list of properties and a ring of uberblocks.
func zfs(im *Image) []Signature {
	const label, ring, step = 256 * kib, 128 * kib, 1 * kib
	aligned := im.Size &^ (label - 1)
	var out []Signature
	for _, base := range []int64{0, label, aligned - 2*label, aligned - label} {
		if im.has(base+16*kib, "\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01") {
			out = append(out, Signature{Type: "zfs_member", Offset: base + 16*kib})
		}
		for off := base + ring; off < base+label; off += step {
			if im.has(off, "\x0c\xb1\xba\x00\x00\x00\x00\x00") || im.has(off, "\x00\x00\x00\x00\x00\xba\xb1\x0c") {
				out = append(out, Signature{Type: "zfs_member", Offset: off})
				break
			}
		}
	}
	return out
}

// udf finds the descriptor in the volume recognition sequence, whose blocks are as large as the sectors once were.
func udf(im *Image) []Signature {
	for _, block := range []int64{2 * kib, 4 * kib} {
		for i := range int64(16) {
			off := 32*kib + i*block + 1
			if im.has(off, "NSR02") || im.has(off, "NSR03") {
				return []Signature{{Type: "udf", Offset: off}}
			}
		}
	}
	return nil
}

// minix has magics of two bytes; the counts beside them have to make sense.
func minix(im *Image) []Signature {
	b := im.at(1024, 32)
	if b == nil {
		return nil
	}
	le := binary.LittleEndian
	switch le.Uint16(b[16:]) {
	case 0x137f, 0x138f, 0x2468, 0x2478:
		if le.Uint16(b[0:]) > 0 && le.Uint16(b[4:]) > 0 && le.Uint16(b[6:]) > 0 && le.Uint16(b[10:]) == 0 {
			return []Signature{{Type: "minix", Offset: 1024 + 16}}
		}
	}
	if le.Uint16(b[24:]) == 0x4d5a && le.Uint32(b[0:]) > 0 && le.Uint16(b[6:]) > 0 && le.Uint16(b[8:]) > 0 {
		return []Signature{{Type: "minix", Offset: 1024 + 24}}
	}
	return nil
}

// nilfsBackup is the second superblock, in the last whole block of 4 KiB.
func nilfsBackup(im *Image) []Signature {
	off := im.Size&^(4*kib-1) - 4*kib + 6
	if im.has(off, "\x34\x34") && nilfs(im, off) {
		return []Signature{{Type: "nilfs2", Offset: off}}
	}
	return nil
}

// promise finds the firmware RAID of that maker, which stands at one of many distances from the end.
func promise(im *Image) []Signature {
	for _, sectors := range []int64{63, 255, 256, 16, 399, 591, 675, 735, 911, 951, 974, 991} {
		off := (im.Size/512 - sectors) * 512
		if im.has(off, "Promise Technology, Inc.") {
			return []Signature{{Type: "promise_fasttrack_raid_member", Offset: off}}
		}
	}
	return nil
}

// swap finds swap space, whose UUID and label stand away from its magic.
func swap(im *Image) []Signature {
	for _, off := range pages {
		if !im.has(off, "SWAPSPACE2") {
			continue
		}
		s := Signature{Type: "swap", Offset: off}
		if b := im.at(1024, 44); b != nil && binary.LittleEndian.Uint32(b) == 1 {
			s.UUID, s.Label = plainUUID(b[12:28]), printable(b[28:44])
		}
		return []Signature{s}
	}
	return nil
}
