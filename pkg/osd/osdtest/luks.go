package osdtest

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"quarry.storage/quarry/pkg/osd"
)

// Headers are both headers of LUKS2 as cryptsetup writes them for an encrypted OSD, 32 KiB.
func Headers(h osd.Header) []byte {
	first, second := h, h
	first.Offset, second.Offset = 0, osd.HeaderBytes
	return append(header(first), header(second)...)
}

func header(h osd.Header) []byte {
	b, be := make([]byte, osd.HeaderBytes), binary.BigEndian
	copy(b, "LUKS\xba\xbe")
	if h.Offset > 0 {
		copy(b, "SKUL\xba\xbe")
	}
	be.PutUint16(b[6:], 2)
	be.PutUint64(b[8:], osd.HeaderBytes)
	be.PutUint64(b[16:], h.Sequence)
	copy(b[24:], osd.SealedLabel)
	copy(b[72:], "sha256")
	if salt, err := hex.DecodeString(h.Salt); err != nil {
		panic(err)
	} else if h.Offset == 0 {
		copy(b[104:168], salt)
	}
	copy(b[168:], h.UUID)
	copy(b[208:], h.FSID)
	be.PutUint64(b[256:], uint64(h.Offset))
	ready := ""
	if h.Ready {
		ready = fmt.Sprintf(`,"1":{"type":%q,"keyslots":[]}`, osd.TokenReady)
	}
	copy(b[4096:], fmt.Sprintf(`{"keyslots":{"0":{"type":"luks2","area":{"offset":"%d","size":"%d"}}},"tokens":{"0":{"type":%q,"keyslots":[],"size":"%d"}%s},"segments":{"0":{"type":"crypt","offset":"%d","size":"dynamic"}}}`,
		osd.HeadersBytes, osd.SlotsBytes-osd.HeadersBytes, osd.TokenMade, h.SizeBytes, ready, osd.SealedBytes))
	sum := sha256.Sum256(b)
	copy(b[448:], sum[:])
	return b
}
