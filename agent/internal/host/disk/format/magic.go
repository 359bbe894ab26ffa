package format

import (
	"bytes"
	"fmt"
	"strings"
)

// magic is a format that is known by bytes at fixed places.
type magic struct {
	// kind is the name of the format.
	kind string
	// at are the offsets of the bytes; negative ones count from the end of the device.
	at []int64
	// bytes that stand there.
	bytes string
	// uuid is the offset of the UUID, 16 bytes, from the magic; zero for none.
	uuid int64
	// label is the offset of the label from the magic, labelLen its length; zero for none.
	label    int64
	labelLen int
	// text is true for formats that store the UUID as text of 36 characters.
	text bool
	// check refuses what only looks alike; nil accepts. It gets the offset of the magic.
	check func(im *Image, off int64) bool
}

// match looks for the magic at one place.
func (m magic) match(im *Image, off int64) (Signature, bool) {
	if !im.has(off, m.bytes) || (m.check != nil && !m.check(im, off)) {
		return Signature{}, false
	}
	s := Signature{Type: m.kind, Offset: off}
	if m.text {
		s.UUID = printable(im.at(off+m.uuid, 36))
	} else if m.uuid != 0 {
		s.UUID = plainUUID(im.at(off+m.uuid, 16))
	}
	if m.labelLen > 0 {
		s.Label = printable(im.at(off+m.label, m.labelLen))
	}
	return s, true
}

// plainUUID writes 16 bytes in their order; empty for none.
func plainUUID(b []byte) string {
	if len(b) < 16 || isZero(b) {
		return ""
	}
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// mixedUUID writes 16 bytes as Microsoft stores them: the first three groups are little-endian.
func mixedUUID(b []byte) string {
	if len(b) < 16 || isZero(b) {
		return ""
	}
	return plainUUID([]byte{
		b[3], b[2], b[1], b[0], b[5], b[4], b[7], b[6],
		b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15],
	})
}

// printable is the text up to its first NUL; empty when it is no text.
func printable(b []byte) string {
	b, _, _ = bytes.Cut(b, []byte{0})
	text := strings.TrimRight(strings.ToValidUTF8(string(b), "?"), " \n")
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return ""
	}
	return text
}

const (
	kib = int64(1) << 10
	mib = int64(1) << 20
	gib = int64(1) << 30
)

// pages are the ends of the first page for every page size that Linux has: there, less ten bytes, stands the magic of swap.
var pages = []int64{4*kib - 10, 8*kib - 10, 16*kib - 10, 32*kib - 10, 64*kib - 10}

// luksSecond are where the second header of LUKS2 can stand.
var luksSecond = []int64{16 * kib, 32 * kib, 64 * kib, 128 * kib, 256 * kib, 512 * kib, mib, 2 * mib, 4 * mib}

// btrfsSupers are the superblock of btrfs and its copies.
var btrfsSupers = []int64{64*kib + 64, 64*mib + 64, 256*gib + 64}
