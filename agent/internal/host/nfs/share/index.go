package share

import (
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
	content, err := o.index.read(strconv.FormatUint(inode, 10))
	if isMissing(err) {
		return sharedvolume.ID{}, false, nil
	}
	if err != nil {
		return sharedvolume.ID{}, false, err
	}
	id, err := sharedvolume.Parse(strings.TrimSpace(string(content)))
	if err != nil {
		return sharedvolume.ID{}, false, fmt.Errorf("%w: index of inode %d: %w", errDamaged, inode, err)
	}
	r, found, err := o.recordOf(id)
	return id, found && r.Inode == inode && r.Tree == o.tree, err
}
