package disk

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"quarry.storage/quarry/agent/internal/host/disk/format"
)

// The mark of a wipe in progress, at the very start of the device. It fits into the smallest sector, so that it is there
// either whole or not at all:
//
//	magic | length u16 | digest length u16 | digest | number of ranges u16 | (offset u64, bytes u64)… |
//	number of signatures u16 | hash u32… | CRC-32C u32
//
// An earlier version wrote no signatures: then nothing is known of what was on the device.
//
// Length covers what follows up to the CRC; the CRC covers everything before it. All numbers are little-endian.
const (
	markMagic  = "QUARRY-WIPE-1\n"
	markBytes  = 512
	markType   = "quarry_wipe"
	markRanges = 16
	// markSignatures is how many signatures are recorded. A device with more has none on record.
	markSignatures = 40
)

// Mark is the mark of a wipe in progress.
type Mark struct {
	// Digest is the digest of the device that the wipe was approved for.
	Digest string
	// ranges are the places to clear that only what has been destroyed already would tell.
	ranges []format.Range
	// covers are the hashes of the signatures that were on the device when the wipe was approved.
	covers []uint32
}

// cover records what is on the device.
func (m *Mark) cover(found []format.Signature) {
	m.covers = nil
	if len(found) > markSignatures {
		return
	}
	for _, s := range found {
		m.covers = append(m.covers, hashOf(s))
	}
}

// Later returns the signatures that were not on the device when the wipe was approved: the approval does not cover them.
func (m *Mark) Later(found []format.Signature) []format.Signature {
	var out []format.Signature
	for _, s := range found {
		if s.Type != markType && !slices.Contains(m.covers, hashOf(s)) {
			out = append(out, s)
		}
	}
	return out
}

// hashOf tells signatures apart. The label is left out: in some formats it stands apart from the mark, and is cleared apart from it.
func hashOf(s format.Signature) uint32 {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %d %q", s.Type, s.Offset, s.UUID))
	return binary.LittleEndian.Uint32(sum[:])
}

// encode makes the sector that holds the mark.
func (m Mark) encode() ([]byte, error) {
	if len(m.ranges) > markRanges {
		return nil, fmt.Errorf("wipe mark: %d ranges", len(m.ranges))
	}
	le := binary.LittleEndian
	body := le.AppendUint16(nil, uint16(len(m.Digest)))
	body = append(body, m.Digest...)
	body = le.AppendUint16(body, uint16(len(m.ranges)))
	for _, r := range m.ranges {
		body = le.AppendUint64(body, uint64(r.Offset))
		body = le.AppendUint64(body, uint64(r.Bytes))
	}
	body = le.AppendUint16(body, uint16(len(m.covers)))
	for _, h := range m.covers {
		body = le.AppendUint32(body, h)
	}
	out := append([]byte(markMagic), le.AppendUint16(nil, uint16(len(body)))...)
	out = append(out, body...)
	out = le.AppendUint32(out, crc32.Checksum(out, crc32.MakeTable(crc32.Castagnoli)))
	if len(out) > markBytes {
		return nil, errors.New("wipe mark: digest too long")
	}
	return append(out, make([]byte, markBytes-len(out))...), nil
}

// decodeMark reads the mark at the start of a device; nil when there is none, or a damaged one.
func decodeMark(head []byte) *Mark {
	if len(head) < markBytes || !bytes.HasPrefix(head, []byte(markMagic)) {
		return nil
	}
	le := binary.LittleEndian
	end := len(markMagic) + 2 + int(le.Uint16(head[len(markMagic):]))
	if end+4 > markBytes || crc32.Checksum(head[:end], crc32.MakeTable(crc32.Castagnoli)) != le.Uint32(head[end:]) {
		return nil
	}
	body := head[len(markMagic)+2 : end]
	if len(body) < 4 {
		return nil
	}
	n := int(le.Uint16(body))
	if len(body) < 2+n+2 {
		return nil
	}
	m := &Mark{Digest: string(body[2 : 2+n])}
	rest := body[2+n:]
	count := int(le.Uint16(rest))
	if len(rest) < 2+16*count {
		return nil
	}
	for i := range count {
		r := rest[2+16*i:]
		m.ranges = append(m.ranges, format.Range{Offset: int64(le.Uint64(r)), Bytes: int64(le.Uint64(r[8:]))})
	}
	return m.decodeCovers(rest[2+16*count:])
}

// decodeCovers reads the hashes of signatures, of which an earlier version wrote none.
func (m *Mark) decodeCovers(rest []byte) *Mark {
	if len(rest) == 0 {
		return m
	}
	le := binary.LittleEndian
	if len(rest) < 2 || len(rest) != 2+4*int(le.Uint16(rest)) {
		return nil
	}
	for rest = rest[2:]; len(rest) > 0; rest = rest[4:] {
		m.covers = append(m.covers, le.Uint32(rest))
	}
	return m
}
