package fs

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/agent/internal/host/run"
	"quarry.storage/quarry/pkg/filesystem"
)

// release is the version of a kernel or of a program.
type release [2]int

func (r release) before(other release) bool {
	return r[0] < other[0] || r[0] == other[0] && r[1] < other[1]
}

// feature of a filesystem that programs turn on by themselves from some version on, and that kernels before some version do not mount.
type feature struct {
	// flag and off turn it off.
	flag, off string
	// kernel is the first that mounts it, and program the first that knows the option.
	kernel, program release
}

// xfsFeatures are turned off where the configuration files of xfsprogs for kernels of that age (mkfs/lts_*.conf) turn them off.
var xfsFeatures = []feature{
	{flag: "-m", off: "reflink=0", kernel: release{5, 4}, program: release{4, 9}},
	{flag: "-m", off: "rmapbt=0", kernel: release{5, 4}, program: release{4, 8}},
	{flag: "-m", off: "bigtime=0", kernel: release{5, 15}, program: release{5, 11}},
	{flag: "-m", off: "inobtcount=0", kernel: release{5, 15}, program: release{5, 11}},
	{flag: "-m", off: "metadir=0", kernel: release{6, 18}, program: release{6, 13}},
	{flag: "-i", off: "nrext64=0", kernel: release{6, 6}, program: release{5, 19}},
	{flag: "-i", off: "exchange=0", kernel: release{6, 18}, program: release{6, 10}},
	{flag: "-n", off: "parent=0", kernel: release{6, 18}, program: release{6, 10}},
}

// versions are what was asked once: neither the kernel nor a program changes while the agent runs.
type versions struct {
	// kernel tells the release of the running kernel; this machine's when it is nil.
	kernel func() (string, error)

	mu       sync.Mutex
	programs map[string]release
}

var versionForm = regexp.MustCompile(`(?:^|[ v])([0-9]+)\.([0-9]+)`)

func readRelease(text string) (release, error) {
	m := versionForm.FindStringSubmatch(text)
	if m == nil {
		return release{}, fmt.Errorf("no version in %.100q", text)
	}
	major, err := strconv.Atoi(m[1])
	if err != nil {
		return release{}, err
	}
	minor, err := strconv.Atoi(m[2])
	return release{major, minor}, err
}

// disabled are the options that turn off what the running kernel does not mount. A kernel that does not tell its version counts as the oldest.
func (t *Tool) disabled(ctx context.Context, fsType string, p program) ([]filesystem.Option, error) {
	kernel := t.versions.running()
	var out []filesystem.Option
	for _, f := range p.features {
		if !kernel.before(f.kernel) {
			continue
		}
		have, err := t.programVersion(ctx, fsType, p)
		if err != nil {
			return nil, err
		}
		if !have.before(f.program) {
			out = append(out, filesystem.Option{Flag: f.flag, Value: f.off})
		}
	}
	return out, nil
}

// knowsPrezeroed is the first version of mkfs.ext4 that can be told that a device holds zeroes.
var knowsPrezeroed = release{1, 47}

// prezeroed are the options with which neither mkfs nor the kernel writes the tables of inodes of an ext4 on a device that shows zeroes. Otherwise
// the kernel writes them after the first mount, which takes room in the thin pool for nothing: 1.6 % of a volume, and of a small one 6 %. What a
// person wants of these tables counts.
func (t *Tool) prezeroed(ctx context.Context, m Make, p program, chosen []filesystem.Option) ([]filesystem.Option, error) {
	wants := func(o filesystem.Option) bool { return o.Flag == "-E" && strings.Contains(o.Value, "lazy_itable_init") }
	if m.Type != Ext4 || !m.Zeroed || slices.ContainsFunc(chosen, wants) {
		return nil, nil
	}
	have, err := t.programVersion(ctx, m.Type, p)
	if err != nil || have.before(knowsPrezeroed) {
		return nil, err
	}
	return []filesystem.Option{{Flag: "-E", Value: "assume_storage_prezeroed=1"}}, nil
}

// btrfsAsyncDiscard is the first kernel that lets btrfs discard in the background. Without it, every commit waits for the discards.
var btrfsAsyncDiscard = release{5, 6}

// DiscardOption is the mount option with which a filesystem discards what its files give up, at once or soon after.
func (t *Tool) DiscardOption(fsType string) string {
	if fsType == Btrfs && !t.versions.running().before(btrfsAsyncDiscard) {
		return "discard=async"
	}
	return "discard"
}

func (v *versions) running() release {
	ask := v.kernel
	if ask == nil {
		ask = kernelRelease
	}
	text, err := ask()
	if err != nil {
		return release{}
	}
	r, err := readRelease(text)
	if err != nil {
		return release{}
	}
	return r
}

func kernelRelease() (string, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "", err
	}
	return unix.ByteSliceToString(name.Release[:]), nil
}

// programVersion asks a program for its version, once.
func (t *Tool) programVersion(ctx context.Context, fsType string, p program) (release, error) {
	v := &t.versions
	v.mu.Lock()
	defer v.mu.Unlock()
	if have, ok := v.programs[fsType]; ok {
		return have, nil
	}
	res, err := t.runner.Run(ctx, run.Command{Path: p.path, Args: p.version})
	if err != nil {
		return release{}, fmt.Errorf("version of %s: %w", p.path, err)
	}
	have, err := readRelease(string(res.Stdout) + " " + string(res.Stderr))
	if err != nil {
		return release{}, fmt.Errorf("version of %s: %w", p.path, err)
	}
	if v.programs == nil {
		v.programs = map[string]release{}
	}
	v.programs[fsType] = have
	return have, nil
}
