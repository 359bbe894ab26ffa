// Package volumeid is the one place that knows how volumes and snapshots of local storage are called: the handle that the CSI
// driver gives out, the name in LVM that is made from the name that the container orchestrator chose, and the tag in LVM. It is
// pure: it knows neither disks nor the wire.
package volumeid

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"quarry.storage/quarry/pkg/quarry"
)

// ErrNotOurs means that a text is no handle of this driver. The CSI services answer NOT_FOUND where the volume is looked up, and
// OK where a delete finds nothing to delete.
var ErrNotOurs = errors.New("not a volume of " + quarry.DriverLVM)

// Tag is the prefix of the LVM tag that marks a volume as ours; its handle follows.
const Tag = quarry.Group + "/volume="

// TagNew is on a volume that was made empty, from lvcreate on, until its first use, and on copies that were made of it until then. The node
// service clears such a volume of what is left over from others, and makes a filesystem, as often as it takes, and then removes the tag. It
// trusts the tag over nothing that was written after the volume was made. A volume without the tag is never formatted.
const TagNew = quarry.Group + "/new"

// ID says which volume or snapshot is meant. Its text, "node/group/name", is the CSI volume handle, or the snapshot handle.
type ID struct {
	// Node is the name of the node whose disks hold the volume.
	Node string
	// Group is the volume group.
	Group string
	// Name is the logical volume, as made by Name or Snapshot.
	Name string
}

const (
	maxNode = 253
	// maxReadable keeps the escaped name below the 127 bytes of device-mapper, with room for the group.
	maxReadable = 24
	hashBytes   = 10
	volPrefix   = "vol-"
)

var (
	nodeForm  = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$`)
	groupForm = regexp.MustCompile(`^[a-zA-Z0-9+_.][a-zA-Z0-9+_.-]{0,126}$`)
	nameForm  = regexp.MustCompile(`^((pvc|snap)-` + uuid + `|(vol|snap)-[a-z0-9-]*x[0-9a-f]{20})$`)
	volume    = regexp.MustCompile(`^pvc-` + uuid + `$`)
	snapshot  = regexp.MustCompile(`^snapshot-(` + uuid + `)$`)
)

// SnapshotPrefix begins the names of snapshots, and of nothing else.
const SnapshotPrefix = "snap-"

const uuid = `[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`

// New makes an ID, or says which part is not valid.
func New(node, group, name string) (ID, error) {
	switch {
	case len(node) > maxNode || !nodeForm.MatchString(node):
		return ID{}, fmt.Errorf("%w: node %q", ErrNotOurs, node)
	case !groupForm.MatchString(group) || group == "." || group == "..":
		return ID{}, fmt.Errorf("%w: volume group %q", ErrNotOurs, group)
	case !IsName(name):
		return ID{}, fmt.Errorf("%w: volume name %q", ErrNotOurs, name)
	}
	return ID{Node: node, Group: group, Name: name}, nil
}

// IsName reports whether a logical volume of ours can have a name.
func IsName(name string) bool { return len(name) <= 64 && nameForm.MatchString(name) }

// Parse reads a handle. Only what String makes is accepted, so that nothing else ever reaches a command.
func Parse(handle string) (ID, error) {
	node, rest, ok := strings.Cut(handle, "/")
	group, name, ok2 := strings.Cut(rest, "/")
	if !ok || !ok2 {
		return ID{}, fmt.Errorf("%w: %.300q", ErrNotOurs, handle)
	}
	return New(node, group, name)
}

// String is the handle.
func (id ID) String() string { return id.Node + "/" + id.Group + "/" + id.Name }

// IsSnapshot reports whether the ID is one of a snapshot.
func (id ID) IsSnapshot() bool { return strings.HasPrefix(id.Name, SnapshotPrefix) }

// Tag is the LVM tag of the volume.
func (id ID) Tag() string { return Tag + id.String() }

// Name makes the name in LVM of the volume that the orchestrator calls coName, always the same one. "pvc-" and a UUID, as
// Kubernetes has it, stay; of any other name a readable part stays, and a hash tells it apart.
func Name(coName string) string {
	if volume.MatchString(coName) {
		return coName
	}
	return hashed(volPrefix, coName)
}

// Snapshot is Name for snapshots. A snapshot never has the name of a volume; LVM does not take names that begin with "snapshot".
func Snapshot(coName string) string {
	if m := snapshot.FindStringSubmatch(coName); m != nil {
		return SnapshotPrefix + m[1]
	}
	return hashed(SnapshotPrefix, coName)
}

// hashed is the prefix, what can be read of the name, and 80 bits of its hash.
func hashed(prefix, coName string) string {
	sum := sha256.Sum256([]byte(coName))
	readable := strings.Trim(strings.Map(readableRune, strings.ToLower(coName)), "-")
	if len(readable) > maxReadable {
		readable = strings.Trim(readable[:maxReadable], "-")
	}
	if readable != "" {
		readable += "-"
	}
	return prefix + readable + "x" + hex.EncodeToString(sum[:hashBytes])
}

func readableRune(r rune) rune {
	switch {
	case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
		return r
	case r == '-', r == '_', r == '.', r == ' ', r == '/':
		return '-'
	}
	return -1
}
