package decide

import (
	"context"
	"fmt"
	"strconv"

	"quarry.storage/quarry/pkg/sharedlun"
)

// copyMarks are the tags with which a copy is made; none for a volume that is none. Nobody holds the origin, so that its content is what it is until the copy is
// whole: see uncopied. A copy of a volume that pods have seen is one that pods have seen, and no filesystem is made on it.
func copyMarks(g sharedlun.Group, c sharedlun.Create, size int64) ([]string, error) {
	if c.Origin == (sharedlun.Origin{}) {
		return nil, nil
	}
	v, err := find(g, c.Origin.Name, c.Origin.UUID)
	switch {
	case err != nil:
		return nil, err
	case v.HeldBy != "":
		return nil, fmt.Errorf("volume %s is copied while no node has it: it is %w: %s", v.Name, sharedlun.ErrHeld, v.HeldBy)
	case v.ReadyBytes == 0 || v.ReadyBytes != c.Origin.Bytes:
		return nil, fmt.Errorf("%w: %d bytes of volume %s are ready, the request was decided on %d", sharedlun.ErrMoved, v.ReadyBytes, v.Name, c.Origin.Bytes)
	case size < v.SizeBytes:
		return nil, fmt.Errorf("%w: a copy of %d bytes of volume %s, which has %d", sharedlun.ErrInvalid, size, v.Name, v.SizeBytes)
	}
	marks := []string{c.Origin.Tag()}
	if v.Used {
		marks = append(marks, sharedlun.TagUsed)
	}
	if c.Snapshot {
		marks = append(marks, sharedlun.TagSnapshot)
	}
	return marks, nil
}

// uncopied refuses what would change the content of a volume, or end it, while copies of it are made: they would be of no single moment.
func uncopied(g sharedlun.Group, v sharedlun.Volume) error {
	if all := g.Copies(v.UUID); len(all) > 0 {
		return fmt.Errorf("volume %s is being copied to %s: %w until that is whole", v.Name, all[0].Name, sharedlun.ErrHeld)
	}
	return nil
}

// lendable refuses to give a volume to a node that no node may have: one that is being copied, and a snapshot that is whole. A copy is given to the node that makes
// it, as long as nobody has its origin.
func lendable(g sharedlun.Group, v sharedlun.Volume) error {
	if err := uncopied(g, v); err != nil {
		return err
	}
	if v.Void {
		return voided(v)
	}
	if v.Copying() {
		_, err := origin(g, v)
		return err
	}
	if v.Snapshot {
		return fmt.Errorf("%w: volume %s is a snapshot, which no node gets", sharedlun.ErrMisfit, v.Name)
	}
	return nil
}

// voided refuses what a copy would need to become whole, once it is void.
func voided(v sharedlun.Volume) error {
	return fmt.Errorf("%w: the copy %s is void: nobody wants it, and its origin may have changed", sharedlun.ErrMisfit, v.Name)
}

// void marks a copy that is not whole. From then on its origin does not wait for it, even if the node that fills it does not answer: that node only reads the origin, and what it writes nobody sees.
func void(g sharedlun.Group, c sharedlun.Void) (Step, error) {
	v, err := named(g, c.Name, c.UUID)
	switch {
	case err != nil || v == nil:
		return nil, err
	case !v.Copying():
		return nil, fmt.Errorf("%w: volume %s is not being copied", sharedlun.ErrMisfit, c.Name)
	case v.Void:
		return nil, nil
	}
	return Retag{Volume: *v, Add: []string{sharedlun.TagVoid}}, nil
}

// unfilled refuses to remove a volume while a node has a void copy of it: it may read the volume, and is no reader of anything yet.
func unfilled(g sharedlun.Group, v sharedlun.Volume) error {
	for _, c := range g.ReadThrough(v) {
		if c.UUID != v.UUID && c.Void && c.HeldBy != "" {
			return fmt.Errorf("volume %s was being copied to %s, which is void, and is %w: %s, which may read it", v.Name, c.Name, sharedlun.ErrHeld, c.HeldBy)
		}
	}
	return nil
}

// origin is the volume that another one is copied from. It has to be as it was when the copy was begun.
func origin(g sharedlun.Group, v sharedlun.Volume) (sharedlun.Volume, error) {
	from, err := find(g, v.Origin.Name, v.Origin.UUID)
	switch {
	case err != nil:
		return from, err
	case from.HeldBy != "":
		return from, fmt.Errorf("volume %s, of which %s is a copy: %w: %s", from.Name, v.Name, sharedlun.ErrHeld, from.HeldBy)
	case v.Origin.Bytes <= 0 || from.ReadyBytes < v.Origin.Bytes || v.SizeBytes < v.Origin.Bytes:
		return from, fmt.Errorf("%w: %d bytes of volume %s, of which %d are ready, are no beginning of %s with %d", sharedlun.ErrMisfit,
			v.Origin.Bytes, from.Name, from.ReadyBytes, v.Name, v.SizeBytes)
	}
	return from, nil
}

// copied notes how much of a copy has reached the LUN. What a node wrote that does not hold the copy any more counts for nothing.
func copied(g sharedlun.Group, c sharedlun.Copied) (Step, error) {
	v, err := find(g, c.Name, c.UUID)
	switch {
	case err != nil:
		return nil, err
	case !v.Copying():
		return nil, fmt.Errorf("%w: volume %s is not being copied", sharedlun.ErrMisfit, c.Name)
	case v.Void:
		return nil, voided(v)
	case c.Bytes > v.SizeBytes:
		return nil, fmt.Errorf("%w: %d bytes of volume %s copied, it has %d", sharedlun.ErrInvalid, c.Bytes, c.Name, v.SizeBytes)
	case c.Bytes <= v.CopiedBytes:
		return nil, nil
	case v.HeldBy == "" || v.Leaving:
		return nil, fmt.Errorf("volume %s is being copied by no node: %w by %q, leaving %t", c.Name, sharedlun.ErrHeld, v.HeldBy, v.Leaving)
	}
	return Retag{Volume: v, Remove: copiedTag(v), Add: []string{sharedlun.TagCopied + strconv.FormatInt(c.Bytes, 10)}}, nil
}

// copiedTag is the tag of a volume that says how much of it is copied.
func copiedTag(v sharedlun.Volume) []string {
	if v.CopiedBytes == 0 {
		return nil
	}
	return []string{sharedlun.TagCopied + strconv.FormatInt(v.CopiedBytes, 10)}
}

// wholeCopy shows a copy. It is shown as a whole, once the LUN says that all of it is there, and that no node works on it: from then on its origin may change.
func wholeCopy(v sharedlun.Volume, c sharedlun.Ready) (Step, error) {
	switch {
	case v.Void:
		return nil, voided(v)
	case c.Bytes != v.SizeBytes || v.CopiedBytes != v.SizeBytes:
		return nil, fmt.Errorf("%w: %d bytes of the copy %s ready: it has %d, and %d have reached the LUN", sharedlun.ErrMisfit, c.Bytes, v.Name, v.SizeBytes, v.CopiedBytes)
	case v.HeldBy != "":
		return nil, fmt.Errorf("the copy %s is %w: %s, which may write to it", v.Name, sharedlun.ErrHeld, v.HeldBy)
	}
	return Retag{Volume: v, Remove: copiedTag(v), Add: []string{sharedlun.TagReady + strconv.FormatInt(c.Bytes, 10)}}, nil
}

// Duplicate is what is copied where on a LUN.
type Duplicate struct {
	// Group and Volume are the UUIDs of the copy; both devices are named after it. Lun is the number of the device that all ranges lie on.
	Group, Volume, Lun string
	// From is copied to the beginning of To, which is as large at least; what To has behind that is zeroed. From may be empty.
	From, To []sharedlun.Range
	// Discard has the target forget what was behind the copied bytes, where it can.
	Discard bool
	// Pace is asked before so many bytes are copied.
	Pace func(ctx context.Context, bytes int64) error
}

// Copy returns the volume that another one is to be copied from. seen is the group as the LUN has it now, v the copy as the caller knows it, and devices are those
// of the group on this node. It refuses a copy that is not this node's, or is whole, an origin that somebody holds or has mapped, and a copy that has a device.
func Copy(seen sharedlun.Group, v sharedlun.Volume, node string, devices []Mapped) (copying, from sharedlun.Volume, err error) {
	if copying, err = Mine(seen, v, node); err != nil {
		return copying, from, err
	}
	if !copying.Copying() || copying.SizeBytes != v.SizeBytes || copying.Origin != v.Origin {
		return copying, from, fmt.Errorf("%w: volume %s is no copy of %q any more that is being made, or has another size", sharedlun.ErrMoved, v.Name, v.Origin.Name)
	}
	if copying.Void {
		return copying, from, voided(copying)
	}
	if from, err = origin(seen, copying); err != nil {
		return copying, from, err
	}
	for _, m := range devices {
		// A device that was cut returns errors to whoever has it open, and a table that is not live serves nobody. What an earlier copying left is removed by the next one.
		if m.Part == sharedlun.PartShown && (m.VolumeUUID == copying.UUID || m.VolumeUUID == from.UUID) && m.Live && !m.Cut {
			return copying, from, fmt.Errorf("%w: volume %s is copied to %s, and one of them is mapped here: unmap it first", sharedlun.ErrMisfit, from.Name, v.Name)
		}
	}
	return copying, from, nil
}
