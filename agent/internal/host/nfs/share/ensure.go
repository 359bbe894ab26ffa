package share

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/pkg/sharedvolume"
)

const (
	// volumeMode is the mode of a volume's directory; whom it belongs to is root, until the kubelet gives it to a pod's group.
	volumeMode = 0o770
	// betweenMode is the mode of directories on the way to it.
	betweenMode = 0o755
)

// Ensure makes the directory of a volume, or finds the one that was made. One that was made keeps the size on its record, whatever is asked
// for: the caller compares.
func (s *Share) Ensure(t Target, w sharedvolume.Wish) (sharedvolume.Directory, error) {
	id, err := sharedvolume.New(t.Owner, w.Name)
	if err != nil {
		return sharedvolume.Directory{}, fmt.Errorf("%w: %w", sharedvolume.ErrInvalid, err)
	}
	if err := w.Check(); err != nil {
		return sharedvolume.Directory{}, err
	}
	o, err := s.open(t)
	if err != nil {
		return sharedvolume.Directory{}, err
	}
	defer o.close()
	s.placing.Lock()
	defer s.placing.Unlock()
	if err := o.ready(); err != nil {
		return sharedvolume.Directory{}, explainRoot(err)
	}
	r, err := o.ensure(record{
		Version: recordVersion, Owner: id.Owner, Volume: id.Name, Directory: w.Directory, OnDelete: w.OnDelete, State: sharedvolume.Making,
		Tree: o.tree, Created: s.now().Unix(), Bytes: w.Bytes,
	})
	if err != nil {
		return sharedvolume.Directory{}, explainRoot(err)
	}
	return o.public(r), nil
}

func (o *owned) ensure(want record) (record, error) {
	r, found, err := o.load(want.Volume)
	if err != nil {
		return record{}, err
	}
	switch {
	case found && r.State == sharedvolume.Removing:
		return record{}, fmt.Errorf("volume %s is being removed: %w", want.Volume, sharedvolume.ErrState)
	case found && (r.Directory != want.Directory || r.OnDelete != want.OnDelete):
		return record{}, fmt.Errorf("volume %s was made with directory %q and onDelete %s: %w", want.Volume, r.Directory, r.OnDelete, sharedvolume.ErrTaken)
	case found && r.State == sharedvolume.Made:
		return o.confirm(r)
	case found:
		return o.place(r)
	}
	if err := o.free(want); err != nil {
		return record{}, err
	}
	if want.Inode, err = o.stage(want); err != nil {
		return record{}, err
	}
	err = o.create(want)
	if errors.Is(err, unix.EEXIST) {
		return record{}, fmt.Errorf("volume %s: another agent makes it: %w", want.Volume, sharedvolume.ErrBusy)
	}
	if err != nil {
		return record{}, err
	}
	return o.place(want)
}

// confirm checks that the directory of a volume still is the one that was made.
func (o *owned) confirm(r record) (record, error) {
	inode, err := o.root.inode(r.Directory)
	switch {
	case isMissing(err), isOther(err):
		return record{}, o.lost(r)
	case err != nil:
		return record{}, err
	case r.Tree != o.tree:
		return record{}, o.unsettled(r)
	case inode != r.Inode:
		return record{}, fmt.Errorf("directory %q is not the one that was made for volume %s: %w", r.Directory, r.Volume, sharedvolume.ErrState)
	}
	if err := o.ousted(r); err != nil {
		return record{}, err
	}
	return r, o.enlist(r)
}

// free refuses a place where something is, and one that another volume has even if nothing is there.
func (o *owned) free(r record) error {
	inode, err := o.root.inode(r.Directory)
	if isMissing(err) {
		return o.keepOff(r.Directory, r.id())
	}
	if err != nil && !isOther(err) {
		return err
	}
	if err == nil {
		id, held, err := o.holder(inode)
		switch {
		case err != nil:
			return err
		case held && id == r.id():
			return fmt.Errorf("volume %s: another agent makes it: %w", r.Volume, sharedvolume.ErrBusy)
		case held:
			return fmt.Errorf("directory %q is that of volume %s: %w", r.Directory, id, sharedvolume.ErrTaken)
		}
	}
	return fmt.Errorf("directory %q: something that was not made for this volume is there: rename or remove it, or choose another subDir: %w",
		r.Directory, sharedvolume.ErrTaken)
}

// stage makes the directory out of sight, and enters it in the index before anybody can see it.
func (o *owned) stage(r record) (uint64, error) {
	if err := o.mkdir(o.making, r.key(), markMode); err != nil && !errors.Is(err, unix.EEXIST) {
		return 0, err
	}
	d, err := o.making.open(r.key())
	if err != nil {
		return 0, err
	}
	defer d.close()
	st, err := d.stat()
	if err != nil {
		return 0, err
	}
	if st.Uid != 0 {
		return 0, squashed(fmt.Sprintf("what it makes belongs to user %d", st.Uid))
	}
	if err := o.permit(d, r.key(), volumeMode); err != nil {
		return 0, err
	}
	r.Inode = st.Ino
	return st.Ino, o.note(r)
}

// place brings the directory to its place, from wherever an interrupted call left it. Another agent may do the same at this moment, so
// it looks first where the directory comes from, and then where it goes.
func (o *owned) place(r record) (record, error) {
	err := o.claim(r)
	if errors.Is(err, sharedvolume.ErrTaken) {
		err = errors.Join(err, o.unmake(r), o.giveUp(r))
	}
	if err != nil {
		return record{}, err
	}
	return o.fetch(r)
}

// fetch brings the directory to the place that the volume has claimed.
func (o *owned) fetch(r record) (record, error) {
	staged, err := o.making.inode(r.key())
	if err != nil && !isMissing(err) {
		return record{}, err
	}
	if err != nil || staged != r.Inode || r.Tree != o.tree {
		if placed, err := o.placed(r); err != nil {
			return record{}, err
		} else if placed {
			return o.finish(r)
		}
		if r, err = o.restage(r); err != nil || r.State == sharedvolume.Made {
			return r, err
		}
	}
	err = o.bring(r)
	if isTaken(err) {
		err = o.free(r)
	}
	if errors.Is(err, sharedvolume.ErrTaken) {
		return record{}, errors.Join(err, o.giveUp(r))
	}
	if err != nil {
		return record{}, err
	}
	return o.finish(r)
}

// bring moves the directory from out of sight to its place, unless another agent did.
func (o *owned) bring(r record) error {
	in, name, err := o.way(r.Directory)
	if err == nil {
		err = o.move(o.making, r.key(), in, name)
		in.close()
	}
	if !isMissing(err) && !isTaken(err) {
		return err
	}
	if placed, placedErr := o.placed(r); placedErr != nil || placed {
		return placedErr
	}
	return err
}

// restage takes the directory that is out of sight, or makes one anew: nothing uses a volume that is being made.
func (o *owned) restage(r record) (record, error) {
	var err error
	if r.Inode, err = o.stage(r); err != nil {
		return r, err
	}
	r.Tree = o.tree
	// Another agent may have made the volume meanwhile, and a pod may use it already.
	now, found, err := o.load(r.Volume)
	switch {
	case err == nil && !found:
		err = fmt.Errorf("volume %s was removed meanwhile: %w", r.Volume, sharedvolume.ErrState)
	case err == nil && now.State == sharedvolume.Making:
		return r, o.replace(now, r)
	case err == nil && now.State == sharedvolume.Made:
		return o.finish(now)
	case err == nil:
		err = fmt.Errorf("volume %s is being removed: %w", r.Volume, sharedvolume.ErrState)
	}
	return now, err
}

// placed reports whether the directory is at its place.
func (o *owned) placed(r record) (bool, error) {
	inode, err := o.root.inode(r.Directory)
	if isMissing(err) || isOther(err) {
		return false, nil
	}
	return err == nil && inode == r.Inode && r.Tree == o.tree, err
}

// way opens the directory that a volume's directory is in, and makes what is missing of the way. It leads through no volume.
func (o *owned) way(directory string) (in dir, name string, err error) {
	above, name := parent(directory)
	if in, err = o.root.open("."); err != nil || above == "" {
		return in, name, err
	}
	for component := range strings.SplitSeq(above, "/") {
		next, err := o.between(in, component)
		in.close()
		if err != nil {
			return none, "", fmt.Errorf("on the way to directory %q: %w", directory, err)
		}
		in = next
	}
	return in, name, nil
}

func (o *owned) between(in dir, component string) (dir, error) {
	d, err := in.open(component)
	if isMissing(err) {
		if err := o.mkdir(in, component, betweenMode); err != nil && !errors.Is(err, unix.EEXIST) {
			return none, err
		}
		d, err = in.open(component)
	}
	if isOther(err) {
		return none, fmt.Errorf("%q is no directory of this share: %w", component, sharedvolume.ErrTaken)
	}
	if err != nil {
		return none, err
	}
	if err := o.passable(d, component); err != nil {
		d.close()
		return none, err
	}
	return d, nil
}

// passable refuses a way through the directory of a volume, and through the root of a share that is exported from inside of this one: what is
// below is for those who use that share.
func (o *owned) passable(d dir, component string) error {
	if _, err := d.lstat(sharedvolume.MarkDirectory); err == nil {
		return fmt.Errorf("%q is a share of its own, with a directory %s: %w", component, sharedvolume.MarkDirectory, sharedvolume.ErrTaken)
	} else if !isMissing(err) {
		return err
	}
	st, err := d.stat()
	if err != nil {
		return err
	}
	id, held, err := o.holder(st.Ino)
	if held {
		return fmt.Errorf("%q is the directory of volume %s: %w", component, id, sharedvolume.ErrTaken)
	}
	return err
}
