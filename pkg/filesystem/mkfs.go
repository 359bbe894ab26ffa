package filesystem

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// ErrOption means that an option of mkfs or mount is not one of those that are taken.
var ErrOption = errors.New("option is not allowed")

// Option is one option of a program that makes a filesystem.
type Option struct {
	// Flag begins with a hyphen.
	Flag string
	// Value is empty for an option that has none. Several are joined by commas.
	Value string
}

const (
	decimal = `[0-9]{1,12}`
	amount  = `[0-9]{1,12}[kmgKMG]?`
	onOff   = `[01]`
)

// mkfsOptions are taken for one filesystem: by flag, the forms of the items of its value. None names a device, a file, a label or a UUID, none
// forces or discards, and none makes what a kernel in use could refuse without this being known here.
var mkfsOptions = map[string]map[string]string{
	Ext4: {
		"-b": `1024|2048|4096`, "-i": decimal, "-I": `256|512|1024`, "-N": decimal, "-m": `[0-9]{1,2}([.][0-9]{1,2})?`,
		"-J": `size=` + decimal, "-T": `small|news|largefile|largefile4|big|huge`, "-g": decimal, "-G": decimal,
		"-E": `(stride|stripe_width|resize|num_backup_sb)=` + decimal + `|lazy_itable_init=` + onOff + `|packed_meta_blocks=` + onOff,
		"-O": `\^?(bigalloc|dir_index|dir_nlink|ea_inode|extra_isize|flex_bg|has_journal|huge_file|inline_data|large_dir|metadata_csum|` +
			`project|quota|resize_inode|sparse_super2|uninit_bg|64bit)`,
		"-C": amount,
	},
	XFS: {
		"-b": `size=` + amount, "-d": `(agcount|agsize|su|sw|sunit|swidth)=` + amount, "-l": `(size|su|sunit)=` + amount + `|lazy-count=` + onOff,
		"-i": `(size|maxpct|perblock)=` + decimal + `|(sparse|nrext64)=` + onOff, "-n": `size=` + amount + `|ftype=1`,
		"-m": `(bigtime|finobt|inobtcount|reflink|rmapbt)=` + onOff,
	},
	Btrfs: {
		"-d": `single|dup`, "-m": `single|dup`, "-n": amount, "-s": decimal, "-M": ``, "--csum": `crc32c|xxhash|sha256|blake2`,
		"-O": `\^?(block-group-tree|free-space-tree|mixed-bg|no-holes|quota|squota|skinny-metadata|extref)`,
	},
}

var mkfsForms = func() map[string]map[string]*regexp.Regexp {
	out := map[string]map[string]*regexp.Regexp{}
	for fsType, flags := range mkfsOptions {
		out[fsType] = map[string]*regexp.Regexp{}
		for flag, form := range flags {
			out[fsType][flag] = regexp.MustCompile(`^(?:` + form + `)$`)
		}
	}
	return out
}()

// ParseMkfsOptions checks options of mkfs for a filesystem. Each is a flag and, after a space, its value: "-i 65536".
func ParseMkfsOptions(fsType string, options []string) ([]Option, error) {
	var out []Option
	for _, text := range options {
		flag, value, _ := strings.Cut(text, " ")
		form := mkfsForms[fsType][flag]
		items := strings.Split(value, ",")
		if form == nil || slices.ContainsFunc(items, func(item string) bool { return !form.MatchString(item) }) {
			return nil, fmt.Errorf("mkfs %w: %.100q for %s", ErrOption, text, fsType)
		}
		out = append(out, Option{Flag: flag, Value: value})
	}
	return out, nil
}

// separator stands between options that are joined to one text. No option has it.
const separator = "; "

// JoinOptions makes one text of options of mkfs.
func JoinOptions(options []string) string { return strings.Join(options, separator) }

// SplitOptions takes such a text apart.
func SplitOptions(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, separator)
}
