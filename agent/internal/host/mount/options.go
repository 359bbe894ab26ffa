package mount

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/pkg/filesystem"
)

// ErrOption means that a mount option is not one of those that are taken.
var ErrOption = errors.New("mount option is not allowed")

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

// mountFlags are taken for every filesystem. suid and dev are not there: they would give back what another option took.
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

const (
	number = `[0-9]{1,10}`
	size   = `[0-9]{1,10}[kKmMgG]?`
	plain  = ""
)

// dataOptions are taken for one filesystem, with the form of their value. None of them names another device or file.
var dataOptions = map[string]map[string]string{
	filesystem.Ext4: {
		"acl": plain, "noacl": plain, "user_xattr": plain, "nouser_xattr": plain, "discard": plain, "nodiscard": plain,
		"delalloc": plain, "nodelalloc": plain, "journal_checksum": plain, "journal_async_commit": plain, "dioread_nolock": plain,
		"barrier": `[01]`, "nobarrier": plain, "noauto_da_alloc": plain, "auto_da_alloc": plain, "block_validity": plain,
		"commit": number, "stripe": number, "inode_readahead_blks": number, "max_batch_time": number, "min_batch_time": number,
		"data": `journal|ordered|writeback`, "errors": `continue|remount-ro|panic`, "data_err": `abort|ignore`,
		"init_itable": number, "noinit_itable": plain, "noload": plain, "quota": plain, "prjquota": plain, "usrquota": plain,
		"grpquota": plain,
	},
	filesystem.XFS: {
		"nouuid": plain, "discard": plain, "nodiscard": plain, "inode64": plain, "inode32": plain, "largeio": plain,
		"nolargeio": plain, "noalign": plain, "swalloc": plain, "wsync": plain, "norecovery": plain, "noquota": plain,
		"uquota": plain, "gquota": plain, "pquota": plain, "prjquota": plain, "usrquota": plain, "grpquota": plain,
		"allocsize": size, "logbsize": size, "logbufs": number, "sunit": number, "swidth": number,
	},
	filesystem.Btrfs: {
		"acl": plain, "noacl": plain, "autodefrag": plain, "noautodefrag": plain, "barrier": plain, "nobarrier": plain,
		"compress": `zlib(:[1-9])?|lzo|zstd(:[0-9]{1,2})?|no`, "compress-force": `zlib(:[1-9])?|lzo|zstd(:[0-9]{1,2})?|no`,
		"datacow": plain, "nodatacow": plain, "datasum": plain, "nodatasum": plain, "discard": `(sync|async)?`, "nodiscard": plain,
		"flushoncommit": plain, "noflushoncommit": plain, "space_cache": `v1|v2`, "ssd": plain, "nossd": plain,
		"ssd_spread": plain, "commit": number, "max_inline": size, "thread_pool": number, "treelog": plain, "notreelog": plain,
	},
}

var valueForms = compile()

func compile() map[string]map[string]*regexp.Regexp {
	out := map[string]map[string]*regexp.Regexp{}
	for fsType, options := range dataOptions {
		out[fsType] = map[string]*regexp.Regexp{}
		for name, form := range options {
			out[fsType][name] = regexp.MustCompile(`^(?:` + form + `)$`)
		}
	}
	return out
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
	name, value, _ := strings.Cut(option, "=")
	form := valueForms[fsType][name]
	if form == nil || !form.MatchString(value) || strings.HasSuffix(option, "=") {
		return fmt.Errorf("%w: %.100q for %s", ErrOption, option, fsType)
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

// bits are the flags for the kernel.
func (o Options) bits() uintptr {
	if o.ReadOnly {
		return o.flags | unix.MS_RDONLY
	}
	return o.flags
}
