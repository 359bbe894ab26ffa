package share

import (
	"errors"
	"fmt"
	"time"

	"quarry.storage/quarry/pkg/sharedvolume"
)

// Remove deletes, archives or leaves the directory of a volume, and forgets the volume. It stops at the time given, and goes on where it stopped when it
// is called again. A volume without a record is gone only if nothing is at the directory that the caller has on record, or that was to be retained.
func (s *Share) Remove(t Target, name, directory string, policy sharedvolume.Policy, until time.Time) (sharedvolume.Removal, error) {
	if policy == sharedvolume.Retain {
		directory = ""
	}
	return s.withRecord(t, name, directory, func(o *owned, r record) (sharedvolume.Removal, error) { return o.remove(r, policy, until) })
}

// Abandon removes what is left of a volume that was never made, and forgets it. A volume that was made is refused, also one that is being removed:
// it may be in use since the caller looked, or somebody may want what is left of it.
func (s *Share) Abandon(t Target, name string) error {
	_, err := s.withRecord(t, name, "", func(o *owned, r record) (sharedvolume.Removal, error) {
		if !r.neverMade() {
			return sharedvolume.Removal{}, fmt.Errorf("volume %s is left alone, for it was made (it is %s): %w", r.Volume, r.State, sharedvolume.ErrState)
		}
		return o.remove(r, "", s.now())
	})
	return err
}

// withRecord removes a volume by its record, once the records are compared. Of one without a record it removes what never came to a place.
func (s *Share) withRecord(t Target, name, directory string, remove func(*owned, record) (sharedvolume.Removal, error)) (sharedvolume.Removal, error) {
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
	if found || directory != "" {
		// Without the comparison nobody knows whose a directory of a copied share is.
		if err = o.ready(); err == nil {
			// It may have written the record anew.
			r, found, err = o.load(id.Name)
		}
		if err != nil {
			return sharedvolume.Removal{}, explain(err)
		}
	}
	if !found {
		err := errors.Join(o.unrecorded(id.Name, directory), o.unstage(record{Owner: id.Owner, Volume: id.Name}))
		return sharedvolume.Removal{Done: err == nil}, explain(err)
	}
	out, err := remove(o, r)
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
	case r.neverMade():
		// Nobody used it yet. What is at its place is empty, or not ours. From here on no agent makes it ready.
		out.OnDelete = sharedvolume.Delete
		if r.Tree == o.tree {
			r, err = o.begin(r, sharedvolume.Delete, "")
		}
		if err == nil {
			err = o.unmake(r)
		}
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
			kept, err := o.keeps(r)
			if err == nil && kept {
				err = ignoreMissing(o.rmdir(in, name))
			}
			if err != nil {
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
	if r.State == sharedvolume.Removing {
		return "", nil
	}
	there, err := o.where(r)
	if err == nil && !there {
		err = o.inSight(r)
	}
	if err == nil {
		// From here on no agent uses the volume, even if the rest of the removal waits.
		_, err = o.begin(r, sharedvolume.Retain, "")
	}
	if err != nil || there {
		return "", err
	}
	return goneNote(r.Directory), nil
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

// movable reports whether the directory of a volume is at its place, and may be moved away from there. Where another volume has its inode by
// now, the directory is gone. Where none has it, nobody knows whose the directory is.
func (o *owned) movable(r record) (bool, error) {
	there, err := o.where(r)
	if err != nil || !there {
		return false, err
	}
	kept, err := o.keeps(r)
	if err != nil || kept {
		return kept, err
	}
	if _, held, err := o.holder(r.Inode); err != nil || held {
		return false, err
	}
	return false, fmt.Errorf("directory %q is left alone: %s/%s/%d does not say that it is the one that was made for volume %s. If it is, write %q into that file; if not, rename it: %w",
		r.Directory, sharedvolume.MarkDirectory, indexDir, r.Inode, r.Volume, r.id(), sharedvolume.ErrState)
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

func goneNote(directory string) string {
	return fmt.Sprintf("Directory %q was gone from the share already.", directory)
}

// delete moves the directory out of sight, and then removes it for as long as there is time.
func (o *owned) delete(r record, until time.Time, out *sharedvolume.Removal) error {
	trash, err := o.discarded(r)
	if isMissing(err) {
		there := false
		if !r.Moved {
			if there, err = o.movable(r); err != nil {
				return err
			}
		}
		if there {
			r, trash, err = o.hide(r)
		} else if trash, err = o.discarded(r); isMissing(err) {
			// Looked for once more after its place: another agent may have moved it out of sight between the two looks.
			if err = o.strayed(r); err != nil {
				return err
			}
			if r.State == sharedvolume.Made {
				out.Note = goneNote(r.Directory)
			}
			out.Done = true
			return nil
		}
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
	if _, _, saveErr := o.progress(r); err == nil {
		err = saveErr
	}
	return err
}

// begin writes down what is going to be done, before it is done.
func (o *owned) begin(r record, doing sharedvolume.Policy, archive string) (record, error) {
	if r.State == sharedvolume.Removing && r.Archive == archive {
		return r, o.same(r)
	}
	begun := r
	begun.Unused = r.Unused || r.State == sharedvolume.Making
	begun.State, begun.Doing, begun.Archive = sharedvolume.Removing, doing, archive
	return begun, o.replace(r, begun)
}

// moved makes sure that a rename moved the directory of the volume. Whatever else it moved goes back: somebody put it there between the
// look and the rename.
func (o *owned) moved(r record, from dir, name string, to dir, newName string) error {
	var why error
	inode, err := to.entry(newName)
	if err != nil && !isOther(err) {
		return err
	}
	if err == nil && inode == r.Inode {
		id, found, err := o.indexed(r.Inode)
		// Where the index names nobody, the removal is over. An archive still has the inode then, and what was deleted has left it to somebody.
		if err == nil && (found && id == r.id() || !found && r.Doing == sharedvolume.Archive) {
			return nil
		}
		why = err
	}
	err = errors.Join(why, fmt.Errorf("directory %q was replaced meanwhile: %w", r.Directory, sharedvolume.ErrState))
	if back := o.move(to, newName, from, name); back != nil {
		return fmt.Errorf("%w; what replaced it is now called %s: %w", err, newName, back)
	}
	return err
}
