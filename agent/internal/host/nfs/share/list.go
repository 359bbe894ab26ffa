package share

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"quarry.storage/quarry/pkg/sharedvolume"
)

// List reads the records of an owner in the order of names, from the one behind after on. next is the last name, when there are more.
func (s *Share) List(t Target, after string, limit int) (list []sharedvolume.Directory, next string, err error) {
	o, err := s.open(t)
	if err != nil {
		return nil, "", err
	}
	defer o.close()
	names, err := o.volumes.names(-1)
	if err != nil {
		return nil, "", explain(err)
	}
	for i, file := range names {
		name, ok := strings.CutSuffix(file, suffix)
		if !ok {
			return nil, "", fmt.Errorf("%.300q is no record of a volume: %w", file, sharedvolume.ErrState)
		}
		names[i] = name
	}
	slices.Sort(names)
	for _, name := range names {
		if name <= after {
			continue
		}
		if len(list) == limit {
			return list, list[limit-1].Name, nil
		}
		r, found, err := o.load(name)
		if err != nil {
			return nil, "", explain(err)
		}
		if found {
			list = append(list, o.public(r))
		}
	}
	return list, "", nil
}

// Find opens the directory of a volume that was made, for mounting it. It changes nothing.
func (s *Share) Find(t Target, name, directory string) (*os.File, error) {
	if _, err := sharedvolume.New(t.Owner, name); err != nil {
		return nil, err
	}
	o, err := s.open(t)
	if err != nil {
		return nil, err
	}
	defer o.close()
	r, found, err := o.load(name)
	switch {
	case err != nil:
		return nil, explain(err)
	case !found:
		return nil, fmt.Errorf("volume %s has no record on the share: %w", name, os.ErrNotExist)
	case r.State != sharedvolume.Made:
		return nil, fmt.Errorf("volume %s is %s: %w", name, r.State, sharedvolume.ErrState)
	case r.Directory != directory:
		return nil, fmt.Errorf("volume %s has directory %q on record, not %q: %w", name, r.Directory, directory, sharedvolume.ErrState)
	}
	if r, err = o.known(r); err != nil {
		return nil, explain(err)
	}
	d, err := s.root.open(r.Directory)
	switch {
	case isMissing(err), isOther(err):
		return nil, fmt.Errorf("directory %q of volume %s is gone from the share: %w", r.Directory, name, sharedvolume.ErrState)
	case err != nil:
		return nil, explain(err)
	}
	st, err := d.stat()
	if err == nil && r.Tree != o.tree {
		err = o.unsettled(r)
	} else if err == nil && st.Ino != r.Inode {
		err = fmt.Errorf("directory %q is not the one that was made for volume %s: %w", directory, name, sharedvolume.ErrState)
	}
	if err != nil {
		d.close()
		return nil, explain(err)
	}
	return os.NewFile(uintptr(d.fd), directory), nil
}

// known returns a record that was compared with the share. One of another tree is of a directory that was not there then.
func (o *owned) known(r record) (record, error) {
	if r.Tree == o.tree {
		return r, nil
	}
	c, _, err := o.compared()
	if err != nil {
		return r, err
	}
	if !c.Done {
		return r, copiedProblem()
	}
	if o.places, err = o.marks.open(placesDir); err != nil {
		return r, err
	}
	// The comparison may have come to its end since the record was read.
	now, found, err := o.load(r.Volume)
	if err == nil && (!found || now.State != r.State) {
		err = fmt.Errorf("volume %s changed meanwhile: %w", r.Volume, sharedvolume.ErrBusy)
	}
	return now, err
}
