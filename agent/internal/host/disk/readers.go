package disk

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/partition/gpt"
	"github.com/diskfs/go-diskfs/partition/mbr"
	"github.com/siderolabs/go-blockdevice/v2/blkid"
	"github.com/sirupsen/logrus"

	"quarry.storage/quarry/agent/internal/host/disk/format"
)

func init() {
	// go-diskfs writes to the global logger of logrus, which nothing else of the agent uses.
	logrus.SetOutput(io.Discard)
}

// blkidNames are libblkid's names for what go-blockdevice calls otherwise.
var blkidNames = map[string]string{
	"lvm2-pv":   format.LVM,
	"luks":      "crypto_LUKS",
	"zfs":       "zfs_member",
	"bluestore": format.BlueStore,
}

// otherReaders asks the two libraries. Their findings are dropped where this package's table has found the same type
// already, as it knows the offsets more exactly.
func otherReaders(f *os.File, im *format.Image, own []format.Signature) (found []format.Signature, err error) {
	known := map[string]bool{}
	for _, s := range own {
		known[s.Type] = true
	}
	a, errA := guarded("go-blockdevice", func() ([]format.Signature, error) { return blkidReader(f, im) })
	b, errB := guarded("go-diskfs", func() ([]format.Signature, error) { return tableReader(f, im) })
	for _, s := range append(a, b...) {
		if !known[s.Type] {
			found = append(found, s)
		}
	}
	return found, errors.Join(errA, errB)
}

// guarded keeps a reader that stumbles over what is on the disk from taking the agent with it.
func guarded(reader string, read func() ([]format.Signature, error)) (found []format.Signature, err error) {
	defer func() {
		if p := recover(); p != nil {
			found, err = nil, fmt.Errorf("%s: %v", reader, p)
		}
	}()
	found, err = read()
	if err != nil {
		return found, fmt.Errorf("%s: %w", reader, err)
	}
	return found, nil
}

// blkidReader is what go-blockdevice finds on the whole device.
func blkidReader(f *os.File, im *format.Image) ([]format.Signature, error) {
	if im.Size < format.Edge {
		// It refuses a device that is smaller than what it reads at once; such a one is all head to the table.
		return nil, nil
	}
	info, err := blkid.Probe(f, blkid.WithSkipLocking(true))
	if err != nil || info.Name == "" {
		return nil, err
	}
	s := format.Signature{Type: info.Name}
	if name, ok := blkidNames[info.Name]; ok {
		s.Type = name
	}
	if len(info.SignatureRanges) > 0 {
		s.Offset = int64(info.SignatureRanges[0].Offset)
	}
	if info.UUID != nil {
		s.UUID = info.UUID.String()
	}
	if info.Label != nil {
		s.Label = *info.Label
	}
	return []format.Signature{s}, nil
}

// tableReader is the partition table that go-diskfs finds, under either assumption about the sector size. It reports no
// table and a damaged one by the same error, so its errors say nothing.
func tableReader(f *os.File, im *format.Image) ([]format.Signature, error) {
	b := file.New(f, true)
	for _, sector := range []int{512, 4096} {
		if im.Size < int64(4*sector) {
			continue
		}
		if t, err := gpt.Read(b, sector, sector); err == nil && t != nil {
			return []format.Signature{{Type: "gpt", Offset: int64(sector), UUID: t.UUID()}}, nil
		}
	}
	t, err := mbr.Read(b, 512, 512)
	if err != nil {
		return nil, nil
	}
	for _, p := range t.Partitions {
		if p.Type != mbr.Empty && p.Size > 0 {
			return []format.Signature{{Type: "dos", Offset: 510, UUID: t.UUID()}}, nil
		}
	}
	return nil, nil
}
