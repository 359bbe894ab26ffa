package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// rereadPartitions makes the kernel forget partitions that are gone. Devices that cannot have any say so, and an image file has none.
func (d *device) rereadPartitions() error {
	if _, _, err := Number(d.file); err != nil {
		return nil
	}
	err := unix.IoctlSetInt(int(d.file.Fd()), unix.BLKRRPART, 0)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTTY) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the partitions of %s again: %w", d.file.Name(), err)
	}
	return nil
}

// dropPartitions makes the kernel forget all partitions of a disk with the marks of one OSD. One that somebody has open stays, and so do all where something of somebody else is on one, which is an error. In a label that the kernel took for a
// table they may begin anywhere on the disk, also at its start.
func (d *device) dropPartitions(uuid string) error {
	major, minor, err := Number(d.file)
	if err != nil {
		// An image file has none.
		return nil
	}
	dir := fmt.Sprintf("/sys/dev/block/%d:%d", major, minor)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("partitions of %s: %w", d.file.Name(), err)
	}
	numbers := map[string]int32{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name(), "partition"))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
			continue
		}
		number := int64(0)
		if err == nil {
			number, err = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 32)
		}
		if err == nil {
			err = checkPartition("/dev/"+strings.ReplaceAll(e.Name(), "!", "/"), uuid)
		}
		if err != nil {
			return fmt.Errorf("partition %s: %w", e.Name(), err)
		}
		numbers[e.Name()] = int32(number)
	}
	for name, number := range numbers {
		if err := dropPartition(d.file, number); err != nil {
			return fmt.Errorf("have the kernel forget partition %s: %w", name, err)
		}
	}
	return nil
}

// checkPartition refuses a partition on the disk of an OSD that carries anything but what is the OSD's.
func checkPartition(path, uuid string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	facts, im, err := probeOwn(f)
	if err != nil {
		return err
	}
	im.Free()
	foreign := facts.PVUUID != "" || facts.Wipe != nil
	for _, s := range facts.Signatures {
		foreign = foreign || s.Type != "ceph_bluestore" && (s.Type != "crypto_LUKS" || len(facts.Headers) == 0)
	}
	for _, l := range facts.Labels {
		foreign = foreign || l.Err != nil || l.Label.UUID != uuid
	}
	for _, h := range facts.Headers {
		foreign = foreign || h.UUID != uuid
	}
	if foreign {
		return fmt.Errorf("%w: something else is on it. If nobody needs that, wipe its signatures (wipefs --all %s)", ErrNotOurs, path)
	}
	return nil
}

func dropPartition(f *os.File, number int32) error {
	p := unix.BlkpgPartition{Pno: number}
	arg := unix.BlkpgIoctlArg{Op: unix.BLKPG_DEL_PARTITION, Datalen: int32(unsafe.Sizeof(p)), Data: (*byte)(unsafe.Pointer(&p))}
	err := ioctlPointer(f, unix.BLKPG, unsafe.Pointer(&arg))
	if errors.Is(err, unix.EBUSY) {
		err = ErrBusy
	}
	return err
}
