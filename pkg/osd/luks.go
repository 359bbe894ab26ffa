package osd

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Where things stand on the disk of an encrypted OSD: two headers of LUKS2, the one slot for a key, and the data.
const (
	// HeaderBytes is how long one header is. The second one follows the first one.
	HeaderBytes = 16 << 10
	// HeadersBytes is how long both are.
	HeadersBytes = 2 * HeaderBytes
	// SlotsBytes is how much at the start of the disk is written: the headers, and the slot that has the key of the disk.
	SlotsBytes = HeadersBytes + 258048
	// SealedBytes is where the data begin. What stands there is cipher text.
	SealedBytes = 16 << 20
	// SealedSector is the size of a sector of the data: that of the disk has to be a multiple of it.
	SealedSector = 4096
)

// What an encrypted OSD of ours has in its headers.
const (
	// SealedLabel is the label of the header.
	SealedLabel = "quarry-osd"
	// TokenMade is the token that is there from the start; it tells the size of the disk.
	TokenMade = "quarry-osd"
	// TokenReady is the token that is added last: the making of the OSD ended.
	TokenReady = "quarry-ready"
)

// KeyBytes is how long the key is that opens an encrypted OSD.
const KeyBytes = 32

// MappingName is what device-mapper calls the data of an encrypted OSD while it is open.
func MappingName(uuid string) string { return "quarry-osd-" + uuid }

// MappingUUID is the UUID that cryptsetup gives the mapping of an encrypted OSD.
func MappingUUID(uuid string) string {
	return "CRYPT-LUKS2-" + strings.ReplaceAll(uuid, "-", "") + "-" + MappingName(uuid)
}

// Kinds of headers that are not whole, for errors.Is.
var (
	// ErrCut means that the writing of the header was cut off after its first 4 KiB. No OSD ever ran under such a header alone.
	ErrCut = errors.New("the writing of it was cut off")
	// ErrTorn means that its check sum is wrong. It may have been whole once.
	ErrTorn = errors.New("wrong check sum")
	// ErrAltered means that somebody wrote it so: its check sum is right, or no writing that was cut off leaves it so, and it is not what Quarry makes.
	ErrAltered = errors.New("somebody altered it")
)

// Header is a header of LUKS2 with the label of our OSDs, at one of its two places.
type Header struct {
	// Offset of the header, in bytes.
	Offset int64
	// UUID of the OSD, and FSID of the Ceph cluster, which stand in the clear.
	UUID, FSID string
	// Sequence is higher in the younger header.
	Sequence uint64
	// Salt of the first header, which was drawn when the disk was encrypted and never changes, in hexadecimal digits. The second one has another, which is not read.
	Salt string
	// Err says why the header is not whole, see ErrCut, ErrTorn and ErrAltered; nil if it is. What follows is known of a whole one only.
	Err error
	// SizeBytes of the disk when the OSD was made.
	SizeBytes int64
	// Ready: the making of the OSD ended.
	Ready bool
}

// ParseHeaders reads the headers with our label at the start of a disk, ordered by place. Headers of others are not among them.
func ParseHeaders(head []byte) []Header {
	var out []Header
	for _, off := range []int64{0, HeaderBytes} {
		if int64(len(head)) < off+HeaderBytes {
			break
		}
		if h, ours := parseHeader(head[off:off+HeaderBytes], off); ours {
			out = append(out, h)
		}
	}
	return out
}

// Fields of the binary part of a header, as lib/luks2/luks2.h of cryptsetup has them. Numbers are big-endian.
const (
	atVersion, atSize, atSequence, atLabel, atAlgorithm, atSalt = 6, 8, 16, 24, 72, 104
	atUUID, atSubsystem, atOffset, atSum                        = 168, 208, 256, 448
	binaryBytes                                                 = 4096
)

// magics begin the first header, and the second one.
var magics = map[int64]string{0: "LUKS\xba\xbe", HeaderBytes: "SKUL\xba\xbe"}

// parseHeader reads one header, and reports whether it has our label.
func parseHeader(b []byte, off int64) (Header, bool) {
	be := binary.BigEndian
	if !bytes.HasPrefix(b, []byte(magics[off])) || be.Uint16(b[atVersion:]) != 2 || field(b, atLabel, 48) != SealedLabel {
		return Header{}, false
	}
	h := Header{Offset: off, UUID: field(b, atUUID, 40), FSID: field(b, atSubsystem, 48), Sequence: be.Uint64(b[atSequence:])}
	if off == 0 {
		h.Salt = hex.EncodeToString(b[atSalt:atUUID])
	}
	h.Err = h.whole(b)
	return h, true
}

// whole reads the rest of the header, and returns an error if that is not what cryptsetup wrote for us. What stands in its first 4 KiB is there from the first write on.
func (h *Header) whole(b []byte) error {
	be := binary.BigEndian
	switch {
	case be.Uint64(b[atSize:]) != HeaderBytes:
		return fmt.Errorf("%w: its size is %d", ErrAltered, be.Uint64(b[atSize:]))
	case be.Uint64(b[atOffset:]) != uint64(h.Offset):
		return fmt.Errorf("%w: it is that for offset %d", ErrAltered, be.Uint64(b[atOffset:]))
	case field(b, atAlgorithm, 32) != "sha256":
		return fmt.Errorf("%w: its check sum is of kind %q", ErrAltered, field(b, atAlgorithm, 32))
	}
	plain, text := bytes.Clone(b), bytes.TrimRight(b[binaryBytes:], "\x00")
	clear(plain[atSum : atSum+64])
	if sum := sha256.Sum256(plain); !bytes.Equal(sum[:], b[atSum:atSum+len(sum)]) {
		// A text that ends too early was never written to its end, or somebody overwrote it with zeroes.
		var any json.RawMessage
		if err := json.NewDecoder(bytes.NewReader(text)).Decode(&any); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return ErrCut
		}
		return ErrTorn
	}
	if err := h.metadata(text); err != nil {
		return fmt.Errorf("%w: %w", ErrAltered, err)
	}
	return nil
}

// area is a part of the disk, with numbers as text.
type area struct {
	Offset string `json:"offset"`
	Size   string `json:"size"`
}

// metadata reads the JSON part.
func (h *Header) metadata(text []byte) error {
	var m struct {
		Keyslots map[string]struct {
			Area area `json:"area"`
		} `json:"keyslots"`
		Segments map[string]area `json:"segments"`
		Tokens   map[string]struct {
			Type string `json:"type"`
			Size string `json:"size"`
		} `json:"tokens"`
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return fmt.Errorf("its JSON: %w", err)
	}
	if s, only := m.Segments["0"]; !only || len(m.Segments) != 1 || s.Offset != strconv.Itoa(SealedBytes) {
		return errors.New("the data do not begin at 16 MiB")
	}
	slot := area{strconv.Itoa(HeadersBytes), strconv.Itoa(SlotsBytes - HeadersBytes)}
	// People add slots of their own, such as one for a passphrase in a safe.
	if s, there := m.Keyslots["0"]; !there || s.Area != slot {
		return errors.New("the key slot that was made is not there any more")
	}
	for _, t := range m.Tokens {
		switch t.Type {
		case TokenReady:
			h.Ready = true
		case TokenMade:
			size, err := strconv.ParseInt(t.Size, 10, 64)
			if err != nil {
				return fmt.Errorf("the size of the disk: %w", err)
			}
			h.SizeBytes = size
		}
	}
	if h.SizeBytes <= 0 {
		return errors.New("it does not tell the size of the disk")
	}
	return nil
}

// field is a text of fixed length, which ends at the first zero.
func field(b []byte, at, length int) string {
	text, _, _ := bytes.Cut(b[at:at+length], []byte{0})
	return string(text)
}
