package fs

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/google/uuid"
)

// Content is what is on a device.
type Content struct {
	// Type of the filesystem or other format, as Probe tells it; empty when there is none.
	Type string
	// Unknown is true when the device holds something that nobody recognises.
	Unknown bool
	// UUID of a filesystem that can be made here.
	UUID string
	// MadeUnix is when the filesystem was made; 0 when it does not tell. A btrfs does not.
	MadeUnix int64
	// Unfinished is true when the program that made the filesystem did not come to its end.
	Unfinished bool
}

const (
	// superblocks is how much of the device's start holds the first superblock of every filesystem that can be made here.
	superblocks = 68 << 10
	ext4At      = 1 << 10
	btrfsAt     = 64 << 10
	inodeBytes  = 176
)

// Describe tells what is on a device. What cannot be read is an error.
func (t *Tool) Describe(ctx context.Context, device string) (Content, error) {
	have, err := t.Probe(ctx, device)
	if errors.Is(err, ErrUnknownData) {
		return Content{Unknown: true}, nil
	}
	if err != nil || !Supported(have) {
		return Content{Type: have}, err
	}
	f, err := os.Open(device)
	if err != nil {
		return Content{}, fmt.Errorf("describe: %w", err)
	}
	defer f.Close()
	c, err := readContent(f, have)
	if err != nil {
		return Content{}, fmt.Errorf("describe the %s on %s: %w", have, device, err)
	}
	return c, nil
}

func readContent(r io.ReaderAt, fsType string) (Content, error) {
	head := make([]byte, superblocks)
	if _, err := r.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return Content{}, err
	}
	c := Content{Type: fsType}
	var id []byte
	var err error
	switch fsType {
	case Ext4:
		sb := head[ext4At:]
		id = sb[0x68:0x78]
		c.MadeUnix = int64(binary.LittleEndian.Uint32(sb[0x108:])) | int64(sb[0x276])<<32
	case XFS:
		id, c.Unfinished = head[32:48], head[126] != 0
		c.MadeUnix, err = xfsMade(r, head)
	case Btrfs:
		id = head[btrfsAt+0x20 : btrfsAt+0x30]
	}
	if err != nil {
		return Content{}, err
	}
	parsed, err := uuid.FromBytes(id)
	c.UUID = parsed.String()
	return c, err
}

// xfsMade reads when the root directory was made, which is when the filesystem was. It is 0 where the inode does not tell.
func xfsMade(r io.ReaderAt, sb []byte) (int64, error) {
	root, agBlocks := binary.BigEndian.Uint64(sb[56:]), uint64(binary.BigEndian.Uint32(sb[84:]))
	blockLog, inodeLog, perBlockLog, agLog := sb[120], sb[122], sb[123], sb[124]
	if blockLog > 16 || inodeLog > 16 || perBlockLog > 16 || agLog > 32 {
		return 0, nil
	}
	group := root >> (agLog + perBlockLog)
	block := group*agBlocks + root>>perBlockLog&(1<<agLog-1)
	off := block<<blockLog + root&(1<<perBlockLog-1)<<inodeLog
	inode := make([]byte, inodeBytes)
	if _, err := r.ReadAt(inode, int64(off)); err != nil {
		if errors.Is(err, io.EOF) {
			return 0, nil
		}
		return 0, err
	}
	const version3, bigtime = 3, 1 << 3
	if string(inode[:2]) != "IN" || inode[4] != version3 {
		return 0, nil
	}
	made := inode[144:152]
	if binary.BigEndian.Uint64(inode[120:])&bigtime != 0 {
		// Nanoseconds since the smallest time that 32 bits hold.
		return int64(binary.BigEndian.Uint64(made)/1e9) - 1<<31, nil
	}
	return int64(int32(binary.BigEndian.Uint32(made))), nil
}
