// Package disk reads what is written on a block device, and clears it. Reading opens the device read-only; writing is in
// Wipe and Release alone, which both work under an exclusive open and can be killed at any instant and repeated. The package
// knows nothing about whether a device may be cleared: it does what it is told, after the caller's own check through the
// open file.
package disk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Facts are what is written on one device.
type Facts struct {
	// SizeBytes and SectorBytes, the logical sector size, as the open device tells them.
	SizeBytes   int64
	SectorBytes int
	// Signatures, ordered by offset and type.
	Signatures []Signature
	// HeadTailZero is true when the first and the last MiB hold only zeroes.
	HeadTailZero bool
	// ContentDigest is the SHA-256, in hex, of the first and the last MiB; empty for a physical volume, whose content moves.
	ContentDigest string
	// ExclusiveOK is true when an exclusive, read-only open succeeded.
	ExclusiveOK bool
	// Wipe is the mark of a wipe in progress, nil when there is none.
	Wipe *Mark
	// PVUUID is the UUID in the LVM label, empty when there is none.
	PVUUID string
	// PVInGroup is true when the metadata of the physical volume on it names a group.
	PVInGroup bool
}

// Clean tells whether nothing at all was found.
func (f Facts) Clean() bool {
	return len(f.Signatures) == 0 && f.HeadTailZero && f.Wipe == nil && f.PVUUID == ""
}

// Signature is one mark found on a device.
type Signature struct {
	// Type as libblkid names it where it knows it.
	Type string
	// Offset of the mark in bytes.
	Offset int64
	// UUID and Label that the format carries, if any.
	UUID, Label string
}

// Kinds of failures, for errors.Is.
var (
	// ErrBusy means that something holds the device.
	ErrBusy = errors.New("device is in use")
	// ErrMark means that the device carries the mark of another wipe than the one asked for.
	ErrMark = errors.New("another wipe is in progress")
	// ErrNotClean means that something was found where nothing must be.
	ErrNotClean = errors.New("device is not clean")
	// ErrNotOurs means that the device does not carry the physical volume to release.
	ErrNotOurs = errors.New("not the expected physical volume")
)

// Tool probes and clears devices. Its methods are safe for concurrent use.
type Tool struct {
	mu       sync.Mutex
	freed    *sync.Cond
	reserved map[uint64]int
	testing  map[uint64]bool

	// beforeWrite is called before every single write, so that tests can die there.
	beforeWrite func(off int64, n int) error
}

// New makes a Tool.
func New() *Tool {
	t := &Tool{reserved: map[uint64]int{}, testing: map[uint64]bool{}}
	t.freed = sync.NewCond(&t.mu)
	return t
}

// Reserve keeps Probe from opening the devices exclusively until release is called: a tool that needs the exclusive open
// for its own work, such as pvcreate, would otherwise fail now and then. Meanwhile Probe reports them as not exclusive.
// Wipe and Release reserve their device themselves.
func (t *Tool) Reserve(paths ...string) (release func(), err error) {
	var keys []uint64
	for _, p := range paths {
		k, err := key(p)
		if err != nil {
			return nil, fmt.Errorf("reserve %s: %w", p, err)
		}
		keys = append(keys, k)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range keys {
		t.reserved[k]++
	}
	for _, k := range keys {
		for t.testing[k] {
			t.freed.Wait()
		}
	}
	return sync.OnceFunc(func() { t.free(keys) }), nil
}

func (t *Tool) free(keys []uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range keys {
		if t.reserved[k]--; t.reserved[k] == 0 {
			delete(t.reserved, k)
		}
	}
}

// exclusive tests whether the device can be opened exclusively. The open lasts no longer than the test, so that it gets in
// nobody's way.
func (t *Tool) exclusive(path string) (bool, error) {
	k, err := key(path)
	if err != nil {
		return false, err
	}
	t.mu.Lock()
	for t.testing[k] {
		t.freed.Wait()
	}
	if t.reserved[k] > 0 {
		t.mu.Unlock()
		return false, nil
	}
	t.testing[k] = true
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		delete(t.testing, k)
		t.freed.Broadcast()
		t.mu.Unlock()
	}()
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_EXCL|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.EBUSY) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, f.Close()
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

// Number is the device number behind an open file.
func Number(f *os.File) (major, minor uint32, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return 0, 0, fmt.Errorf("stat %s: %w", f.Name(), err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return 0, 0, fmt.Errorf("%s is not a block device", f.Name())
	}
	return unix.Major(st.Rdev), unix.Minor(st.Rdev), nil
}

// Probe reads the device: without an exclusive open when it is known to be in use, else it tells whether one is possible. An
// error means that nothing is known about the content, save for what ExclusiveOK says.
func (t *Tool) Probe(ctx context.Context, path string, inUse bool) (Facts, error) {
	exclusive := false
	if !inUse {
		var err error
		if exclusive, err = t.exclusive(path); err != nil {
			return Facts{}, fmt.Errorf("probe: %w", err)
		}
	}
	if err := ctx.Err(); err != nil {
		return Facts{}, fmt.Errorf("probe %s: %w", path, err)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return Facts{}, fmt.Errorf("probe: %w", err)
	}
	defer f.Close()
	facts, err := ProbeFile(f)
	facts.ExclusiveOK = exclusive
	if inUse {
		facts.ContentDigest = ""
	}
	return facts, err
}
