package block

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// kernelGroup is the multicast group of the kernel's own events; udev sends its copies to another one.
const kernelGroup = 1

// Uevents tells, without polling, that block devices may have changed: on every block event of the kernel and on every change
// of udev's database, which follows the kernel's event. Any number of changes become one signal. The channel is closed when
// the context ends, or when the kernel stops telling.
func (h *Host) Uevents(ctx context.Context) (<-chan struct{}, error) {
	nl, err := listenKernel()
	if err != nil {
		return nil, fmt.Errorf("uevents: %w", err)
	}
	sources := []source{{file: nl, changed: h.kernelChanged}}
	if !h.withoutUdev {
		in, err := watchDir(filepath.Join(h.udev, "data"))
		if err != nil {
			nl.Close()
			return nil, fmt.Errorf("uevents: %w", err)
		}
		sources = append(sources, source{file: in, changed: databaseChanged})
	}
	return merge(ctx, sources), nil
}

// source is a file that tells of changes, and how to read one message of it.
type source struct {
	file    *os.File
	changed func(fd int, buf []byte) (bool, error)
}

// merge signals on one channel what any source tells, until the context or one of them ends.
func merge(ctx context.Context, sources []source) <-chan struct{} {
	ctx, cancel := context.WithCancel(ctx)
	out := make(chan struct{}, 1)
	var wg sync.WaitGroup
	for _, s := range sources {
		wg.Go(func() {
			defer cancel()
			s.pump(out)
		})
		// Closing a file ends its pending read.
		context.AfterFunc(ctx, func() { s.file.Close() })
	}
	go func() {
		defer cancel()
		wg.Wait()
		close(out)
	}()
	return out
}

// pump reads until the file is closed.
func (s source) pump(out chan<- struct{}) {
	conn, err := s.file.SyscallConn()
	if err != nil {
		return
	}
	buf := make([]byte, 64<<10)
	for {
		var changed bool
		var cause error
		err := conn.Read(func(fd uintptr) bool {
			changed, cause = s.changed(int(fd), buf)
			return !errors.Is(cause, unix.EAGAIN)
		})
		if err != nil || (cause != nil && !errors.Is(cause, unix.EINTR)) {
			return
		}
		if changed {
			select {
			case out <- struct{}{}:
			default:
			}
		}
	}
}

// listenKernel opens the kernel's event socket.
func listenKernel() (*os.File, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return nil, fmt.Errorf("netlink socket: %w", err)
	}
	// A bigger buffer makes overruns rare; without the privilege the default serves too, as an overrun is a signal as well.
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 1<<20)
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: kernelGroup}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("netlink bind: %w", err)
	}
	return os.NewFile(uintptr(fd), "uevents"), nil
}

// kernelChanged reads one event. An overrun means that events were lost: look again, at every device.
func (h *Host) kernelChanged(fd int, buf []byte) (bool, error) {
	n, from, err := unix.Recvfrom(fd, buf, 0)
	if errors.Is(err, unix.ENOBUFS) {
		h.heard.all()
		return true, nil
	}
	if err != nil {
		return false, err
	}
	addr, ok := from.(*unix.SockaddrNetlink)
	if !ok || addr.Pid != 0 {
		return false, nil
	}
	number, ok := blockEvent(buf[:n])
	if ok {
		h.heard.one(number)
	}
	return ok, nil
}

// blockEvent reads the number of the block device that the message, a heading and NUL-terminated KEY=value texts, is about; false
// when it is about something else.
func blockEvent(msg []byte) (number string, ok bool) {
	var major, minor string
	for field := range bytes.SplitSeq(msg, []byte{0}) {
		switch key, value, _ := strings.Cut(string(field), "="); key {
		case "SUBSYSTEM":
			ok = value == "block"
		case "MAJOR":
			major = value
		case "MINOR":
			minor = value
		}
	}
	return major + ":" + minor, ok
}

// watchDir watches udev's database. udev writes a file beside and renames it.
func watchDir(dir string) (*os.File, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("inotify: %w", err)
	}
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_MOVED_TO|unix.IN_DELETE|unix.IN_CLOSE_WRITE|unix.IN_ONLYDIR); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("inotify %s: %w", dir, err)
	}
	return os.NewFile(uintptr(fd), dir), nil
}

// databaseChanged reads some inotify events; those about block devices, whose files begin with "b", and lost ones count.
func databaseChanged(fd int, buf []byte) (bool, error) {
	n, err := unix.Read(fd, buf)
	if err != nil {
		return false, err
	}
	changed := false
	for rest := buf[:max(n, 0)]; len(rest) >= unix.SizeofInotifyEvent; {
		mask := binary.NativeEndian.Uint32(rest[4:8])
		size := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(rest[12:16]))
		if size > len(rest) {
			break
		}
		if mask&unix.IN_IGNORED != 0 {
			return true, errors.New("the watched directory is gone")
		}
		name := rest[unix.SizeofInotifyEvent:size]
		if mask&unix.IN_Q_OVERFLOW != 0 || (len(name) > 0 && name[0] == 'b') {
			changed = true
		}
		rest = rest[size:]
	}
	return changed, nil
}
