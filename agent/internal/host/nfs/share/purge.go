package share

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
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
	for looked := false; ; looked = true {
		names, err := d.names(batch)
		if err != nil {
			return false, err
		}
		if len(names) == 0 {
			return true, nil
		}
		if p.expired() {
			return false, nil
		}
		if !looked {
			if held, err := d.inhabited(); err != nil || held {
				return false, errors.Join(err, nested("what is removed", held))
			}
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

// mine refuses to remove what is not the directory of a volume. A call that was killed between its move and its second look leaves
// somebody else's directory out of sight: that one is for a person to put back.
func (o *owned) mine(trash dir, r record) error {
	st, err := trash.stat()
	if err != nil || r.Tree != o.tree && r.Moved {
		return err
	}
	if r.Tree == o.tree && st.Ino == r.Inode {
		if kept, err := o.keeps(r); err != nil || kept {
			return err
		}
	}
	if r.Tree != o.tree {
		return fmt.Errorf("the share was copied, and it is not known whether %s/%s/%s is the directory that was made for volume %s: remove it if it is, and move it away if not: %w",
			sharedvolume.MarkDirectory, removingDir, r.key(), r.Volume, sharedvolume.ErrState)
	}
	return fmt.Errorf("%s/%s/%s is not the directory that was made for volume %s, and is left alone: move it back to %q if that is free: %w",
		sharedvolume.MarkDirectory, removingDir, r.key(), r.Volume, r.Directory, sharedvolume.ErrState)
}

// discarded opens the directory of a volume where directories are removed.
func (o *owned) discarded(r record) (dir, error) {
	trash, err := o.removing.open(r.key())
	if isOther(err) {
		return none, fmt.Errorf("%s/%s/%s is no directory: %w", sharedvolume.MarkDirectory, removingDir, r.key(), sharedvolume.ErrState)
	}
	return trash, err
}

// inSight refuses to call the directory of a volume gone that is out of sight: another agent began to delete it at the same moment, and what was
// written down of the removal says otherwise, or it strayed.
func (o *owned) inSight(r record) error {
	trash, err := o.discarded(r)
	if isMissing(err) {
		return o.strayed(r)
	}
	if err != nil {
		return err
	}
	trash.close()
	return fmt.Errorf("the directory of volume %s is at %s/%s/%s, where it would be deleted, and it is to be kept: move it back to %q: %w",
		r.Volume, sharedvolume.MarkDirectory, removingDir, r.key(), r.Directory, sharedvolume.ErrState)
}

// hide writes down that a directory is deleted, and moves it out of sight.
func (o *owned) hide(r record) (record, dir, error) {
	if err := o.undivided(r); err != nil {
		return r, none, err
	}
	r, err := o.begin(r, sharedvolume.Delete, "")
	if err != nil {
		return r, none, err
	}
	trash, err := o.discard(r)
	return r, trash, err
}

// vacate writes down that the directory of a volume is out of sight, and gives up its place.
func (o *owned) vacate(r record) (record, error) {
	if !r.Moved {
		moved := r
		moved.Moved = true
		now, found, err := o.progress(moved)
		if err == nil && !found {
			err = changed(r)
		}
		if err != nil {
			return r, err
		}
		r = now
	}
	return r, o.unclaim(r)
}

// discard moves the directory of a volume to where directories are removed.
func (o *owned) discard(r record) (dir, error) {
	in, name, err := o.holding(r.Directory)
	if err != nil {
		return none, err
	}
	defer in.close()
	if err := o.stays(r, in, name); err != nil {
		return none, err
	}
	if err := o.move(in, name, o.removing, r.key()); err != nil {
		return none, err
	}
	if err := o.moved(r, in, name, o.removing, r.key()); err != nil {
		return none, err
	}
	return o.removing.open(r.key())
}

// undivided refuses to move a directory in which that of another volume is, of this share or of one that is exported from inside of it.
func (o *owned) undivided(r record) error {
	d, err := o.root.open(r.Directory)
	if err != nil {
		return err
	}
	held, err := d.inhabited()
	d.close()
	if err != nil || held {
		return errors.Join(err, nested(fmt.Sprintf("directory %q", r.Directory), held))
	}
	if err := o.apart(r.Directory); err != nil {
		return err
	}
	at, err := o.places.open(r.Directory)
	if isMissing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer at.close()
	inner, found, err := o.inside(at, r.Directory, r.id(), maxPlace)
	if err == nil && found {
		err = fmt.Errorf("directory %q of volume %s is inside of directory %q, which stays until that volume is gone: %w",
			inner.Directory, inner.id(), r.Directory, sharedvolume.ErrState)
	}
	return err
}

// apart refuses to move a directory in which volumes of a share are that is exported from a directory around it: the marks of that share are
// not inside of what is moved.
func (o *owned) apart(directory string) error {
	for root, _ := parent(directory); root != ""; root, _ = parent(root) {
		held, err := o.crosses(root, strings.TrimPrefix(directory, root+"/"))
		if err != nil {
			return err
		}
		if held {
			return fmt.Errorf("directory %q is a share of its own, and has volumes in or around directory %q, as %s in it says: delete those first: %w",
				root, directory, sharedvolume.MarkDirectory, sharedvolume.ErrState)
		}
	}
	return nil
}

// crosses reports whether the share with a root below ours has a volume in or around a directory. Where its places are not written down, every
// volume of it may be there.
func (o *owned) crosses(root, directory string) (bool, error) {
	d, err := o.root.open(root)
	if err != nil {
		return false, err
	}
	defer d.close()
	at, err := d.open(sharedvolume.MarkDirectory + "/" + placesDir)
	if isMissing(err) || isOther(err) {
		return d.inhabited()
	}
	if err != nil {
		return false, err
	}
	defer func() { at.close() }()
	for component := range strings.SplitSeq(directory, "/") {
		next, err := at.open(component)
		if err != nil {
			return false, ignoreMissing(err)
		}
		at.close()
		at = next
		if _, err := at.lstat(holderFile); !isMissing(err) {
			return err == nil, err
		}
	}
	return true, nil
}
