package sharedlun

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"quarry.storage/quarry/pkg/quarry"
	"quarry.storage/quarry/pkg/volumeid"
)

// ErrNotOurs means that a text is no handle of this driver. The CSI services return NOT_FOUND where the volume is looked up, and OK
// where a delete finds nothing to delete.
var ErrNotOurs = errors.New("not a volume of " + quarry.DriverISCSI)

// ID says which volume is meant. Its text, "group/name", is the CSI volume handle. It names the group by its UUID: that is what is
// recorded, and no other group ever has it.
type ID struct {
	// Group is the UUID of the volume group in LVM.
	Group string
	// Name of the volume in LVM, as made by Name.
	Name string
}

var (
	groupForm = regexp.MustCompile(`^[a-zA-Z0-9]{6}(-[a-zA-Z0-9]{4}){5}-[a-zA-Z0-9]{6}$`)
	nameForm  = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$`)
)

// New makes an ID, or says which part is not valid.
func New(group, name string) (ID, error) {
	switch {
	case !groupForm.MatchString(group):
		return ID{}, fmt.Errorf("%w: group %.100q is not the UUID of a volume group", ErrNotOurs, group)
	case !nameForm.MatchString(name):
		return ID{}, fmt.Errorf("%w: volume name %.100q", ErrNotOurs, name)
	}
	return ID{Group: group, Name: name}, nil
}

// Parse reads a handle. It accepts only what String makes.
func Parse(handle string) (ID, error) {
	group, name, ok := strings.Cut(handle, "/")
	if !ok {
		return ID{}, fmt.Errorf("%w: %.300q", ErrNotOurs, handle)
	}
	return New(group, name)
}

// String is the handle, at most 103 bytes long.
func (id ID) String() string { return id.Group + "/" + id.Name }

// Name makes the name of the volume that the orchestrator calls coName, always the same one.
func Name(coName string) string { return volumeid.Name(coName) }

// SnapshotName is Name for snapshots. A snapshot never has the name of a volume.
func SnapshotName(coName string) string { return volumeid.Snapshot(coName) }

// IsSnapshot reports whether the ID is one of a snapshot.
func (id ID) IsSnapshot() bool { return strings.HasPrefix(id.Name, volumeid.SnapshotPrefix) }

// GroupName is what the group of an Iscsi is called in LVM.
func GroupName(ownerUID string) string { return "quarry-" + ownerUID }
