package sharedvolume

import (
	"fmt"
	"strings"

	"quarry.storage/quarry/pkg/quarry"
)

// Keys of the attributes that a PersistentVolume of ours carries (spec.csi.volumeAttributes). They are written once, at creation, and
// outrank what the Nfs says later. For its own calls the controller takes the mount options of now: pods keep theirs. A StorageClass has an annotation of
// the name of KeyMountOptions, which says something else (v1alpha1.AnnotationMountOptions).
const (
	KeyServer       = quarry.Group + "/server"
	KeyPath         = quarry.Group + "/path"
	KeyMountOptions = quarry.Group + "/mount-options"
	KeyDirectory    = quarry.Group + "/directory"
	KeyOnDelete     = quarry.Group + "/on-delete"
	KeyShareID      = quarry.Group + "/share-id"
)

// Attributes record where a volume is and what becomes of it.
type Attributes struct {
	// Server and Path are those of the share.
	Server, Path string
	// MountOptions are those of the Nfs, each without a comma.
	MountOptions []string
	// Directory is relative to the root of the share.
	Directory string
	// OnDelete is the policy.
	OnDelete Policy
	// ShareID is the identity that is written on the share; empty where it was not known.
	ShareID string
}

// Map writes the attributes as a PersistentVolume has them.
func (a Attributes) Map() map[string]string {
	out := map[string]string{KeyServer: a.Server, KeyPath: a.Path, KeyDirectory: a.Directory, KeyOnDelete: string(a.OnDelete)}
	if len(a.MountOptions) > 0 {
		out[KeyMountOptions] = strings.Join(a.MountOptions, ",")
	}
	if a.ShareID != "" {
		out[KeyShareID] = a.ShareID
	}
	return out
}

// ParseAttributes reads and checks the attributes of a volume. Keys that are not ours are left alone: the orchestrator adds its own.
func ParseAttributes(m map[string]string) (Attributes, error) {
	a := Attributes{Server: m[KeyServer], Path: m[KeyPath], Directory: m[KeyDirectory], ShareID: m[KeyShareID]}
	if text := m[KeyMountOptions]; text != "" {
		a.MountOptions = strings.Split(text, ",")
	}
	if m[KeyOnDelete] == "" {
		return Attributes{}, fmt.Errorf("attribute %s is missing: %w", KeyOnDelete, ErrInvalid)
	}
	var err error
	if a.OnDelete, err = ParsePolicy(m[KeyOnDelete]); err != nil {
		return Attributes{}, err
	}
	return a, a.Check()
}

// Check refuses attributes that no volume of ours has.
func (a Attributes) Check() error {
	if _, err := Host(a.Server); err != nil {
		return err
	}
	if err := CheckPath(a.Path); err != nil {
		return err
	}
	if _, err := ParseOptions(a.MountOptions); err != nil {
		return err
	}
	if err := CheckShareID(a.ShareID); err != nil {
		return err
	}
	return CheckDirectory(a.Directory)
}

// CheckShareID refuses what is neither empty nor an identity as the agent writes it on a share.
func CheckShareID(id string) error {
	if id != "" && !ownerForm.MatchString(id) {
		return fmt.Errorf("share id %.100q is not a UUID: %w", id, ErrInvalid)
	}
	return nil
}
