package mount

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/pkg/filesystem"
)

// ErrOption means that a mount option is not one of those that are taken.
var ErrOption = filesystem.ErrOption

// Options are checked mount options.
type Options struct {
	// ReadOnly mounts so that nothing can be written.
	ReadOnly bool

	flags uintptr
	data  []string
}

// flag is a mount option that the kernel takes as a bit.
type flag struct {
	set, clear uintptr
	// perMount is true when it belongs to the mount, not to the filesystem.
	perMount bool
}

const atime = unix.MS_NOATIME | unix.MS_RELATIME | unix.MS_STRICTATIME

// mountFlags are the bits of filesystem.MountFlags, which are taken for every filesystem.
var mountFlags = map[string]flag{
	"defaults":    {},
	"rw":          {clear: unix.MS_RDONLY, perMount: true},
	"ro":          {set: unix.MS_RDONLY, perMount: true},
	"nosuid":      {set: unix.MS_NOSUID, perMount: true},
	"nodev":       {set: unix.MS_NODEV, perMount: true},
	"noexec":      {set: unix.MS_NOEXEC, perMount: true},
	"noatime":     {set: unix.MS_NOATIME, clear: atime, perMount: true},
	"relatime":    {set: unix.MS_RELATIME, clear: atime, perMount: true},
	"strictatime": {set: unix.MS_STRICTATIME, clear: atime, perMount: true},
	"nodiratime":  {set: unix.MS_NODIRATIME, perMount: true},
	"lazytime":    {set: unix.MS_LAZYTIME},
	"sync":        {set: unix.MS_SYNCHRONOUS},
	"async":       {clear: unix.MS_SYNCHRONOUS},
	"dirsync":     {set: unix.MS_DIRSYNC},
	"silent":      {set: unix.MS_SILENT},
}

// ParseOptions checks mount options for a filesystem. One entry may hold several, joined by commas; each is checked.
func ParseOptions(fsType string, options []string) (Options, error) {
	var out Options
	for _, entry := range options {
		for o := range strings.SplitSeq(entry, ",") {
			if err := out.add(fsType, o); err != nil {
				return Options{}, err
			}
		}
	}
	out.ReadOnly = out.flags&unix.MS_RDONLY != 0
	return out, nil
}

func (o *Options) add(fsType, option string) error {
	if f, ok := mountFlags[option]; ok {
		o.flags = o.flags&^f.clear | f.set
		return nil
	}
	if err := filesystem.CheckMountOption(fsType, option); err != nil {
		return err
	}
	o.AddData(option)
	return nil
}

// AddData adds an option of the filesystem that the caller itself chose.
func (o *Options) AddData(option string) {
	if !slices.Contains(o.data, option) {
		o.data = append(o.data, option)
	}
}

// AddDefault adds an option of the filesystem, unless the options say something about it already: "discard=async" counts as said where there is
// "discard", "discard=sync" or "nodiscard".
func (o *Options) AddDefault(option string) {
	name, _, _ := strings.Cut(option, "=")
	for _, have := range o.data {
		if said, _, _ := strings.Cut(have, "="); said == name || said == "no"+name {
			return
		}
	}
	o.AddData(option)
}

// bits are the flags for the kernel.
func (o Options) bits() uintptr {
	if o.ReadOnly {
		return o.flags | unix.MS_RDONLY
	}
	return o.flags
}
