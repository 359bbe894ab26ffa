package mount

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// Changes signals when a block device begins or ceases to be mounted or swapped on. The kernel sends no uevent for that, but
// wakes whoever polls the tables. Mounts without a block device, of which a node that starts pods has many, do not signal. The
// channel is closed when the context ends.
func (r *Reader) Changes(ctx context.Context) (<-chan struct{}, error) {
	w := &watch{reader: r}
	for _, name := range []string{filepath.Join("1", "mountinfo"), "swaps"} {
		// Not os.Open: Go's own poller would take the file in, and a change is told to the first who polls only.
		path := filepath.Join(r.proc, name)
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			w.close()
			return nil, fmt.Errorf("watch mounts: open %s: %w", path, err)
		}
		w.files = append(w.files, fd)
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		w.close()
		return nil, fmt.Errorf("watch mounts: eventfd: %w", err)
	}
	w.files = append(w.files, wake)
	out := make(chan struct{}, 1)
	stop := context.AfterFunc(ctx, func() {
		// The counter of an eventfd takes a first write always.
		_, _ = unix.Write(wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	})
	go func() {
		defer close(out)
		defer w.close()
		defer stop()
		w.run(ctx, out)
	}()
	return out, nil
}

// watch is one open set of tables.
type watch struct {
	reader *Reader
	files  []int
	last   []Use
}

func (w *watch) close() {
	for _, fd := range w.files {
		unix.Close(fd)
	}
}

func (w *watch) run(ctx context.Context, out chan<- struct{}) {
	w.changed()
	polls := make([]unix.PollFd, len(w.files))
	for {
		for i, fd := range w.files {
			polls[i] = unix.PollFd{Fd: int32(fd), Events: unix.POLLPRI}
		}
		polls[len(polls)-1].Events = unix.POLLIN
		if _, err := unix.Poll(polls, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
		if ctx.Err() != nil {
			return
		}
		if !w.changed() {
			continue
		}
		select {
		case out <- struct{}{}:
		default:
		}
	}
}

// changed reads the tables and compares. Tables that cannot be read count as changed: whoever looks again will say why.
func (w *watch) changed() bool {
	table, err := w.reader.Read()
	if err != nil {
		return true
	}
	same := slices.Equal(w.last, table.Uses)
	w.last = table.Uses
	return !same
}
