package server

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"

	"quarry.storage/quarry/agent/internal/plan"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// maxDevices bounds the devices of one request, maxField the length of a path or serial number.
const (
	maxDevices = 512
	maxField   = 512
)

var (
	// groupName are the names that LVM takes, without those it reserves.
	groupName = regexp.MustCompile(`^[A-Za-z0-9_+][A-Za-z0-9_+.-]{0,126}$`)
	// ownerUID are the UIDs of Kubernetes objects; they go into an LVM tag.
	ownerUID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]{0,62}$`)
)

// Resolver follows the links of a device path. It answers an error that is fs.ErrNotExist when the path leads to nothing.
type Resolver func(path string) (string, error)

// ResolveLinks follows links on the file system of this process.
func ResolveLinks(path string) (string, error) { return filepath.EvalSymlinks(path) }

// validGroup checks the name and the owner of a group.
func validGroup(name, owner string) error {
	if !groupName.MatchString(name) {
		return fmt.Errorf("group name %q: %w", name, errInvalid)
	}
	if !ownerUID.MatchString(owner) {
		return fmt.Errorf("owner uid %q: %w", owner, errInvalid)
	}
	return nil
}

// validIdentities converts the devices of a request.
func validIdentities(in []*agentv1.DeviceIdentity, digestRequired bool) ([]plan.Identity, error) {
	if len(in) > maxDevices {
		return nil, fmt.Errorf("%d devices, at most %d are taken: %w", len(in), maxDevices, errInvalid)
	}
	out := make([]plan.Identity, 0, len(in))
	for _, d := range in {
		id := plan.Identity{
			Path: d.GetPath(), WWN: d.GetWwn(), Serial: d.GetSerial(), SizeBytes: d.GetSizeBytes(), Digest: d.GetDigest(),
		}
		if err := validIdentity(id, digestRequired); err != nil {
			return nil, err
		}
		out = append(out, id)
	}
	return out, nil
}

func validIdentity(id plan.Identity, digestRequired bool) error {
	if err := validPath(id.Path); err != nil {
		return err
	}
	if id.SizeBytes <= 0 {
		return fmt.Errorf("device %s: size_bytes is %d: %w", id.Path, id.SizeBytes, errInvalid)
	}
	if digestRequired && id.Digest == "" {
		return fmt.Errorf("device %s: digest is required: %w", id.Path, errInvalid)
	}
	for _, field := range []string{id.WWN, id.Serial, id.Digest} {
		if len(field) > maxField || strings.ContainsFunc(field, unicode.IsControl) {
			return fmt.Errorf("device %s: wwn, serial or digest is too long or holds control characters: %w", id.Path, errInvalid)
		}
	}
	return nil
}

// validPath takes a clean absolute path below /dev that no command can read as an option.
func validPath(path string) error {
	ok := strings.HasPrefix(path, "/dev/") && path == filepath.Clean(path) && len(path) <= maxField &&
		!strings.ContainsFunc(path, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) })
	for _, element := range strings.Split(path, "/") {
		ok = ok && element != ".." && !strings.HasPrefix(element, "-")
	}
	if !ok {
		return fmt.Errorf("device path %q: %w", path, errInvalid)
	}
	return nil
}

// deviceKeys are the keys of the locks on the devices. A device that must be present, and is not, is plan.ErrNotFound.
func deviceKeys(resolve Resolver, ids []plan.Identity, present bool) ([]string, error) {
	keys := make([]string, 0, len(ids))
	for _, id := range ids {
		target, err := resolve(id.Path)
		switch {
		case errors.Is(err, fs.ErrNotExist) && present:
			return nil, fmt.Errorf("device %s: %w", id.Path, plan.ErrNotFound)
		case errors.Is(err, fs.ErrNotExist):
			target = id.Path
		case err != nil:
			return nil, fmt.Errorf("device %s: %w", id.Path, err)
		case !strings.HasPrefix(target, "/dev/"):
			return nil, fmt.Errorf("device path %q leads to %s: %w", id.Path, target, errInvalid)
		}
		keys = append(keys, "device "+target)
	}
	return keys, nil
}
