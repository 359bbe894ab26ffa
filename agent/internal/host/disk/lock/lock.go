// Package lock says who works on a block device at the moment: this process, by a table of its own, and other programs, by the
// lock that udev and the tools of systemd take on the node of a whole disk (systemd's "block device locking"). It knows nothing
// about what is written on a device.
package lock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// ErrBusy means that another program keeps the device for itself.
var ErrBusy = errors.New("device is in use")

const (
	// patience is how long a lock may be held by others: udev holds it while it probes the device, which follows every change.
	patience = 5 * time.Second
	// firstPause and lastPause bound the time between two attempts.
	firstPause = 5 * time.Millisecond
	lastPause  = 100 * time.Millisecond
)

// Table knows the devices that this process works on. Its methods are safe for concurrent use.
type Table struct {
	mu sync.Mutex
	// tested is told whenever an exclusive test ends.
	tested *sync.Cond
	// work counts the pieces of work on a device that want no exclusive test meanwhile.
	work map[uint64]int
	// testing has the devices that are opened exclusively right now.
	testing map[uint64]bool
	// locked has the open files that carry systemd's lock, with the number of those who rely on each.
	locked map[uint64]*held
}

// held is one lock.
type held struct {
	file  *os.File
	users int
}

// New makes an empty Table.
func New() *Table {
	t := &Table{work: map[uint64]int{}, testing: map[uint64]bool{}, locked: map[uint64]*held{}}
	t.tested = sync.NewCond(&t.mu)
	return t
}

// Reserve keeps Exclusive from opening the devices until release is called: a tool that needs the exclusive open for its own work,
// such as pvcreate, would otherwise fail now and then. It waits until no device is open, at most until ctx ends: a read through such an open may hang.
func (t *Table) Reserve(ctx context.Context, paths ...string) (release func(), err error) {
	keys, err := keysOf(paths)
	if err != nil {
		return nil, fmt.Errorf("reserve: %w", err)
	}
	t.mu.Lock()
	for _, k := range keys {
		t.work[k]++
	}
	err = t.untested(ctx, keys...)
	t.mu.Unlock()
	if err != nil {
		t.free(keys)
		return nil, fmt.Errorf("reserve %s: %w", strings.Join(paths, ", "), err)
	}
	return sync.OnceFunc(func() { t.free(keys) }), nil
}

// untested waits until none of the devices is open exclusively. The caller has mu.
func (t *Table) untested(ctx context.Context, keys ...uint64) error {
	defer context.AfterFunc(ctx, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.tested.Broadcast()
	})()
	for _, k := range keys {
		for t.testing[k] {
			if ctx.Err() != nil {
				return fmt.Errorf("a test of the device has not ended: %w", context.Cause(ctx))
			}
			t.tested.Wait()
		}
	}
	return nil
}

func (t *Table) free(keys []uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range keys {
		if t.work[k]--; t.work[k] == 0 {
			delete(t.work, k)
		}
	}
}

// Lock reserves whole disks and takes systemd's lock on each: until release is called udev does not probe them, and puts off the
// events that it gets. It waits a moment for others, then fails with ErrBusy. The caller that has a lock already gets it again.
func (t *Table) Lock(ctx context.Context, paths ...string) (release func(), err error) {
	unreserve, err := t.Reserve(ctx, paths...)
	if err != nil {
		return nil, err
	}
	releases := []func(){unreserve}
	release = sync.OnceFunc(func() {
		for _, r := range slices.Backward(releases) {
			r()
		}
	})
	// In one order, so that two callers cannot wait for each other.
	for _, path := range slices.Sorted(slices.Values(paths)) {
		r, err := t.lockOne(ctx, path)
		if err != nil {
			release()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		releases = append(releases, r)
	}
	return release, nil
}

func (t *Table) lockOne(ctx context.Context, path string) (release func(), err error) {
	k, err := key(path)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if err := t.wait(ctx, k, f); err != nil {
		f.Close()
		return nil, err
	}
	return func() { t.unlock(k) }, nil
}

// wait takes the lock as soon as the others let go of it. The file is the Table's from then on.
func (t *Table) wait(ctx context.Context, k uint64, f *os.File) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, ErrBusy)
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		if done, err := t.try(k, f); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// try takes the lock, or uses the one that this process has already.
func (t *Table) try(k uint64, f *os.File) (bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.locked[k]; h != nil {
		h.users++
		f.Close()
		return true, nil
	}
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	if err == nil {
		t.locked[k] = &held{file: f, users: 1}
	}
	return err == nil, err
}

func (t *Table) unlock(k uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.locked[k]
	if h.users--; h.users > 0 {
		return
	}
	delete(t.locked, k)
	// The file was open for reading only: closing it makes udev look at nothing.
	h.file.Close()
}

// Exclusive reports whether the device can be opened exclusively. The open lasts a few microseconds, and another program that
// wants the device exclusively at that very moment fails: so the test is for devices that have been quiet for a while. It finds a
// device not exclusive that this process works on, or that another program has locked. It waits for other tests of the device, at most until ctx ends.
func (t *Table) Exclusive(ctx context.Context, path string) (bool, error) {
	_, release, err := t.OpenExclusive(ctx, path)
	if errors.Is(err, ErrBusy) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, release()
}

// OpenExclusive opens the device exclusively for reading, until release is called: another program that wants it for itself fails meanwhile, and Reserve waits. So whoever has it open
// reads it, and does nothing else. It is ErrBusy where Exclusive finds a device not exclusive.
func (t *Table) OpenExclusive(ctx context.Context, path string) (f *os.File, release func() error, err error) {
	k, err := key(path)
	if err != nil {
		return nil, nil, err
	}
	if err := t.beginTest(ctx, k); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	shared, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err == nil {
		if err = unix.Flock(int(shared.Fd()), unix.LOCK_SH|unix.LOCK_NB); err == nil {
			f, err = os.OpenFile(path, os.O_RDONLY|unix.O_EXCL|unix.O_NONBLOCK, 0)
		}
		if err != nil {
			shared.Close()
		}
	}
	if err != nil {
		t.endTest(k)
		if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EWOULDBLOCK) {
			err = fmt.Errorf("%s: %w", path, ErrBusy)
		}
		return nil, nil, err
	}
	return f, func() error {
		defer t.endTest(k)
		defer shared.Close()
		return f.Close()
	}, nil
}

func (t *Table) beginTest(ctx context.Context, k uint64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.untested(ctx, k); err != nil {
		return err
	}
	if t.work[k] > 0 {
		return fmt.Errorf("%w: this agent works on it", ErrBusy)
	}
	t.testing[k] = true
	return nil
}

func (t *Table) endTest(k uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.testing, k)
	t.tested.Broadcast()
}

func keysOf(paths []string) ([]uint64, error) {
	var keys []uint64
	for _, p := range paths {
		k, err := key(p)
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	return keys, nil
}

// key is the number of the device at path, or of the file itself in tests on images.
func key(path string) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT == unix.S_IFBLK {
		return st.Rdev, nil
	}
	return st.Ino | 1<<63, nil
}
