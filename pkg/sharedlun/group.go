package sharedlun

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"quarry.storage/quarry/pkg/quarry"
)

// Marks in LVM. Tags without a value mean what they say by being there.
const (
	// TagOwner is the prefix of the tag of a group; the UID of its Iscsi follows.
	TagOwner = quarry.Group + "/iscsi="
	// TagEpoch is the prefix of the tag of a group that has the highest epoch that changed it.
	TagEpoch = quarry.Group + "/epoch="
	// TagHeldBy is the prefix of the tag of a volume that a node may have active; the name of the node follows.
	TagHeldBy = quarry.Group + "/held-by="
	// TagLeaving is on a volume that is being taken from its node: nobody maps it.
	TagLeaving = quarry.Group + "/leaving"
	// TagReady is the prefix of the tag of a volume with the number of its first bytes that may be seen.
	TagReady = quarry.Group + "/ready="
	// TagMaking is the prefix of the tag of a volume that no pod has seen yet; the node follows that may make its first filesystem.
	TagMaking = quarry.Group + "/making="
	// TagUsed is on a volume that pods may see: nobody makes a filesystem on it, even if nothing seems to be there.
	TagUsed = quarry.Group + "/used"
	// TagReader is the prefix of the tags of a volume for the nodes that it was released from by a fence; name and boot follow, with a slash between.
	TagReader = quarry.Group + "/reader="
	// TagSize is the prefix of the tag of a volume that was made for a claim: the size that was asked for follows. It is among the Tags of the volume.
	TagSize = quarry.Group + "/size="
	// TagCopyOf is the prefix of the tag of a volume that was made to begin with the content of another one. See Origin.Tag.
	TagCopyOf = quarry.Group + "/copy-of="
	// TagCopied is the prefix of the tag of a volume that is being copied, with the number of its first bytes that have reached the LUN.
	TagCopied = quarry.Group + "/copied="
	// TagSnapshot is on a volume that is a snapshot: no node gets it once it is whole.
	TagSnapshot = quarry.Group + "/snapshot"
	// TagVoid is on a copy that nobody wants any more, and that never becomes whole. It is never taken off.
	TagVoid = quarry.Group + "/void"
)

// marks are all of them.
var marks = []string{TagOwner, TagEpoch, TagHeldBy, TagLeaving, TagReady, TagMaking, TagUsed, TagReader, TagCopyOf, TagCopied, TagSnapshot, TagVoid}

// SystemID is what LVM knows the group of an Iscsi by. No host has it, so that plain LVM leaves the group alone everywhere.
func SystemID(ownerUID string) string { return "quarry-" + ownerUID }

// Group is the volume group on a shared LUN.
type Group struct {
	UUID, Name, OwnerUID string
	// Epoch is the highest one that changed it.
	Epoch uint64
	// Sequence is LVM's vg_seqno.
	Sequence                          uint64
	SizeBytes, FreeBytes, ExtentBytes int64
	// Volumes, ordered by name.
	Volumes []Volume
}

// Volume returns a volume by its name; nil when the group has none of that name.
func (g Group) Volume(name string) *Volume {
	i, found := slices.BinarySearchFunc(g.Volumes, name, func(v Volume, name string) int { return strings.Compare(v.Name, name) })
	if !found {
		return nil
	}
	return &g.Volumes[i]
}

// Volume is one volume of the group.
type Volume struct {
	Name, UUID string
	SizeBytes  int64
	// Ranges are where it lies on the LUN, in the order of the volume.
	Ranges []Range
	// HeldBy is the node that may have it active; empty when none may.
	HeldBy string
	// Leaving is true while it is being taken from that node: nobody maps it.
	Leaving bool
	// ReadyBytes are its first bytes that may be seen. What is behind them has to be zeroed first.
	ReadyBytes int64
	// Used is true once pods may see it. Until then nothing on it is anybody's data.
	Used bool
	// MakingOn is the node that may make its first filesystem; empty when none may.
	MakingOn string
	// Readers are the nodes that it was released from by a fence, with their boots then; ordered. They may still read what lies in its place.
	Readers []Boot
	// Origin is the volume that it is a copy of; the zero value when it is of none.
	Origin Origin
	// CopiedBytes are its first bytes that have reached the LUN while it is being copied. See Copying.
	CopiedBytes int64
	// Snapshot is true for a snapshot: no node gets it once it is whole.
	Snapshot bool
	// Void is true for a copy that nobody wants any more, and that never becomes whole: its origin may change, even if a node fills it still.
	Void bool
	// Tags beside those of this package, ordered.
	Tags        []string
	CreatedUnix int64
}

// UnknownBoot stands for the boot of a node that was fenced while nobody knew in which one it had its volumes. The node reports another one whenever it answers: that it has no
// device of a volume then tells that it does not read the volume any more.
const UnknownBoot = "unknown"

// Boot is one boot of a node.
type Boot struct {
	Node, ID string
}

// Tag is the tag of a volume that the node may still read.
func (b Boot) Tag() string { return TagReader + b.Node + "/" + b.ID }

// Check refuses what no tag can name.
func (b Boot) Check() error {
	if err := CheckNode(b.Node); err != nil {
		return err
	}
	if !bootForm.MatchString(b.ID) {
		return fmt.Errorf("%w: boot %.100q of node %s", ErrInvalid, b.ID, b.Node)
	}
	return nil
}

// unread returns an error that names the readers of the volume that are not known to have been booted since. reported are the boots that nodes report
// now.
func (v Volume) unread(reported []Boot) error {
	var errs []error
	for _, r := range v.Readers {
		i := slices.IndexFunc(reported, func(b Boot) bool { return b.Node == r.Node })
		if i < 0 || reported[i].ID == "" || reported[i].ID == r.ID {
			errs = append(errs, fmt.Errorf("%w: node %s was fenced in boot %s and may still read volume %s: boot it", ErrHeld, r.Node, r.ID, v.Name))
		}
	}
	return errors.Join(errs...)
}

// AskedBytes returns the size with which the volume was made for a claim: a smaller volume is not finished. It is 0 when the volume was made for none.
func (v Volume) AskedBytes() int64 {
	for _, tag := range v.Tags {
		if text, ok := strings.CutPrefix(tag, TagSize); ok {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return 0
			}
			return n
		}
	}
	return 0
}

// Unready reports whether a part of the volume may not be seen.
func (v Volume) Unready() bool { return v.ReadyBytes < v.SizeBytes }

// Mark reads a tag of this package into the volume, and reports whether it is one. A number that cannot be read counts as nothing ready.
func (v *Volume) Mark(tag string) bool {
	switch tag {
	case TagLeaving:
		v.Leaving = true
		return true
	case TagUsed:
		v.Used = true
		return true
	case TagSnapshot:
		v.Snapshot = true
		return true
	case TagVoid:
		v.Void = true
		return true
	}
	if v.markCopy(tag) {
		return true
	}
	if node, ok := strings.CutPrefix(tag, TagMaking); ok {
		v.MakingOn = node
		return true
	}
	if node, ok := strings.CutPrefix(tag, TagHeldBy); ok {
		v.HeldBy = node
		return true
	}
	if n, ok := strings.CutPrefix(tag, TagReady); ok {
		v.ReadyBytes, _ = strconv.ParseInt(n, 10, 64)
		return true
	}
	if reader, ok := strings.CutPrefix(tag, TagReader); ok {
		node, id, _ := strings.Cut(reader, "/")
		v.Readers = append(v.Readers, Boot{Node: node, ID: id})
		slices.SortFunc(v.Readers, func(a, b Boot) int { return strings.Compare(a.Tag(), b.Tag()) })
		return true
	}
	return false
}
