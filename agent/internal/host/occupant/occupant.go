// Package occupant finds who uses a disk without a mark on the disk or in sysfs that tells of it: loop devices on top of it, targets of
// the kernel that export it, its device node mounted somewhere, and processes that have it open. It opens no disk, follows nothing into a filesystem that may hang, and knows
// nothing about what a use means.
package occupant

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Defaults of Config.
const (
	// DefaultPause is more than udev's workers and most monitors take with a disk.
	DefaultPause   = 500 * time.Millisecond
	DefaultTimeout = 10 * time.Second
)

// maxErrors is how many things that could not be looked at an error names.
const maxErrors = 3

// Config says where to look. Empty fields mean the host's own.
type Config struct {
	// Sys, Dev and Proc are the host's /sys, /dev and /proc. Proc has to show all processes of the host.
	Sys, Dev, Proc string
	// Pause is the time between the two looks at a process that has a disk open: one that has closed it by then does not count.
	Pause time.Duration
	// Timeout is how long one search may take.
	Timeout time.Duration
}

// Device is a device number.
type Device struct{ Major, Minor uint32 }

// Finder searches one host. It is safe for concurrent use.
type Finder struct {
	sys, dev, proc string
	pause, timeout time.Duration
	// number reads the device number of a block device node, without waiting for a server. It is false for everything else.
	number func(path string, follow bool) (Device, bool, error)
	// backing reads the device number of what a loop device stands on; it is false for a file.
	backing func(path string) (Device, bool, error)

	mu sync.Mutex
	// late are the searches that were given up on and have not returned.
	late map[*search]bool
}

// New makes a Finder.
func New(cfg Config) *Finder {
	return &Finder{
		sys: cmp.Or(cfg.Sys, "/sys"), dev: cmp.Or(cfg.Dev, "/dev"), proc: cmp.Or(cfg.Proc, "/proc"),
		pause: cmp.Or(cfg.Pause, DefaultPause), timeout: cmp.Or(cfg.Timeout, DefaultTimeout),
		number: number, backing: backing, late: map[*search]bool{},
	}
}

// search is one search.
type search struct {
	*Finder
	// targets are the numbers of the disks and of their partitions, with the place of the disk in the result.
	targets map[Device]int
	found   [][]string
	errs    []error
	// at is what is looked at right now, for when that does not answer.
	at atomic.Value
}

// Find names who uses each of the disks, or a partition of it, in words that follow "in use by". An error means that there may be more
// users than those that were found.
func (f *Finder) Find(ctx context.Context, disks []Device) ([][]string, error) {
	if err := f.hung(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	s := &search{Finder: f, targets: map[Device]int{}, found: make([][]string, len(disks))}
	s.at.Store("the host")
	done := make(chan struct{})
	go func() {
		s.run(ctx, disks)
		// Together, so that a search that has ended is never given up.
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.late, s)
		close(done)
	}()
	select {
	case <-done:
		return s.found, s.err()
	case <-ctx.Done():
	}
	select {
	case <-done:
		return s.found, s.err()
	case <-time.After(f.pause):
		return nil, f.giveUp(s, done)
	}
}

// err is what could not be looked at, the first few: where one process does not show what it has open, many do not.
func (s *search) err() error {
	if len(s.errs) == 0 {
		return nil
	}
	var parts []string
	for _, err := range s.errs[:min(len(s.errs), maxErrors)] {
		parts = append(parts, err.Error())
	}
	if n := len(s.errs) - maxErrors; n > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", n))
	}
	return errors.New(strings.Join(parts, "; "))
}

// giveUp is called when nobody waits for a search any more: what it looks at cannot be interrupted.
func (f *Finder) giveUp(s *search, done <-chan struct{}) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-done:
	default:
		f.late[s] = true
	}
	return fmt.Errorf("%v does not answer", s.at.Load())
}

// hung is the error while an earlier search waits for something: another one would wait for the same.
func (f *Finder) hung() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for s := range f.late {
		return fmt.Errorf("%v does not answer", s.at.Load())
	}
	return nil
}

func (s *search) run(ctx context.Context, disks []Device) {
	for n, d := range disks {
		s.target(d, n)
	}
	s.loops(ctx)
	s.exports(ctx)
	s.processes(ctx)
	if err := ctx.Err(); err != nil {
		s.fail(err)
	}
	for n := range s.found {
		slices.Sort(s.found[n])
		s.found[n] = slices.Compact(s.found[n])
	}
}

// target adds a disk and its partitions.
func (s *search) target(d Device, place int) {
	s.targets[d] = place
	dir := filepath.Join(s.sys, "dev", "block", fmt.Sprintf("%d:%d", d.Major, d.Minor))
	entries, err := os.ReadDir(dir)
	if err != nil {
		// Not even a disk that is gone is known to have no partitions.
		s.errs = append(s.errs, fmt.Errorf("partitions: %w", err))
		return
	}
	for _, e := range entries {
		if _, err := os.Stat(filepath.Join(dir, e.Name(), "partition")); err != nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name(), "dev"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var p Device
		if err == nil {
			_, err = fmt.Sscanf(string(text), "%d:%d", &p.Major, &p.Minor)
		}
		if err != nil {
			s.fail(fmt.Errorf("partition %s: %w", e.Name(), err))
			continue
		}
		s.targets[p] = place
	}
}

// use notes a user of a device that may be one of those that are looked for.
func (s *search) use(d Device, by string) {
	if n, ok := s.targets[d]; ok {
		s.found[n] = append(s.found[n], by)
	}
}

// failOf notes what could not be looked at of a process. The kernel forbids to follow a link of one that ended after the link was found.
func (s *search) failOf(pid string, err error) {
	if errors.Is(err, fs.ErrPermission) {
		if _, err := os.Lstat(filepath.Join(s.proc, pid)); errors.Is(err, fs.ErrNotExist) {
			return
		}
	}
	s.fail(err)
}

// fail notes what could not be looked at. What is gone uses nothing.
func (s *search) fail(err error) {
	if !gone(err) {
		s.errs = append(s.errs, err)
	}
}
