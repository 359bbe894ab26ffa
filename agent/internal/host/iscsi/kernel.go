package iscsi

import (
	"context"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// event is what the kernel is told to do with a session: ISCSI_UEVENT_* of include/scsi/iscsi_if.h.
type event uint16

const (
	destroySession    event = 12
	destroyConnection event = 14
	unbindSession     event = 27
)

const (
	// eventSize is at least that of struct iscsi_uevent, and netlinkHeader that of struct nlmsghdr.
	eventSize     = 256
	netlinkHeader = 16
	// replyTimeout is how long the kernel may take to say what became of it, in seconds.
	replyTimeout = 10
)

// send tells the kernel to do something with a session, by the netlink socket that iscsid uses, in the host's network. The kernel does it before it answers, or begins to.
func (h *Host) send(ctx context.Context, what event, session int) error {
	text, err := attribute(filepath.Join(h.cfg.Sys, "class/iscsi_transport/tcp"), "handle")
	if err != nil {
		return err
	}
	handle, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return err
	}
	told := make(chan error, 1)
	go func() { told <- inside(h.network(), func() error { return exchange(message(what, handle, session)) }) }()
	select {
	case err = <-told:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("have the kernel end session %d (event %d): %w", session, what, err)
	}
	return nil
}

// message is a request to the kernel: a netlink header, and the kernel's structure with the number of the session, and 0 for its only connection.
func message(what event, handle uint64, session int) []byte {
	b := make([]byte, netlinkHeader+eventSize)
	order := binary.NativeEndian
	order.PutUint32(b, uint32(len(b)))
	order.PutUint16(b[4:], uint16(what))
	body := b[netlinkHeader:]
	order.PutUint32(body, uint32(what))
	order.PutUint64(body[8:], handle)
	order.PutUint32(body[16:], uint32(session))
	return b
}

// exchange sends a request, and returns the error that the kernel has for it.
func exchange(request []byte) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ISCSI)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: replyTimeout}); err != nil {
		return err
	}
	to := &unix.SockaddrNetlink{Family: unix.AF_NETLINK}
	if err := unix.Bind(fd, to); err != nil {
		return err
	}
	if err := unix.Sendto(fd, request, 0, to); err != nil {
		return err
	}
	reply := make([]byte, len(request))
	n, _, err := unix.Recvfrom(fd, reply, 0)
	if err != nil {
		return err
	}
	return replied(reply[:n])
}

// replied reads the kernel's error out of its reply.
func replied(reply []byte) error {
	if len(reply) < netlinkHeader+8 {
		return fmt.Errorf("the kernel replied with %d bytes", len(reply))
	}
	if code := int32(binary.NativeEndian.Uint32(reply[netlinkHeader+4:])); code < 0 {
		return unix.Errno(-code)
	}
	return nil
}
