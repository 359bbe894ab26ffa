package filesystem

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// MountFlags are the mount options that the kernel takes for every filesystem. suid and dev are not there: they would give back what another
// option took.
var MountFlags = []string{
	"defaults", "rw", "ro", "nosuid", "nodev", "noexec", "noatime", "relatime", "strictatime", "nodiratime", "lazytime", "sync", "async",
	"dirsync", "silent",
}

const (
	number = `[0-9]{1,10}`
	size   = `[0-9]{1,10}[kKmMgG]?`
	plain  = ""
)

// dataOptions are taken for one filesystem, with the form of their value. None of them names another device or file.
var dataOptions = map[string]map[string]string{
	Ext4: {
		"acl": plain, "noacl": plain, "user_xattr": plain, "nouser_xattr": plain, "discard": plain, "nodiscard": plain,
		"delalloc": plain, "nodelalloc": plain, "journal_checksum": plain, "journal_async_commit": plain, "dioread_nolock": plain,
		"barrier": `[01]`, "nobarrier": plain, "noauto_da_alloc": plain, "auto_da_alloc": plain, "block_validity": plain,
		"commit": number, "stripe": number, "inode_readahead_blks": number, "max_batch_time": number, "min_batch_time": number,
		"data": `journal|ordered|writeback`, "errors": `continue|remount-ro|panic`, "data_err": `abort|ignore`,
		"init_itable": number, "noinit_itable": plain, "noload": plain, "quota": plain, "prjquota": plain, "usrquota": plain,
		"grpquota": plain,
	},
	XFS: {
		"nouuid": plain, "discard": plain, "nodiscard": plain, "inode64": plain, "inode32": plain, "largeio": plain,
		"nolargeio": plain, "noalign": plain, "swalloc": plain, "wsync": plain, "norecovery": plain, "noquota": plain,
		"uquota": plain, "gquota": plain, "pquota": plain, "prjquota": plain, "usrquota": plain, "grpquota": plain,
		"allocsize": size, "logbsize": size, "logbufs": number, "sunit": number, "swidth": number,
	},
	Btrfs: {
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

// CheckMountOption refuses a mount option that is not taken for a filesystem.
func CheckMountOption(fsType, option string) error {
	if slices.Contains(MountFlags, option) {
		return nil
	}
	name, value, _ := strings.Cut(option, "=")
	form := valueForms[fsType][name]
	if form == nil || !form.MatchString(value) || strings.HasSuffix(option, "=") {
		return fmt.Errorf("mount %w: %.100q for %s", ErrOption, option, fsType)
	}
	return nil
}

// readOnly are mount options with which nothing can be written, or with which a filesystem is mounted read-only. A new volume would be of no use.
var readOnly = []string{"ro", "noload", "norecovery"}

// CheckClassOptions refuses mount options that no StorageClass may have: those that are not taken, and those that only one pod may want.
func CheckClassOptions(fsType string, options []string) error {
	for _, o := range options {
		if slices.Contains(readOnly, o) {
			return fmt.Errorf("mount %w: %q in a StorageClass: nothing could be written; a pod asks for it with readOnly", ErrOption, o)
		}
		if err := CheckMountOption(fsType, o); err != nil {
			return err
		}
	}
	return nil
}
