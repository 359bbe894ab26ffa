package format

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// partitionTables looks for the tables that have no place of their own in the table of magics.
func partitionTables(im *Image, found []Signature) []Signature {
	out := append(gptTables(im), dosTable(im, found)...)
	if b := im.at(0, 512); b != nil && binary.BigEndian.Uint16(b[508:]) == 0xDABE && xorWords(b) == 0 {
		out = append(out, Signature{Type: "sun", Offset: 508})
	}
	if im.has(0, "ER") && (im.has(512, "PM") || im.has(2048, "PM")) {
		out = append(out, Signature{Type: "mac"})
	}
	for sector := range int64(16) {
		if im.has(sector*512, "RDSK") {
			out = append(out, Signature{Type: "amiga", Offset: sector * 512})
		}
	}
	return out
}

// xorWords is the checksum of a Sun label: zero when it is right.
func xorWords(b []byte) uint16 {
	var x uint16
	for i := 0; i < len(b); i += 2 {
		x ^= binary.BigEndian.Uint16(b[i:])
	}
	return x
}

// gptTables finds the primary header, the backup at the end, for either sector size, and the backup where the primary says
// it is: that is elsewhere when the disk has grown since. The magic is enough; a header that is damaged is one all the same.
func gptTables(im *Image) []Signature {
	var out []Signature
	add := func(off int64) (header []byte) {
		if header = im.at(off, 92); header == nil || string(header[:8]) != "EFI PART" {
			return nil
		}
		if !slices.ContainsFunc(out, func(s Signature) bool { return s.Offset == off }) {
			out = append(out, Signature{Type: "gpt", Offset: off, UUID: mixedUUID(header[56:72])})
		}
		return header
	}
	for _, sector := range []int64{512, 4096} {
		header := add(sector)
		add(im.Size - sector)
		if header == nil {
			continue
		}
		if alt := binary.LittleEndian.Uint64(header[32:]); alt < uint64(im.Size/sector) {
			add(int64(alt) * sector)
		}
	}
	return out
}

// bootSectors are the formats whose first sector ends like a partition table.
var bootSectors = []string{"vfat", "ntfs", "exfat", "BitLocker"}

// dosTable finds a master boot record, also one without entries and one inside the boot sector of a filesystem. Where the end of the first sector
// says that there is one, and neither its entries nor a known filesystem explain it, it is a boot sector of an unknown kind.
func dosTable(im *Image, found []Signature) []Signature {
	b := im.at(0, 512)
	if b == nil || b[510] != 0x55 || b[511] != 0xAA {
		return nil
	}
	plausible, protective := true, false
	for i := range 4 {
		e := b[446+16*i:][:16]
		plausible = plausible && e[0]&0x7f == 0
		protective = protective || e[4] == 0xEE
	}
	id := ""
	if n := binary.LittleEndian.Uint32(b[440:]); n != 0 {
		id = fmt.Sprintf("%08x", n)
	}
	known := slices.ContainsFunc(found, func(s Signature) bool { return slices.Contains(bootSectors, s.Type) && s.Offset < 512 })
	switch {
	case plausible && protective:
		return []Signature{{Type: "PMBR", Offset: 510}}
	case plausible:
		return []Signature{{Type: "dos", Offset: 510, UUID: id}}
	case !known:
		return []Signature{{Type: "boot_sector", Offset: 510}}
	}
	return nil
}
