package disk

import (
	"encoding/binary"
	"fmt"
)

const (
	lvmType = "LVM2_member"
	// mdaMagic starts, after a checksum, the header of an LVM metadata area.
	mdaMagic = " LVM2 x[5A%r0N*>"
)

// pvLabel is an LVM label.
type pvLabel struct {
	// off is the offset of the sector that holds the label.
	off  int64
	uuid string
	// inGroup is true unless the metadata areas, all of them, name no group.
	inGroup bool
}

// readLabel finds the LVM label, which stands in one of the first four sectors of 512 bytes. A damaged one is a label too.
func readLabel(im *image) *pvLabel {
	for sector := range int64(4) {
		off := sector * 512
		b := im.at(off, 512)
		if b == nil || string(b[:8]) != "LABELONE" || string(b[24:32]) != "LVM2 001" {
			continue
		}
		header := int64(binary.LittleEndian.Uint32(b[20:]))
		l := &pvLabel{off: off, inGroup: true}
		if header < 32 || header+40 > 512 {
			return l
		}
		l.uuid = formatPVUUID(b[header : header+32])
		l.inGroup = anyMetadata(im, b[header+40:])
		return l
	}
	return nil
}

// anyMetadata follows the two lists behind the label, data areas and metadata areas, each ended by an entry of zeroes. What
// cannot be followed counts as metadata of a group.
func anyMetadata(im *image, lists []byte) bool {
	areas, list := 0, 0
	for ; len(lists) >= 16; lists = lists[16:] {
		off := binary.LittleEndian.Uint64(lists)
		switch {
		case off == 0 && list == 1:
			return areas == 0
		case off == 0:
			list++
		case list == 1:
			areas++
			if off > 1<<62 || namesGroup(im, int64(off)) {
				return true
			}
		}
	}
	return true
}

// namesGroup tells whether the metadata area holds metadata; one that was cleared does not.
func namesGroup(im *image, off int64) bool {
	b := im.at(off, 64)
	if b == nil {
		return im.err != nil || off < im.size
	}
	return string(b[4:20]) == mdaMagic && binary.LittleEndian.Uint64(b[40:]) != 0
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
