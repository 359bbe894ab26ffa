package lun

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/agent/internal/host/dm/linear"
	"quarry.storage/quarry/pkg/sharedlun"
)

// Holders are what is built on a LUN. The map over its paths is no use of it.
func (u HostUses) Holders(l sharedlun.Lun) ([]string, error) {
	own, out := devices(l), []string{}
	stale, err := u.stale(l)
	if err != nil {
		return nil, err
	}
	own = slices.Compact(slices.Sorted(slices.Values(append(own, stale...))))
	for _, name := range own {
		family, err := u.family(name)
		if err != nil {
			return nil, err
		}
		for _, h := range family[0].Holders {
			if !slices.Contains(own, h) {
				out = append(out, h)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// Volume reads which volume a device stands for.
func (u HostUses) Volume(device string) (uuid string, err error) {
	text, err := os.ReadFile(filepath.Join(u.Sys, "class/block", device, "dm/uuid"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("device %s: %w", device, err)
	}
	v, _ := linear.VolumeOf(strings.TrimSpace(string(text)))
	return v.UUID, nil
}

// stale are maps of a LUN that none of its paths is a part of. multipathd puts the next path into them, and then what is built on them writes again.
func (u HostUses) stale(l sharedlun.Lun) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(u.Sys, "class/block"))
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(u.Sys, "class/block", e.Name(), "dm/uuid"))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ENODEV) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("device %s: %w", e.Name(), err)
		}
		wwid, joins := strings.CutPrefix(strings.TrimSpace(string(text)), mapPrefix)
		if !joins {
			continue
		}
		paths, err := os.ReadDir(filepath.Join(u.Sys, "class/block", e.Name(), "slaves"))
		if err != nil {
			return nil, fmt.Errorf("device %s: %w", e.Name(), err)
		}
		if mapOf(l, wwid, len(paths) == 0) {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

// mapPrefix begins the UUIDs of maps in device-mapper. The WWID in multipathd's words follows.
const mapPrefix = "mpath-"

// mapOf reports whether a map with multipathd's WWID may be that of a LUN. multipathd writes those of hexadecimal digits as the kernel does, after a digit for
// their kind; of others it is not known, so that each one without paths may be it.
func mapOf(l sharedlun.Lun, multipath string, empty bool) bool {
	kind, digits, _ := strings.Cut(l.WWID, ".")
	if kind == "naa" || kind == "eui" {
		return len(multipath) > 1 && strings.EqualFold(multipath[1:], digits)
	}
	return empty
}
