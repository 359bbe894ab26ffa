package disk

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// geometry reads size and logical sector size of a device; an image file has sectors of 512 bytes.
func geometry(f *os.File) (size int64, sector int, err error) {
	st, err := f.Stat()
	if err != nil {
		return 0, 0, err
	}
	if st.Mode().IsRegular() {
		return st.Size(), 512, nil
	}
	if st.Mode()&os.ModeDevice == 0 || st.Mode()&os.ModeCharDevice != 0 {
		return 0, 0, fmt.Errorf("%s is not a block device", f.Name())
	}
	var bytes uint64
	if err := ioctlPointer(f, unix.BLKGETSIZE64, unsafe.Pointer(&bytes)); err != nil {
		return 0, 0, fmt.Errorf("size of %s: %w", f.Name(), err)
	}
	sector, err = unix.IoctlGetInt(int(f.Fd()), unix.BLKSSZGET)
	if err != nil {
		return 0, 0, fmt.Errorf("sector size of %s: %w", f.Name(), err)
	}
	if bytes > 1<<62 || sector < 512 || sector > 64<<10 || sector&(sector-1) != 0 {
		return 0, 0, fmt.Errorf("%s: implausible size %d or sector size %d", f.Name(), bytes, sector)
	}
	return int64(bytes), sector, nil
}

// ioctlPointer passes a pointer to the kernel, for results that are wider than an int.
func ioctlPointer(f *os.File, request uint, p unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), uintptr(request), uintptr(p)); errno != 0 {
		return errno
	}
	return nil
}
