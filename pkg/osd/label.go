package osd

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"time"
)

// BlockBytes is how many bytes a label of BlueStore has for itself, at each of its places.
const BlockBytes = 4096

const gib = int64(1) << 30

// places are where Ceph writes the label of a disk and its copies: bdev_label_positions in its BlueStore.cc.
var places = []int64{0, gib, 10 * gib, 100 * gib, 1000 * gib}

// Places returns the offsets, in bytes and in order, at which a disk of the given size has room for a label. The first is that of the label, the
// others those of its copies, which Ceph writes since version 20.
func Places(sizeBytes int64) []int64 {
	var out []int64
	for _, p := range places {
		if p <= sizeBytes-BlockBytes {
			out = append(out, p)
		}
	}
	return out
}

// Label is what a label of BlueStore says. The key of the OSD, which it has too, is not read.
type Label struct {
	// UUID of the OSD.
	UUID string
	// SizeBytes of the device that the OSD was made on.
	SizeBytes int64
	// Born is when it was made.
	Born time.Time
	// Description is "main" for the disk of an OSD, and something else for a device that holds but its database or journal.
	Description string
	// FSID is that of the Ceph cluster, and ID the number of the OSD, as text. Both are empty until the making of the OSD is nearly done.
	FSID, ID string
	// Ready: the making of the OSD ended. It is the last fact that is written.
	Ready bool
	// Epoch counts how often the label was written, where it has copies; 0 where it has none.
	Epoch int64
}

// Kinds of blocks that are no label, for errors.Is.
var (
	// ErrNone means that the block does not begin like a label.
	ErrNone = errors.New("no label of BlueStore")
	// ErrDamaged means that it does, and that the rest of it is not what Ceph wrote, or is of a later version.
	ErrDamaged = errors.New("damaged label of BlueStore")
)

const (
	magic = "bluestore block device\n"
	// prefix is the length of the part for people: the magic, and the UUID with a newline.
	prefix = len(magic) + 37
	// maxPairs bounds how many pairs a label is believed to have. The shortest pair has eight bytes.
	maxPairs = BlockBytes / 8
)

// ParseLabel reads the block at one of the places. The error is ErrNone or ErrDamaged; with ErrDamaged the UUID is that in the part for people, if
// there is one, and nothing else is known.
func ParseLabel(block []byte) (Label, error) {
	if !bytes.HasPrefix(block, []byte(magic)) {
		return Label{}, ErrNone
	}
	l := Label{}
	if len(block) >= prefix && ValidUUID(string(block[len(magic):prefix-1])) {
		l.UUID = string(block[len(magic) : prefix-1])
	}
	full, err := parse(block)
	switch {
	case err != nil:
		return l, fmt.Errorf("%w: %w", ErrDamaged, err)
	case full.UUID != l.UUID:
		return l, fmt.Errorf("%w: it has the two UUIDs %q and %q", ErrDamaged, l.UUID, full.UUID)
	}
	return full, nil
}

// parse reads the encoded part, whose checksum covers the part for people too.
func parse(block []byte) (Label, error) {
	if len(block) < BlockBytes {
		return Label{}, fmt.Errorf("%d bytes", len(block))
	}
	le := binary.LittleEndian
	version, compatible, length := block[prefix], block[prefix+1], le.Uint32(block[prefix+2:])
	end := int64(prefix) + 6 + int64(length)
	switch {
	case version == 0 || compatible > 2:
		return Label{}, fmt.Errorf("version %d, to be read by those of version %d", version, compatible)
	case end+4 > BlockBytes:
		return Label{}, fmt.Errorf("length %d", length)
	}
	// Ceph leaves out the final inversion of the usual CRC-32C.
	if sum := ^crc32.Checksum(block[:end], crc32.MakeTable(crc32.Castagnoli)); sum != le.Uint32(block[end:]) {
		return Label{}, errors.New("wrong checksum")
	}
	r := reader{rest: block[prefix+6 : end]}
	l := Label{UUID: text(r.take(16)), SizeBytes: int64(le.Uint64(r.take(8)))}
	seconds, nanos := le.Uint32(r.take(4)), le.Uint32(r.take(4))
	l.Born = time.Unix(int64(seconds), int64(nanos)).UTC()
	l.Description = string(r.counted())
	if version >= 2 {
		l.pairs(&r)
	}
	if r.short {
		return Label{}, errors.New("it ends too early")
	}
	return l, nil
}

// pairs reads the keys and values of the label, and keeps those that say what the OSD is. There is a secret among the others.
func (l *Label) pairs(r *reader) {
	count := binary.LittleEndian.Uint32(r.take(4))
	if count > maxPairs {
		r.short = true
		return
	}
	for range count {
		key, value := string(r.counted()), r.counted()
		switch key {
		case "ceph_fsid":
			l.FSID = string(value)
		case "whoami":
			l.ID = string(value)
		case "ready":
			l.Ready = string(value) == "ready"
		case "epoch":
			epoch, err := strconv.ParseInt(string(value), 10, 64)
			if err != nil {
				r.short = true
			}
			l.Epoch = epoch
		}
	}
}

// reader takes bytes off a slice. Once there are too few it hands out zeroes.
type reader struct {
	rest  []byte
	short bool
}

func (r *reader) take(n int) []byte {
	if n > len(r.rest) {
		r.rest, r.short = nil, true
		return make([]byte, min(n, BlockBytes))
	}
	out := r.rest[:n]
	r.rest = r.rest[n:]
	return out
}

// counted takes bytes whose number stands before them.
func (r *reader) counted() []byte {
	n := binary.LittleEndian.Uint32(r.take(4))
	if n > BlockBytes {
		r.rest, r.short = nil, true
		return nil
	}
	return r.take(int(n))
}
