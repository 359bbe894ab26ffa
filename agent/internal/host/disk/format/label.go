package format

import (
	"encoding/binary"
	"fmt"
)

const (
	// LVM is the type of the signature of a physical volume of LVM.
	LVM = "LVM2_member"
	// mdaMagic starts, after a checksum, the header of an LVM metadata area.
	mdaMagic = " LVM2 x[5A%r0N*>"
	// areaHeader is how much of that header is looked at, in bytes.
	areaHeader = 64
)

// Label is the label of a physical volume of LVM.
type Label struct {
	// Offset of the sector that holds it, in bytes.
	Offset int64
	// UUID as LVM writes it; empty when the label is damaged.
	UUID string
	// InGroup is true unless the metadata areas, all of them, name no group.
	InGroup bool
	// Areas is the number of metadata areas that it lists. Without one the device itself cannot tell of its group.
	Areas int
	// Group is what the metadata says of the group; empty where none can be read, which does not mean that there is none.
	Group Group
}

// signature is the label as one of the findings.
func (l *Label) signature() Signature {
	return Signature{Type: LVM, Offset: l.Offset + 24, UUID: l.UUID}
}

// readLabel finds the label of LVM, which stands in one of the first four sectors of 512 bytes; nil when there is none. A damaged one is a label
// too.
func readLabel(im *Image) *Label {
	for sector := range int64(4) {
		off := sector * 512
		b := im.at(off, 512)
		if b == nil || string(b[:8]) != "LABELONE" || string(b[24:32]) != "LVM2 001" {
			continue
		}
		header := int64(binary.LittleEndian.Uint32(b[20:]))
		l := &Label{Offset: off, InGroup: true}
		if header < 32 || header+40 > 512 {
			return l
		}
		l.UUID = formatPVUUID(b[header : header+32])
		l.readAreas(im, b[header+40:])
		return l
	}
	return nil
}

// readAreas follows the two lists behind the label, data areas and metadata areas, each ended by an entry of zeroes. What
// cannot be followed counts as metadata of a group.
func (l *Label) readAreas(im *Image, lists []byte) {
	named, list := false, 0
	for ; len(lists) >= 16; lists = lists[16:] {
		off := binary.LittleEndian.Uint64(lists)
		switch {
		case off == 0 && list == 1:
			l.InGroup = named || l.Areas == 0
			return
		case off == 0:
			list++
		case list == 1:
			l.Areas++
			if off > 1<<62 || namesGroup(im, int64(off)) {
				named = true
			}
			if off <= 1<<62 && l.Group.UUID == "" {
				l.Group = readGroup(im, int64(off))
			}
		}
	}
}

// namesGroup reports whether the metadata area holds metadata. One that LVM cleared does not, and neither does one of zeroes, which a
// release that was killed leaves behind. A header that is neither was damaged, and the area may have named a group.
func namesGroup(im *Image, off int64) bool {
	b := im.at(off, areaHeader)
	if b == nil {
		return im.err != nil || off < im.Size
	}
	if string(b[4:20]) != mdaMagic {
		return !isZero(b)
	}
	return binary.LittleEndian.Uint64(b[40:]) != 0
}

// firstArea is where LVM puts the header of the metadata area of a new physical volume, and areaSector its size.
const firstArea, areaSector = 4096, 512

// Unlabelled reports whether both ends of a device hold nothing but the header of an LVM metadata area that names no group. pvcreate writes it before the
// label: one that was killed in between leaves that, and no label ever led to anything else on the device.
func (im *Image) Unlabelled() bool {
	b := im.at(firstArea, areaSector)
	if b == nil || firstArea+areaSector > len(im.Head) || string(b[4:20]) != mdaMagic || !isZero(b[40:]) {
		return false
	}
	return isZero(im.Head[:firstArea]) && isZero(im.Head[firstArea+areaSector:]) && isZero(im.Tail)
}

// formatPVUUID writes the 32 characters as LVM does, empty when they are no characters.
func formatPVUUID(b []byte) string {
	for _, c := range b {
		if c <= ' ' || c > '~' {
			return ""
		}
	}
	return fmt.Sprintf("%s-%s-%s-%s-%s-%s-%s", b[0:6], b[6:10], b[10:14], b[14:18], b[18:22], b[22:26], b[26:32])
}
