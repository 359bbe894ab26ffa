package fs

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"github.com/google/uuid"

	"quarry.storage/quarry/agent/internal/host/run"
)

// Where the fields of a superblock of btrfs are. The format is in the kernel's include/uapi/linux/btrfs_tree.h.
const (
	btrfsBytes     = 4 << 10
	btrfsUUID      = 0x20
	btrfsOffset    = 0x30
	btrfsFlags     = 0x38
	btrfsMagic     = 0x40
	btrfsCsumType  = 0xc4
	btrfsSummed    = 0x20
	btrfsSignature = "_BHRfS_M"

	// changingUUID says that a change of the UUID everywhere in the filesystem began, changingSuperblock one in the superblocks only.
	changingUUID, changingSuperblock = 1 << 35, 1 << 36
)

// btrfsMirrors are the places of all superblocks, the first one last.
var btrfsMirrors = []int64{256 << 30, 64 << 20, btrfsAt}

// Own gives a btrfs the UUID that only it has: a kernel does not mount two with the same one. It changes the superblocks only, and a call that
// dies in the midst of it is finished by the next one. Filesystems of other types stay as they are: ext4 does not mind, and XFS is mounted
// without looking at the UUID.
func (t *Tool) Own(ctx context.Context, device, fsType, id string) error {
	if fsType != Btrfs || id == "" {
		return nil
	}
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("own UUID: %w", err)
	}
	defer f.Close()
	sb, err := readSuperblock(f, btrfsAt)
	if err != nil {
		return fmt.Errorf("own UUID of %s: %w", device, err)
	}
	if sb.changing() {
		if err := takeBack(f); err != nil {
			return fmt.Errorf("own UUID of %s: take back what btrfstune began: %w", device, err)
		}
	}
	if have, err := uuid.FromBytes(sb[btrfsUUID : btrfsUUID+16]); err != nil || have.String() == id {
		return err
	}
	if _, err := t.runner.Run(ctx, run.Command{Path: "/usr/bin/btrfstune", Args: []string{"-M", id, device}}); err != nil {
		return fmt.Errorf("own UUID: %w", err)
	}
	return nil
}

// superblock is one of those of a btrfs.
type superblock []byte

func readSuperblock(r io.ReaderAt, at int64) (superblock, error) {
	sb := make(superblock, btrfsBytes)
	_, err := r.ReadAt(sb, at)
	return sb, err
}

func (sb superblock) flags() uint64 { return binary.LittleEndian.Uint64(sb[btrfsFlags:]) }

// changing reports whether a change of the UUID in the superblocks began, and did not end.
func (sb superblock) changing() bool { return sb.flags()&changingSuperblock != 0 }

// stands reports whether it is a superblock of that place.
func (sb superblock) stands(at int64) bool {
	return bytes.Equal(sb[btrfsMagic:btrfsMagic+8], []byte(btrfsSignature)) && binary.LittleEndian.Uint64(sb[btrfsOffset:]) == uint64(at)
}

// sum is the checksum of the superblock, of the only kind that mkfs writes unasked.
func (sb superblock) sum() uint32 {
	return crc32.Checksum(sb[btrfsSummed:], crc32.MakeTable(crc32.Castagnoli))
}

// settle removes the flag that a change of the UUID has begun.
func (sb superblock) settle() error {
	switch {
	case sb.flags()&changingUUID != 0:
		return errors.New("somebody began to change the UUID everywhere in the filesystem; finish that with btrfstune")
	case binary.LittleEndian.Uint16(sb[btrfsCsumType:]) != 0 || binary.LittleEndian.Uint32(sb) != sb.sum():
		return errors.New("the checksum of the superblock is of another kind, or wrong")
	}
	binary.LittleEndian.PutUint64(sb[btrfsFlags:], sb.flags()&^changingSuperblock)
	binary.LittleEndian.PutUint32(sb, sb.sum())
	return nil
}

// takeBack removes the flag from all superblocks. btrfstune sets it in a transaction of its own, which changes nothing else, and the UUID in the
// next one, which clears it. When it dies between the two, it refuses that filesystem, and kernels do not mount it. The first superblock is
// written last, since it is the one that says whether there is something to take back.
func takeBack(f *os.File) error {
	for _, at := range btrfsMirrors {
		sb, err := readSuperblock(f, at)
		if errors.Is(err, io.EOF) {
			continue
		}
		if err != nil {
			return err
		}
		if !sb.stands(at) || !sb.changing() {
			continue
		}
		if err := sb.settle(); err != nil {
			return err
		}
		if _, err := f.WriteAt(sb, at); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
	}
	return nil
}
