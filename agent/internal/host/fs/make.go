package fs

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"quarry.storage/quarry/agent/internal/host/run"
	"quarry.storage/quarry/pkg/filesystem"
)

// Make says how a filesystem is made.
type Make struct {
	// Type of the filesystem.
	Type string
	// UUID that it gets. The program chooses one when it is empty.
	UUID string
	// Zeroed is true on a device that shows zeroes where nobody wrote, as thin volumes do.
	Zeroed bool
	// Options are those of mkfs that a person chose, as package filesystem takes them. They outrank those of this package.
	Options []string
}

// program is what makes one kind of filesystem. None discards, which takes long on slow disks and is of no use on a fresh volume, and none
// has an option to overwrite what it finds.
type program struct {
	path string
	// version tells the version of the program, for those features that a newer one turns on by itself.
	version []string
	args    func(Make) []filesystem.Option
	// features that an older kernel does not mount.
	features []feature
}

var programs = map[string]program{
	Ext4: {
		path: "/usr/sbin/mkfs.ext4", version: []string{"-V"}, args: ext4Args,
		features: []feature{{flag: "-O", off: "^orphan_file", kernel: release{5, 15}, program: release{1, 47}}},
	},
	XFS: {path: "/usr/sbin/mkfs.xfs", version: []string{"-V"}, args: xfsArgs, features: xfsFeatures},
	Btrfs: {path: "/usr/sbin/mkfs.btrfs", args: func(m Make) []filesystem.Option {
		return append([]filesystem.Option{{Flag: "-q"}, {Flag: "-K"}}, valued("-U", m.UUID)...)
	}},
}

// ext4Args: an error makes the filesystem read-only, since going on would spread it. The journal is written out where the device may show what
// others wrote, so that nothing of it is ever taken for a transaction; that is at most 1 GiB. Where the device shows zeroes, it would only
// fill the thin pool. The tables of inodes are initialised by the kernel in the background: their checksums tell what counts, and writing them all
// is 1.6 % of the volume. Where the device shows zeroes, nobody writes them: see prezeroed.
func ext4Args(m Make) []filesystem.Option {
	lazy := "lazy_journal_init=0"
	if m.Zeroed {
		lazy = "lazy_journal_init=1"
	}
	return append([]filesystem.Option{
		{Flag: "-q"},
		{Flag: "-m", Value: "0"},
		{Flag: "-e", Value: "remount-ro"},
		{Flag: "-E", Value: "lazy_itable_init=1," + lazy + ",nodiscard"},
	}, valued("-U", m.UUID)...)
}

func xfsArgs(m Make) []filesystem.Option {
	out := []filesystem.Option{{Flag: "-q"}, {Flag: "-K"}}
	if m.UUID != "" {
		out = append(out, filesystem.Option{Flag: "-m", Value: "uuid=" + m.UUID})
	}
	return out
}

func valued(flag, value string) []filesystem.Option {
	if value == "" {
		return nil
	}
	return []filesystem.Option{{Flag: flag, Value: value}}
}

// Supported reports whether a filesystem of this type can be made.
func Supported(fsType string) bool {
	_, ok := programs[fsType]
	return ok
}

// Format makes a filesystem on a device that holds nothing. It looks itself, just before.
func (t *Tool) Format(ctx context.Context, device string, m Make) error {
	p, ok := programs[m.Type]
	if !ok {
		return fmt.Errorf("format %s: %w: %.100q", device, ErrUnsupported, m.Type)
	}
	chosen, err := filesystem.ParseMkfsOptions(m.Type, m.Options)
	if err != nil {
		return fmt.Errorf("format %s: %w", device, err)
	}
	off, err := t.disabled(ctx, m.Type, p)
	if err != nil {
		return fmt.Errorf("format %s: %w", device, err)
	}
	spared, err := t.prezeroed(ctx, m, p, chosen)
	if err != nil {
		return fmt.Errorf("format %s: %w", device, err)
	}
	have, err := t.Probe(ctx, device)
	if err != nil {
		return fmt.Errorf("format: %w", err)
	}
	if have != "" {
		return fmt.Errorf("format %s: %w: it holds %s", device, ErrNotEmpty, have)
	}
	cmd := run.Command{Path: p.path, Args: append(arguments(p.args(m), spared, off, chosen), device)}
	if _, err := t.runner.Run(ctx, cmd); err != nil {
		return fmt.Errorf("format: %w", err)
	}
	return nil
}

// arguments joins options; later ones outrank earlier ones. Options with a list of values are given once, because some of the programs take the
// last list only, and refuse a key that comes twice.
func arguments(all ...[]filesystem.Option) []string {
	var flags []string
	values := map[string][]string{}
	for _, o := range slices.Concat(all...) {
		if !slices.Contains(flags, o.Flag) {
			flags = append(flags, o.Flag)
		}
		if o.Value == "" {
			continue
		}
		for item := range strings.SplitSeq(o.Value, ",") {
			values[o.Flag] = slices.DeleteFunc(values[o.Flag], func(have string) bool { return key(have) == key(item) })
			values[o.Flag] = append(values[o.Flag], item)
		}
	}
	var out []string
	for _, f := range flags {
		if out = append(out, f); len(values[f]) > 0 {
			out = append(out, strings.Join(values[f], ","))
		}
	}
	return out
}

// key is what an item of a list is about: the name before its value, or a feature without the sign that turns it off. A value without a name,
// such as the size of a block, is about the option itself.
func key(item string) string {
	name, _, named := strings.Cut(item, "=")
	switch {
	case named:
		return name
	case name != "" && name[0] >= '0' && name[0] <= '9':
		return ""
	}
	return strings.TrimPrefix(name, "^")
}
