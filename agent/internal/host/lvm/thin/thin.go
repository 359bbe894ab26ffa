// Package thin reads which volumes are in the metadata of a thin pool, as the kernel writes it (drivers/md/dm-thin-metadata.c and
// drivers/md/persistent-data). It reads the devices of the group, so that a pool needs not be active, and writes nothing. It knows nothing of LVM
// and its commands.
package thin

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"

	"golang.org/x/sys/unix"
)

// BlockBytes is the size of a block of the metadata.
const BlockBytes = 4096

// Piece is a part of the metadata: bytes of a device, one after the other.
type Piece struct {
	Device    string
	At, Bytes int64
}

// Device is a volume in a pool.
type Device struct {
	// ID is its number, TransactionID the pool's when it was made.
	ID, TransactionID int64
}

// Pool is what is written of a pool: by the kernel in the metadata, or by LVM.
type Pool struct {
	// TransactionID counts the changes of the pool.
	TransactionID int64
	// Devices are its volumes, ordered by number.
	Devices []Device
}

// ErrChanging means that the kernel wrote the metadata anew each time it was read.
var ErrChanging = errors.New("the metadata of the thin pool changes all the time")

// The layout, and what the kernel mixes into the checksums of the two kinds of blocks that are read.
const (
	magic         = 27022010
	superblockXOR = 160774
	nodeXOR       = 121107

	magicAt, transactionAt, detailsAt = 32, 48, 328

	internalNode, leafNode = 1, 2
	headerBytes            = 32
	detailsBytes           = 24
	transactionInDetails   = 8
)

// attempts is how often the metadata is read before the kernel counts as one that changes it all the time. It writes at most a few times a second,
// and the volumes of a pool are on a handful of blocks.
const attempts = 20

// Read reads what the kernel has written of a pool that may be active. The kernel writes nothing over a block that belongs to what it wrote last
// before it has written the first block anew: what was read while the first block stayed the same belongs together.
func Read(pieces []Piece) (Pool, error) {
	for range attempts {
		first, err := Block(pieces, 0)
		if err != nil {
			return Pool{}, err
		}
		p, err := read(pieces, first)
		again, same := Block(pieces, 0)
		switch {
		case same != nil:
			return Pool{}, same
		case bytes.Equal(first, again):
			return p, err
		}
	}
	return Pool{}, ErrChanging
}

func read(pieces []Piece, first []byte) (Pool, error) {
	if err := check(first, 0, superblockXOR); err != nil {
		return Pool{}, err
	}
	if n := binary.LittleEndian.Uint64(first[magicAt:]); n != magic {
		return Pool{}, fmt.Errorf("block 0 of the metadata has the magic number %d, not that of a thin pool", n)
	}
	t := tree{pieces: pieces}
	for _, p := range pieces {
		t.left += p.Bytes / BlockBytes
	}
	err := t.walk(int64(binary.LittleEndian.Uint64(first[detailsAt:])))
	return Pool{TransactionID: int64(binary.LittleEndian.Uint64(first[transactionAt:])), Devices: t.found}, err
}

// tree is the tree of what is kept of each volume, while it is read.
type tree struct {
	pieces []Piece
	// left is how many blocks there are: a tree with more has a loop.
	left  int64
	found []Device
}

func (t *tree) walk(number int64) error {
	if t.left--; t.left < 0 {
		return errors.New("the tree of the volumes in the metadata has a loop")
	}
	node, err := Block(t.pieces, number)
	if err == nil {
		err = check(node, number, nodeXOR)
	}
	if err != nil {
		return err
	}
	word := func(at int) int { return int(binary.LittleEndian.Uint32(node[at:])) }
	flags, entries, room, size := word(4), word(16), word(20), word(24)
	if entries > room || headerBytes+room*(8+size) > BlockBytes || flags == internalNode && size != 8 && size != detailsBytes || flags == leafNode && size != detailsBytes {
		return fmt.Errorf("block %d of the metadata is no node of the tree of the volumes: flags %d, %d of %d entries of %d bytes", number, flags, entries, room, size)
	}
	for i := range entries {
		value := node[headerBytes+room*8+i*size:]
		switch flags {
		case internalNode:
			if err := t.walk(int64(binary.LittleEndian.Uint64(value))); err != nil {
				return err
			}
		case leafNode:
			t.found = append(t.found, Device{
				ID:            int64(binary.LittleEndian.Uint64(node[headerBytes+i*8:])),
				TransactionID: int64(binary.LittleEndian.Uint64(value[transactionInDetails:])),
			})
		default:
			return fmt.Errorf("block %d of the metadata is neither a leaf nor an internal node", number)
		}
	}
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// check compares the checksum of a block, and the number that it knows itself by.
func check(block []byte, number int64, xor uint32) error {
	sum := ^crc32.Checksum(block[4:], castagnoli) ^ xor
	if binary.LittleEndian.Uint32(block) != sum || int64(binary.LittleEndian.Uint64(block[8:])) != number {
		return fmt.Errorf("block %d of the metadata has a wrong checksum", number)
	}
	return nil
}

// Block reads a block of the metadata from the device that it is on: the kernel and LVM write through other devices, past what was read here
// before.
func Block(pieces []Piece, number int64) ([]byte, error) {
	at := number * BlockBytes
	for _, p := range pieces {
		if at >= 0 && at+BlockBytes <= p.Bytes {
			return readAt(p.Device, p.At+at)
		}
		at -= p.Bytes
	}
	return nil, fmt.Errorf("block %d lies outside of the metadata", number)
}

func readAt(device string, at int64) ([]byte, error) {
	f, err := os.Open(device)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := unix.Fadvise(int(f.Fd()), at, BlockBytes, unix.FADV_DONTNEED); err != nil {
		return nil, fmt.Errorf("%s: %w", device, err)
	}
	block := make([]byte, BlockBytes)
	_, err = f.ReadAt(block, at)
	return block, err
}
