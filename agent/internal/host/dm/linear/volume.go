package linear

import (
	"fmt"
	"regexp"
	"strings"
)

const (
	// prefix begins the names and the UUIDs. Those of LVM's devices have one single hyphen in the name, and begin with "LVM-" in the UUID.
	prefix = "quarry-"
	// suffixNew ends those of the device of what is new at the end of a volume.
	suffixNew = "-new"
	// suffixSource ends those of the device of what a volume is copied from.
	suffixSource = "-source"
)

var uuidForm = regexp.MustCompile(`^[a-zA-Z0-9]{6}(-[a-zA-Z0-9]{4}){5}-[a-zA-Z0-9]{6}$`)

// Volume says whose device is meant.
type Volume struct {
	// Group and UUID are LVM's UUIDs of the group and of the volume.
	Group, UUID string
	// New is true for the device of only what is new at the end of the volume: nobody sees that yet, and it is zeroed through this device.
	New bool
	// Source is true for the device of what the volume is copied from: it is read-only, and nobody sees it.
	Source bool
}

func (v Volume) check() error {
	if !uuidForm.MatchString(v.Group) || !uuidForm.MatchString(v.UUID) || v.New && v.Source {
		return fmt.Errorf("%w: volume %q of group %q", ErrInvalid, v.UUID, v.Group)
	}
	return nil
}

// name is device-mapper's name of the device, uuid its UUID.
func (v Volume) name() string { return prefix + v.UUID + v.suffix() }
func (v Volume) uuid() string { return prefix + v.Group + "-" + v.UUID + v.suffix() }

func (v Volume) suffix() string {
	switch {
	case v.New:
		return suffixNew
	case v.Source:
		return suffixSource
	}
	return ""
}

// VolumeOf reads the UUID that device-mapper has of a device, and reports whether it is one of this package.
func VolumeOf(uuid string) (Volume, bool) {
	const length = 38
	rest, ok := strings.CutPrefix(uuid, prefix)
	rest, isNew := strings.CutSuffix(rest, suffixNew)
	rest, isSource := strings.CutSuffix(rest, suffixSource)
	if !ok || len(rest) != 2*length+1 {
		return Volume{}, false
	}
	v := Volume{Group: rest[:length], UUID: rest[length+1:], New: isNew, Source: isSource}
	return v, v.check() == nil && v.uuid() == uuid
}
