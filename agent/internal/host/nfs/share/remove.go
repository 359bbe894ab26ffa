package share

import (
	"errors"
	"fmt"
	"time"

	"quarry.storage/quarry/pkg/sharedvolume"
)

// Remove deletes, archives or leaves the directory of a volume, and forgets the volume. It stops at the time given, and goes on where
// it stopped when it is called again.
func (s *Share) Remove(t Target, name string, policy sharedvolume.Policy, until time.Time) (sharedvolume.Removal, error) {
	id, err := sharedvolume.New(t.Owner, name)
	if err != nil {
		return sharedvolume.Removal{}, fmt.Errorf("%w: %w", sharedvolume.ErrInvalid, err)
	}
	o, err := s.open(t)
	if err != nil {
		return sharedvolume.Removal{}, err
	}
	defer o.close()
	r, found, err := o.load(id.Name)
	if err != nil {
		return sharedvolume.Removal{}, explain(err)
	}
	if found {
		if err = o.ready(); err == nil {
			// The comparison may have written it anew.
			r, found, err = o.load(id.Name)
		}
		if err != nil {
			return sharedvolume.Removal{}, explain(err)
		}
	}
	if !found {
		return sharedvolume.Removal{Done: true}, explain(o.unstage(record{Owner: id.Owner, Volume: id.Name}))
	}
	out, err := o.remove(r, policy, until)
	return out, explain(err)
}

// remove goes on with what was begun: what is being removed is never archived, and the other way round.
func (o *owned) remove(r record, policy sharedvolume.Policy, until time.Time) (sharedvolume.Removal, error) {
	if r.State == sharedvolume.Removing {
		policy = r.Doing
	} else {
		policy = sharedvolume.Safer(r.OnDelete, policy)
	}
	out := sharedvolume.Removal{OnDelete: policy, Removed: r.Removed}
	var err error
	switch {
	case r.State == sharedvolume.Making:
		// Nobody used it yet. What is at its place is empty, or not ours.
		out.OnDelete = sharedvolume.Delete
		err = o.unmake(r)
		out.Done = err == nil
	case policy == sharedvolume.Retain:
		out.Note, err = o.retain(r)
		out.Done = err == nil
	case policy == sharedvolume.Archive:
		out.ArchivedAs, out.Note, err = o.archive(r)
		out.Done = err == nil
	default:
		err = o.delete(r, until, &out)
	}
	if err != nil || !out.Done {
		return out, err
	}
	if err := errors.Join(o.unstage(r), o.unnote(r), o.unclaim(r)); err != nil {
		return sharedvolume.Removal{}, err
	}
	return out, o.forget(r)
}

// unmake removes a directory that was never handed out.
func (o *owned) unmake(r record) error {
	in, name, err := o.holding(r.Directory)
	if err == nil {
		defer in.close()
		if inode, err := in.inode(name); err == nil && inode == r.Inode && r.Tree == o.tree {
			if err := ignoreMissing(o.rmdir(in, name)); err != nil {
				return err
			}
		}
	} else if !isMissing(err) && !isOther(err) {
		return err
	}
	return nil
}

// unstage removes an empty directory that never came to its place: of a call that was killed before it wrote a record, or of an agent
// that made the volume at the same time as another one.
func (o *owned) unstage(r record) error {
	var err error
	r.Inode, err = o.making.inode(r.key())
	if isMissing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(o.unnote(r), ignoreMissing(o.rmdir(o.making, r.key())))
}

// retain leaves the directory where it is.
func (o *owned) retain(r record) (note string, err error) {
	there, err := o.where(r)
	if err != nil || there {
		return "", err
	}
	return goneNote(r), nil
}

// holding opens the directory that a volume's directory is in.
func (o *owned) holding(directory string) (in dir, name string, err error) {
	above, name := parent(directory)
	if above == "" {
		above = "."
	}
	in, err = o.root.open(above)
	return in, name, err
}

// where reports whether the directory of a volume is at its place. Something else there is not ours to touch: it is an error, for
// somebody renamed the volume's own directory, unless the removal had begun. Then the place may have been free for a while, and have
// been taken since. In a copy of the share nobody can tell.
func (o *owned) where(r record) (bool, error) {
	inode, err := o.root.inode(r.Directory)
	if err == nil && r.Tree != o.tree {
		return false, o.copiedTo(r)
	}
	other := isOther(err) || err == nil && inode != r.Inode
	switch {
	case isMissing(err), other && r.State == sharedvolume.Removing:
		return false, nil
	case other:
		return false, fmt.Errorf("directory %q is not the one that was made for volume %s, and is left alone: put the right one back, or rename this one: %w",
			r.Directory, r.Volume, sharedvolume.ErrState)
	}
	return err == nil, err
}

// copiedTo refuses what is at the place of a volume in a copied share, unless the removal gave the place up before.
func (o *owned) copiedTo(r record) error {
	if r.State == sharedvolume.Removing {
		at, entered, err := o.entered(r)
		if err != nil {
			return err
		}
		at.close()
		if !entered {
			return nil
		}
	}
	return o.unsettled(r)
}

func goneNote(r record) string {
	return fmt.Sprintf("Directory %q was gone from the share already.", r.Directory)
}

// delete moves the directory out of sight, and then removes it for as long as there is time.
func (o *owned) delete(r record, until time.Time, out *sharedvolume.Removal) error {
	trash, err := o.discarded(r)
	if isMissing(err) {
		there := false
		if !r.Moved {
			if there, err = o.where(r); err != nil {
				return err
			}
		}
		if !there {
			if r.State == sharedvolume.Made {
				out.Note = goneNote(r)
			}
			out.Done = true
			return nil
		}
		r, trash, err = o.hide(r)
	}
	if err != nil {
		return err
	}
	defer trash.close()
	if err := o.mine(trash, r); err != nil {
		return err
	}
	if r, err = o.vacate(r); err != nil {
		return err
	}
	p := purge{Share: o.Share, top: trash, until: until}
	empty, err := p.clear(trash, 0)
	out.Removed += p.removed
	if err == nil && empty {
		out.Done = true
		return ignoreMissing(o.rmdir(o.removing, r.key()))
	}
	r.Removed = out.Removed
	if saveErr := o.progress(r); err == nil {
		err = saveErr
	}
	return err
}

// mine refuses to remove what is not the directory of a volume. A call that was killed between its move and its second look leaves
// somebody else's directory out of sight: that one is for a person to put back.
func (o *owned) mine(trash dir, r record) error {
	st, err := trash.stat()
	if err != nil || r.Tree == o.tree && st.Ino == r.Inode || r.Tree != o.tree && r.Moved {
		return err
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

// begin writes down what is going to be done, before it is done.
func (o *owned) begin(r record, doing sharedvolume.Policy, archive string) (record, error) {
	if r.State == sharedvolume.Removing && r.Archive == archive {
		return r, nil
	}
	r.State, r.Doing, r.Archive = sharedvolume.Removing, doing, archive
	return r, o.save(r)
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
		r.Moved = true
		if err := o.progress(r); err != nil {
			return r, err
		}
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
	if inode, err := in.inode(name); err != nil || inode != r.Inode {
		return none, fmt.Errorf("directory %q changed meanwhile: %w", r.Directory, sharedvolume.ErrBusy)
	}
	if err := o.move(in, name, o.removing, r.key()); err != nil {
		return none, err
	}
	if err := o.moved(r, in, name, o.removing, r.key()); err != nil {
		return none, err
	}
	return o.removing.open(r.key())
}

// moved makes sure that a rename moved the directory of the volume. Whatever else it moved goes back: somebody put it there between the
// look and the rename.
func (o *owned) moved(r record, from dir, name string, to dir, newName string) error {
	inode, err := to.entry(newName)
	if err == nil && inode == r.Inode {
		return nil
	}
	if err != nil && !isOther(err) {
		return err
	}
	err = fmt.Errorf("directory %q was replaced meanwhile: %w", r.Directory, sharedvolume.ErrState)
	if back := o.move(to, newName, from, name); back != nil {
		return fmt.Errorf("%w; what replaced it is now called %s: %w", err, newName, back)
	}
	return err
}
