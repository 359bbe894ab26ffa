// Package cephvolume is the one place that knows how volumes in a Ceph filesystem are called and described: the handles that the CSI driver gives out, what a
// PersistentVolume carries, and what the Secret of the clients holds. It is pure: it knows neither Ceph nor the wire.
package cephvolume

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"quarry.storage/quarry/pkg/cephname"
	"quarry.storage/quarry/pkg/osd"
	"quarry.storage/quarry/pkg/quarry"
)

// ErrNotOurs means that a text is no handle of this driver. The CSI services return NOT_FOUND where the volume is looked up, and OK where a delete finds
// nothing to delete.
var ErrNotOurs = errors.New("not a volume of " + quarry.DriverCephFS)

// ErrInvalid means that an attribute, or a part of the Secret, is not accepted. The message never has a part of a key.
var ErrInvalid = errors.New("not valid")

// ID says which volume is meant. Its text, "FSID/filesystem/group/name", is the CSI volume handle. Filesystem and group are those of package cephname.
type ID struct {
	// FSID of the Ceph cluster: the UID of the Cluster.
	FSID string
	// Name of the subvolume, as made by Name.
	Name string
}

// SnapshotID says which snapshot is meant. Its text, "FSID/volume/name", is the CSI snapshot handle: with filesystem and group it would be longer than
// handles may be.
type SnapshotID struct {
	// Of is the volume. A snapshot outlives it.
	Of ID
	// Name of the snapshot, as made by SnapshotName.
	Name string
}

const (
	uuid      = `[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`
	hashBytes = 10
)

var (
	nameForm     = regexp.MustCompile(`^(pvc-` + uuid + `|vol-x[0-9a-f]{20})$`)
	snapshotForm = regexp.MustCompile(`^snap-(` + uuid + `|x[0-9a-f]{20})$`)
	claimed      = regexp.MustCompile(`^pvc-` + uuid + `$`)
	asked        = regexp.MustCompile(`^snapshot-(` + uuid + `)$`)
)

// copyPrefix begins the names of snapshots that a copy of a volume is made from. They are nobody's but the copy's.
const copyPrefix = "copy-"

// New makes an ID, or says which part is not valid.
func New(fsid, name string) (ID, error) {
	switch {
	case !osd.ValidUUID(fsid):
		return ID{}, fmt.Errorf("%w: FSID %.100q", ErrNotOurs, fsid)
	case !nameForm.MatchString(name):
		return ID{}, fmt.Errorf("%w: volume name %.100q", ErrNotOurs, name)
	}
	return ID{FSID: fsid, Name: name}, nil
}

// Parse reads the handle of a volume. It accepts only what String makes, so that nothing else ever reaches a command.
func Parse(handle string) (ID, error) {
	p := strings.Split(handle, "/")
	if len(p) != 4 || p[1] != cephname.Filesystem || p[2] != cephname.Group {
		return ID{}, fmt.Errorf("%w: %.300q", ErrNotOurs, handle)
	}
	return New(p[0], p[3])
}

// String is the handle, at most 91 bytes long.
func (id ID) String() string {
	return id.FSID + "/" + cephname.Filesystem + "/" + cephname.Group + "/" + id.Name
}

// ParseSnapshot reads the handle of a snapshot. It accepts only what String makes.
func ParseSnapshot(handle string) (SnapshotID, error) {
	p := strings.Split(handle, "/")
	if len(p) != 3 || !snapshotForm.MatchString(p[2]) {
		return SnapshotID{}, fmt.Errorf("%w: snapshot %.300q", ErrNotOurs, handle)
	}
	of, err := New(p[0], p[1])
	return SnapshotID{Of: of, Name: p[2]}, err
}

// String is the handle, at most 119 bytes long.
func (id SnapshotID) String() string { return id.Of.FSID + "/" + id.Of.Name + "/" + id.Name }

// Name makes the name of the subvolume for the volume that the orchestrator calls coName, always the same one. "pvc-" and a UUID, as Kubernetes has it, stay.
func Name(coName string) string {
	if claimed.MatchString(coName) {
		return coName
	}
	return "vol-" + hashed(coName)
}

// SnapshotName is Name for snapshots.
func SnapshotName(coName string) string {
	if m := asked.FindStringSubmatch(coName); m != nil {
		return "snap-" + m[1]
	}
	return "snap-" + hashed(coName)
}

// ValidName reports whether a subvolume is one that this driver made.
func ValidName(name string) bool { return nameForm.MatchString(name) }

// ValidSnapshotName reports whether a snapshot is one that somebody asked this driver for.
func ValidSnapshotName(name string) bool { return snapshotForm.MatchString(name) }

// CopyName is the name of the snapshot that the copy called target is made from.
func CopyName(target string) string { return copyPrefix + target }

// CopyTarget returns the copy that a snapshot is there for; false for a snapshot that is there for itself.
func CopyTarget(snapshot string) (target string, ok bool) {
	target, ok = strings.CutPrefix(snapshot, copyPrefix)
	return target, ok && nameForm.MatchString(target)
}

func hashed(coName string) string {
	sum := sha256.Sum256([]byte(coName))
	return "x" + hex.EncodeToString(sum[:hashBytes])
}
