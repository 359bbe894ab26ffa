package share

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/pkg/sharedvolume"
)

const (
	// batch is how many names are read at once.
	batch = 512
	// maxLevel is how deep a tree is walked, with one open directory per level. What is deeper is moved up first: a pod can make
	// trees that are deeper than a process can have open directories.
	maxLevel = 32
)

// purge removes what is in one directory.
type purge struct {
	*Share
	top     dir
	until   time.Time
	removed int64
	// lifted numbers the directories that were moved up.
	lifted int
}

func (p *purge) expired() bool { return !p.now().Before(p.until) }

// clear empties a directory, and reports whether it got to the end in time.
func (p *purge) clear(d dir, level int) (bool, error) {
	if held, err := d.inhabited(); err != nil || held {
		return false, errors.Join(err, nested("what is removed", held))
	}
	for {
		names, err := d.names(batch)
		if err != nil {
			return false, err
		}
		if len(names) == 0 {
			return true, nil
		}
		for _, name := range names {
			if p.expired() {
				return false, nil
			}
			done, err := p.entry(d, name, level)
			if err != nil {
				return false, fmt.Errorf("remove %.200q: %w", name, err)
			}
			if !done {
				return false, nil
			}
		}
	}
}

// entry removes one name. It is not known whether it is a directory: the kernel tells when it refuses.
func (p *purge) entry(d dir, name string, level int) (bool, error) {
	err := p.unlink(d, name)
	if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EPERM) {
		return p.directory(d, name, level, err)
	}
	return true, p.count(err)
}

func (p *purge) count(err error) error {
	if err == nil {
		p.removed++
	}
	return ignoreMissing(err)
}

func (p *purge) directory(d dir, name string, level int, refusal error) (bool, error) {
	st, err := d.lstat(name)
	if err != nil {
		return true, ignoreMissing(err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return false, refusal
	}
	err = p.rmdir(d, name)
	if !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST) {
		return true, p.count(err)
	}
	if level >= maxLevel {
		return true, p.lift(d, name)
	}
	sub, err := d.open(name)
	if errors.Is(err, unix.EXDEV) {
		return false, fmt.Errorf("another filesystem is mounted there on the server: %w", sharedvolume.ErrState)
	}
	if err != nil {
		return true, ignoreMissing(err)
	}
	defer sub.close()
	empty, err := p.clear(sub, level+1)
	if err != nil || !empty {
		return false, err
	}
	return true, p.count(p.rmdir(d, name))
}

// lift moves a deep directory up to the top, under a name that nothing has.
func (p *purge) lift(d dir, name string) error {
	for {
		p.lifted++
		err := p.move(d, name, p.top, ".lifted-"+strconv.Itoa(p.lifted))
		if !isTaken(err) {
			return err
		}
	}
}
