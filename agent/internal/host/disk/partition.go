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

// dropPartitions makes the kernel forget all partitions of the device, whatever stands on it. One that somebody has open stays, which is an error.
func (d *device) dropPartitions() error {
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
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name(), "partition"))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
			continue
		}
		number := 0
		if err == nil {
			number, err = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		if err == nil {
			err = dropPartition(d.file, int32(number)) //nolint:gosec // The kernel counts them in 32 bits.
		}
		if err != nil {
			return fmt.Errorf("have the kernel forget partition %s: %w", e.Name(), err)
		}
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
