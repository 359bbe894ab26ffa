package sharedlun

import (
	"fmt"
	"regexp"
	"strings"

	"quarry.storage/quarry/pkg/quarry"
)

// Ref says which group is meant.
type Ref struct {
	// Lun that it lies on.
	Lun Identity
	// OwnerUID is the UID of the Iscsi.
	OwnerUID string
	// UUID of the group in LVM; empty where it is not known yet.
	UUID string
}

// Contents are what is on a LUN.
type Contents struct {
	// Group of the owner; nil when it has none there.
	Group *Group
	// Content says what is there instead, for a person, and Digest condenses it. Both are empty when nothing is.
	Content, Digest string
	// Promised is the epoch that the node has promised; 0 when none.
	Promised uint64
}

// Progress is how far the zeroing or the copying of a volume is, in bytes.
type Progress struct {
	Done             bool
	DoneBytes, Total int64
}

var (
	ownerForm = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
	nodeForm  = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)
	tagForm   = regexp.MustCompile(`^[a-zA-Z0-9+_.][a-zA-Z0-9+_./=!:&#-]*$`)
	bootForm  = regexp.MustCompile(`^[0-9a-zA-Z][0-9a-zA-Z-]{0,63}$`)
	vgForm    = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,126}$`)
)

// CheckOwner refuses a Ref of which the LUN or the owner is not told.
func (r Ref) CheckOwner() error {
	if err := r.Lun.Check(); err != nil {
		return err
	}
	if !ownerForm.MatchString(r.OwnerUID) {
		return fmt.Errorf("%w: owner %.100q is no UID", ErrInvalid, r.OwnerUID)
	}
	return nil
}

// Check refuses a Ref of which any part is not told.
func (r Ref) Check() error {
	if err := r.CheckOwner(); err != nil {
		return err
	}
	return CheckUUID("group", r.UUID)
}

// CheckUUID refuses what is no UUID of LVM.
func CheckUUID(what, uuid string) error {
	if !groupForm.MatchString(uuid) {
		return fmt.Errorf("%w: UUID %.100q of a %s", ErrInvalid, uuid, what)
	}
	return nil
}

// CheckName refuses what is no name of a volume.
func CheckName(name string) error {
	if !nameForm.MatchString(name) {
		return fmt.Errorf("%w: volume name %.100q", ErrInvalid, name)
	}
	return nil
}

// CheckGroupName refuses what is no name of a volume group.
func CheckGroupName(name string) error {
	if !vgForm.MatchString(name) {
		return fmt.Errorf("%w: name %.200q of a volume group", ErrInvalid, name)
	}
	return nil
}

// CheckNode refuses what is no name of a node.
func CheckNode(name string) error {
	if !nodeForm.MatchString(name) {
		return fmt.Errorf("%w: node %.300q", ErrInvalid, name)
	}
	return nil
}

// CheckTag refuses what is no tag of the controller: the marks of this package are set by their own changes.
func CheckTag(tag string) error {
	for _, mark := range marks {
		if strings.HasPrefix(tag, mark) {
			return fmt.Errorf("%w: %.200q is a mark of %s itself", ErrInvalid, tag, quarry.Group)
		}
	}
	if len(tag) > 1024 || !tagForm.MatchString(tag) {
		return fmt.Errorf("%w: tag %.200q", ErrInvalid, tag)
	}
	return nil
}

// CheckTable refuses a volume that its ranges are not the whole of, or a range that has no size.
func (v Volume) CheckTable() error {
	var sum int64
	for _, r := range v.Ranges {
		if r.Start < 0 || r.Size <= 0 || r.Start%sector != 0 || r.Size%sector != 0 || r.Start+r.Size < 0 || sum+r.Size < 0 {
			return fmt.Errorf("%w: range of %d bytes from %d", ErrInvalid, r.Size, r.Start)
		}
		sum += r.Size
	}
	if sum != v.SizeBytes || sum == 0 {
		return fmt.Errorf("%w: the ranges of volume %s have %d bytes, it has %d", ErrInvalid, v.UUID, sum, v.SizeBytes)
	}
	return nil
}

// sector is what all parts of a LUN are a multiple of, in bytes.
const sector = 512
