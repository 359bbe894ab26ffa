package cephvolume

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"quarry.storage/quarry/pkg/cephname"
	"quarry.storage/quarry/pkg/quarry"
)

// Keys of the attributes that a PersistentVolume of ours carries (spec.csi.volumeAttributes).
const (
	// KeyPath is where the volume is in the filesystem. It is written once, and never changes.
	KeyPath = quarry.Group + "/ceph-path"
	// KeyMonitors are the monitors when the volume was made. Those in the Secret of the clients outrank them: monitors move.
	KeyMonitors = quarry.Group + "/ceph-monitors"
)

// Attributes record where a volume is.
type Attributes struct {
	// Path from the root of the filesystem.
	Path string
	// Monitors as "10.0.0.1:3300"; empty where they were not known.
	Monitors []string
}

var pathForm = regexp.MustCompile(`^` + regexp.QuoteMeta(cephname.GroupPath) + `/([a-z0-9-]+)/` + uuid + `$`)

// Map writes the attributes as a PersistentVolume has them.
func (a Attributes) Map() map[string]string {
	out := map[string]string{KeyPath: a.Path}
	if len(a.Monitors) > 0 {
		out[KeyMonitors] = strings.Join(a.Monitors, ",")
	}
	return out
}

// ParseAttributes reads and checks the attributes of a volume. Keys that are not ours are left alone: the orchestrator adds its own.
func ParseAttributes(id ID, m map[string]string) (Attributes, error) {
	a := Attributes{Path: m[KeyPath]}
	if err := CheckPath(id, a.Path); err != nil {
		return Attributes{}, err
	}
	var err error
	a.Monitors, err = parseMonitors(m[KeyMonitors])
	return a, err
}

// CheckPath refuses a path that is not the one of a subvolume: "/volumes/quarry/NAME/UUID".
func CheckPath(id ID, path string) error {
	m := pathForm.FindStringSubmatch(path)
	if m == nil || m[1] != id.Name {
		return fmt.Errorf("path %.200q is not one of volume %s: %w", path, id.Name, ErrInvalid)
	}
	return nil
}

// maxMonitors bounds what a mount is given.
const maxMonitors = 16

// parseMonitors reads addresses with ports, joined by commas.
func parseMonitors(text string) ([]string, error) {
	if text == "" {
		return nil, nil
	}
	list := strings.Split(text, ",")
	if len(list) > maxMonitors {
		return nil, fmt.Errorf("%d monitors: %w", len(list), ErrInvalid)
	}
	for i := range list {
		list[i] = strings.TrimSpace(list[i])
		at, err := netip.ParseAddrPort(list[i])
		if err != nil || at.Port() == 0 || at.Addr().Zone() != "" {
			return nil, fmt.Errorf("monitor %.100q is no address with a port: %w", list[i], ErrInvalid)
		}
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}
