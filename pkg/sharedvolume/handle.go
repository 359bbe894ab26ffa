// Package sharedvolume is the one place that knows how volumes on an NFS share are called and described: the handle that the CSI
// driver gives out, the attributes that a PersistentVolume carries, the directory that is computed from the claim, and which servers,
// paths and mount options are accepted. It is pure: it knows neither the share nor the wire.
package sharedvolume

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
var ErrNotOurs = errors.New("not a volume of " + quarry.DriverNFS)

// ErrInvalid means that a server, a path, a directory, an option or an attribute is not accepted. The message says what is wrong.
var ErrInvalid = errors.New("not valid")

// ID says which volume is meant. Its text, "owner/name", is the CSI volume handle. It names no server and no directory: those are
// recorded, and nobody can choose them through a handle.
type ID struct {
	// Owner is the UID of the Nfs that the volume belongs to.
	Owner string
	// Name is the volume's name, as made by Name.
	Name string
}

// MaxHandle is the length that the CSI specification allows for a handle.
const MaxHandle = 128

var (
	ownerForm = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
	nameForm  = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$`)
)

// New makes an ID, or says which part is not valid.
func New(owner, name string) (ID, error) {
	switch {
	case !ownerForm.MatchString(owner):
		return ID{}, fmt.Errorf("%w: owner %.100q is not a UID", ErrNotOurs, owner)
	case !nameForm.MatchString(name):
		return ID{}, fmt.Errorf("%w: volume name %.100q", ErrNotOurs, name)
	}
	return ID{Owner: owner, Name: name}, nil
}

// Parse reads a handle. It accepts only what String makes.
func Parse(handle string) (ID, error) {
	owner, name, ok := strings.Cut(handle, "/")
	if !ok || len(handle) > MaxHandle {
		return ID{}, fmt.Errorf("%w: %.300q", ErrNotOurs, handle)
	}
	return New(owner, name)
}

// String is the handle.
func (id ID) String() string { return id.Owner + "/" + id.Name }

// Key is the name of what belongs to the volume in the directories below MarkDirectory that all owners share.
func (id ID) Key() string { return id.Owner + "." + id.Name }

// CheckOwner refuses what is not the UID of an object.
func CheckOwner(uid string) error {
	if !ownerForm.MatchString(uid) {
		return fmt.Errorf("owner %.100q is not a UID: %w", uid, ErrInvalid)
	}
	return nil
}

// Name makes the name of the volume that the orchestrator calls coName, always the same one. "pvc-" and a UUID, as Kubernetes has it,
// stay; of any other name a readable part stays, and a hash tells it apart.
func Name(coName string) string { return volumeid.Name(coName) }
