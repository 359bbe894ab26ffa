package reservation

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	ioctlSGIO = 0x2285
	// interfaceID marks version 3 of the interface, the directions are those of scsi/sg.h.
	interfaceID   = 'S'
	directionNone = -1
	directionOut  = -2
	directionIn   = -3
	senseBytes    = 64
	timeoutMillis = 20_000
)

// sgHeader is struct sg_io_hdr.
type sgHeader struct {
	interfaceID    int32
	direction      int32
	cdbLength      uint8
	senseRoom      uint8
	iovecCount     uint16
	dataLength     uint32
	data           unsafe.Pointer
	cdb            unsafe.Pointer
	sense          unsafe.Pointer
	timeout        uint32
	flags          uint32
	packID         int32
	_              [4]byte
	userPointer    unsafe.Pointer
	status         uint8
	maskedStatus   uint8
	messageStatus  uint8
	senseWritten   uint8
	hostStatus     uint16
	driverStatus   uint16
	residual       int32
	durationMillis uint32
	info           uint32
	_              [4]byte
}

// sgio sends a command through the kernel. The device is opened for reading only: udev looks again at what was open for writing.
func sgio(device string, c command) (reply, error) {
	f, err := os.OpenFile(device, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return reply{}, fmt.Errorf("%w: %w", ErrPath, err)
	}
	defer f.Close()
	var pin runtime.Pinner
	defer pin.Unpin()
	sense, data := make([]byte, senseBytes), c.list
	h := sgHeader{interfaceID: interfaceID, direction: directionNone, cdbLength: uint8(len(c.cdb)), senseRoom: senseBytes, timeout: timeoutMillis}
	switch {
	case c.room > 0:
		h.direction, data = directionIn, make([]byte, c.room)
	case len(c.list) > 0:
		h.direction = directionOut
	}
	if len(data) > 0 {
		pin.Pin(&data[0])
		h.data, h.dataLength = unsafe.Pointer(&data[0]), uint32(len(data))
	}
	pin.Pin(&c.cdb[0])
	pin.Pin(&sense[0])
	h.cdb, h.sense = unsafe.Pointer(&c.cdb[0]), unsafe.Pointer(&sense[0])
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), ioctlSGIO, uintptr(unsafe.Pointer(&h))); errno != 0 {
		return reply{}, fmt.Errorf("%w: %w", ErrPath, errno)
	}
	r := reply{status: h.status, host: h.hostStatus, driver: h.driverStatus, sense: sense[:min(int(h.senseWritten), senseBytes)]}
	if c.room > 0 {
		r.data = data[:max(0, len(data)-int(h.residual))]
	}
	return r, nil
}
