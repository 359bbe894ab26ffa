package share

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"quarry.storage/quarry/pkg/sharedvolume"
)

// note enters the directory of a volume in the index, by which a directory is recognised as somebody's volume.
func (o *owned) note(r record) error {
	return o.put(o.tmpDir, o.index, strconv.FormatUint(r.Inode, 10), []byte(r.id().String()+"\n"), true)
}

// unnote takes the directory of a volume from the index. An entry that is another volume's by now stays: in a copy of the share that one
// may have the same number.
func (o *owned) unnote(r record) error {
	name := strconv.FormatUint(r.Inode, 10)
	content, err := o.index.read(name)
	if err != nil {
		return ignoreMissing(err)
	}
	if strings.TrimSpace(string(content)) != r.id().String() {
		return nil
	}
	return ignoreMissing(o.unlink(o.index, name))
}

// holder finds the volume, of any owner, whose directory has the inode. An entry of the index that its volume's record does not
// confirm is left over, and counts for nothing.
func (o *owned) holder(inode uint64) (sharedvolume.ID, bool, error) {
	id, found, err := o.indexed(inode)
	if err != nil || !found {
		return sharedvolume.ID{}, false, err
	}
	r, found, err := o.recordOf(id)
	return id, found && r.Inode == inode && r.Tree == o.tree, err
}

// indexed reads which volume the index gives an inode to; found is false when it names none.
func (o *owned) indexed(inode uint64) (id sharedvolume.ID, found bool, err error) {
	content, err := o.index.read(strconv.FormatUint(inode, 10))
	if err != nil {
		return sharedvolume.ID{}, false, ignoreMissing(err)
	}
	if id, err = sharedvolume.Parse(strings.TrimSpace(string(content))); err != nil {
		return sharedvolume.ID{}, false, fmt.Errorf("%w: index of inode %d: %w", errDamaged, inode, err)
	}
	return id, true, nil
}

// keeps reports whether the inode on record still is the volume's. A directory that is gone leaves its inode to the next one that is made. If
// that one is a volume's, the index says so before anybody sees it.
func (o *owned) keeps(r record) (bool, error) {
	id, found, err := o.indexed(r.Inode)
	return found && id == r.id(), err
}

// ousted refuses a volume whose inode another volume has by now.
func (o *owned) ousted(r record) error {
	id, held, err := o.holder(r.Inode)
	if err == nil && held && id != r.id() {
		err = fmt.Errorf("directory %q of volume %s is gone from the share, and what is there now is that of volume %s: %w",
			r.Directory, r.Volume, id, sharedvolume.ErrState)
	}
	return err
}

// stays makes sure, right before a rename, that a name still is the volume's directory, and that no other agent went on with the removal.
func (o *owned) stays(r record, in dir, name string) error {
	inode, err := in.inode(name)
	if err != nil || inode != r.Inode {
		return fmt.Errorf("directory %q changed meanwhile: %w", r.Directory, sharedvolume.ErrBusy)
	}
	if kept, err := o.keeps(r); err != nil || !kept {
		return errors.Join(err, changed(r))
	}
	return o.same(r)
}
