package decide

import (
	"fmt"

	"quarry.storage/quarry/pkg/pvuuid"
	"quarry.storage/quarry/pkg/sharedlun"
)

// Content is what is on a LUN, beside a group of the owner.
type Content struct {
	// Blank is true when nothing is.
	Blank bool
	// Says is one sentence for a person; Digest condenses it, and is empty when a part could not be read.
	Says, Digest string
	// PVUUID is that of the physical volume that the LUN is; empty when it is none. InGroup is true when its metadata names a group.
	PVUUID  string
	InGroup bool
}

// Found is what LVM and the disk itself say of a LUN.
type Found struct {
	// Group of the owner; nil when there is none.
	Group   *sharedlun.Group
	Content Content
}

// Work is how far the making or the removal of a group has to go.
type Work int

// What is to be done.
const (
	// Nothing: it is done.
	Nothing Work = iota
	// Wipe what is on the LUN, and go on with all else.
	Wipe
	// Remake removes the physical volume that a call has left that was cut off, and goes on: LVM makes no group on one that it takes for a part of
	// another group, which a vgcreate that was killed has left it.
	Remake
	// MakePV makes the physical volume, and the group on it.
	MakePV
	// RemoveGroup removes the group, and what is left of the LUN's label.
	RemoveGroup
	// RemovePV removes the physical volume without a group.
	RemovePV
)

// Create returns what the making of a group needs.
func Create(ref sharedlun.Ref, name string, w sharedlun.Mandate, promised uint64, wipeDigest string, f Found) (Work, error) {
	if err := first(sharedlun.CheckGroupName(name), Promised(promised, w.Epoch)); err != nil {
		return Nothing, err
	}
	switch {
	case f.Group != nil:
		return Nothing, existing(ref, w, *f.Group)
	case ref.UUID != "":
		// Recorded outranks seen: a group on record is not made again over what may be left of it.
		_, err := Same(ref, f)
		return Nothing, err
	case f.Content.Blank:
		return MakePV, nil
	case Orphan(ref, f):
		return Remake, nil
	case Damaged(ref, f):
		return Nothing, damaged(f)
	case f.Content.Digest == "":
		return Nothing, fmt.Errorf("%w: what is on the LUN cannot be read: %s", sharedlun.ErrUnknown, f.Content.Says)
	case wipeDigest == f.Content.Digest:
		return Wipe, nil
	case wipeDigest != "":
		return Nothing, fmt.Errorf("%w: %s Its digest is %s, the consent was given for %s", sharedlun.ErrNotClean, f.Content.Says, f.Content.Digest, wipeDigest)
	}
	return Nothing, fmt.Errorf("%w: %s", sharedlun.ErrNotClean, f.Content.Says)
}

// existing accepts a group that may be what an earlier call made.
func existing(ref sharedlun.Ref, w sharedlun.Mandate, g sharedlun.Group) error {
	switch {
	case g.OwnerUID != ref.OwnerUID:
		return fmt.Errorf("%w: it carries group %s of owner %s", sharedlun.ErrNotClean, g.UUID, g.OwnerUID)
	case ref.UUID != "" && ref.UUID != g.UUID:
		return fmt.Errorf("%w: it carries group %s of this owner, not %s", sharedlun.ErrNotClean, g.UUID, ref.UUID)
	case len(g.Volumes) > 0:
		return fmt.Errorf("%w: it carries group %s of this owner with %d volumes", sharedlun.ErrNotClean, g.UUID, len(g.Volumes))
	case w.Epoch < g.Epoch:
		return fmt.Errorf("%w: this writer has epoch %d, the group was made by that of epoch %d", sharedlun.ErrOldEpoch, w.Epoch, g.Epoch)
	}
	return nil
}

// Orphan reports whether the LUN is a physical volume that was made for this owner, on this LUN, and belongs to no group: a call that made or
// removed the group was cut off.
func Orphan(ref sharedlun.Ref, f Found) bool {
	return f.Group == nil && ours(ref, f) && !f.Content.InGroup
}

// Damaged reports whether the LUN is a physical volume of this owner that says that it is in a group, and LVM reports no group of the owner. Its
// volumes may still be there.
func Damaged(ref sharedlun.Ref, f Found) bool {
	return f.Group == nil && ours(ref, f) && f.Content.InGroup
}

func damaged(f Found) error {
	return fmt.Errorf("%w: the LUN is our physical volume %s, and LVM reports no group of ours on it", sharedlun.ErrUnknown, f.Content.PVUUID)
}

func ours(ref sharedlun.Ref, f Found) bool {
	return pvuuid.Fits(f.Content.PVUUID, Stem(ref))
}

// Stem is how the UUID of the physical volume begins that is made for an owner on a LUN. The size is no part of it: a LUN may grow.
func Stem(ref sharedlun.Ref) string {
	return pvuuid.Stem(ref.OwnerUID, pvuuid.Disk{WWN: ref.Lun.WWID, Serial: ref.Lun.Serial}, "")
}

// Remove returns what the removal of a group needs. A LUN on which nothing of the owner is needs nothing, whatever else is on it.
func Remove(ref sharedlun.Ref, w sharedlun.Mandate, promised uint64, f Found) (Work, error) {
	if err := Promised(promised, w.Epoch); err != nil {
		return Nothing, err
	}
	switch g := f.Group; {
	case g == nil && Damaged(ref, f):
		return Nothing, damaged(f)
	case g == nil && Orphan(ref, f):
		return RemovePV, nil
	case g == nil && !f.Content.Blank && f.Content.Digest == "":
		return Nothing, fmt.Errorf("%w: what is on the LUN cannot be read: %s", sharedlun.ErrUnknown, f.Content.Says)
	case g == nil:
		return Nothing, nil
	case g.UUID != ref.UUID || g.OwnerUID != ref.OwnerUID:
		return Nothing, fmt.Errorf("%w: it carries group %s of owner %s, not %s", sharedlun.ErrNotClean, g.UUID, g.OwnerUID, ref.UUID)
	case w.Epoch != g.Epoch:
		return Nothing, fmt.Errorf("%w: this writer has epoch %d, the group has %d", sharedlun.ErrOldEpoch, w.Epoch, g.Epoch)
	case len(g.Volumes) > 0:
		return Nothing, fmt.Errorf("%w: group %s has %d volumes", sharedlun.ErrInUse, g.Name, len(g.Volumes))
	}
	return RemoveGroup, nil
}

// Same refuses a group that is not the one that is meant.
func Same(ref sharedlun.Ref, f Found) (sharedlun.Group, error) {
	switch {
	case f.Group == nil && Damaged(ref, f):
		return sharedlun.Group{}, damaged(f)
	case f.Group == nil:
		return sharedlun.Group{}, fmt.Errorf("group %s of owner %s: %w: %s", ref.UUID, ref.OwnerUID, sharedlun.ErrNotFound, says(f.Content))
	case f.Group.UUID != ref.UUID || f.Group.OwnerUID != ref.OwnerUID:
		return sharedlun.Group{}, fmt.Errorf("group %s of owner %s: %w: the LUN carries %s of %s", ref.UUID, ref.OwnerUID, sharedlun.ErrNotFound,
			f.Group.UUID, f.Group.OwnerUID)
	}
	return *f.Group, nil
}

func says(c Content) string {
	if c.Blank {
		return "the LUN is empty"
	}
	return c.Says
}
