// Package lvm makes, changes and reports LVM volume groups with the lvm command, under a private configuration and seeing
// only the devices that it is given. It knows nothing about who owns a group or whether a change is wanted, and it never
// uses an option that skips one of LVM's own checks.
package lvm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"quarry.storage/quarry/agent/internal/host/lvm/newest"
	"quarry.storage/quarry/agent/internal/host/run"
)

// DefaultBinary is where distributions install LVM.
const DefaultBinary = "/usr/sbin/lvm"

// Config says how to run LVM.
type Config struct {
	// Runner starts the processes.
	Runner run.Runner
	// Dir becomes LVM_SYSTEM_DIR: our lvm.conf, archives and backups of metadata, and the newest states of groups are kept there. It is created.
	Dir string
	// Binary is the lvm executable; empty means DefaultBinary.
	Binary string
	// LockDir is the locking directory; empty means DefaultLockDir. It has to be the host's own, so that commands that the
	// administrator runs and ours exclude each other.
	LockDir string
	// Dev is where the nodes of devices are; empty means /dev, which is where LVM itself looks.
	Dev string
	// SystemID is what LVM is to know this host by: groups are made with it, and one that carries another is never changed. Empty means that
	// the host has none.
	SystemID string
	// WithoutDeviceMapper tells LVM that the kernel has no device-mapper: groups can be handled, nothing can be activated.
	WithoutDeviceMapper bool
}

// LVM runs LVM commands. It is safe for concurrent use; commands on one group have to be serialised by the caller.
type LVM struct {
	runner run.Runner
	binary string
	env    []string
	common []string
	dir    string
	dev    string
	host   *hostID
	// damaged are the thin pools that could not be activated.
	damaged *damages
	// looked is what was looked at of those that are active.
	looked *looks
	// newest are the states of the groups that were reported.
	newest *newest.Record
	// older is true once LVM did not know what it has learned with 2.03.12.
	older *atomic.Bool
	// version is what the binary said of itself last.
	version *atomic.Pointer[versionOf]
}

// New writes the private configuration and returns the means to use it.
func New(cfg Config) (*LVM, error) {
	if cfg.Runner == nil {
		return nil, errors.New("lvm: no runner")
	}
	if !filepath.IsAbs(cfg.Dir) {
		return nil, fmt.Errorf("lvm: directory %q is not absolute", cfg.Dir)
	}
	if cfg.Binary == "" {
		cfg.Binary = DefaultBinary
	}
	if cfg.LockDir == "" {
		cfg.LockDir = DefaultLockDir
	}
	if err := writeConfig(cfg.Dir, cfg.LockDir, cfg.SystemID); err != nil {
		return nil, fmt.Errorf("lvm configuration: %w", err)
	}
	if err := prune(cfg.Dir, time.Now()); err != nil {
		return nil, fmt.Errorf("lvm archives: %w", err)
	}
	l := &LVM{
		runner: cfg.Runner,
		binary: cfg.Binary,
		dir:    cfg.Dir,
		dev:    cmp.Or(cfg.Dev, "/dev"),
		env:    environment(cfg.Dir),
		newest: newest.New(filepath.Join(cfg.Dir, "newest")),
		host:   &hostID{want: cfg.SystemID}, damaged: &damages{}, looked: &looks{whole: map[string]time.Time{}}, older: &atomic.Bool{}, version: &atomic.Pointer[versionOf]{},
	}
	if cfg.WithoutDeviceMapper {
		l.common = []string{"--driverloaded", "n"}
	}
	return l, nil
}

// environment is what LVM is started with, to find its configuration.
func environment(dir string) []string {
	return []string{"LVM_SYSTEM_DIR=" + dir, "LVM_SUPPRESS_FD_WARNINGS=1"}
}

// Version is LVM's version, for example "2.03.16(2)". It fails when LVM does not know this host by its system ID: no command is run then.
func (l *LVM) Version(ctx context.Context) (string, error) {
	if err := l.checkHost(ctx); err != nil {
		return "", err
	}
	file, err := os.Stat(l.binary)
	if err == nil {
		if known := l.version.Load(); known != nil && os.SameFile(known.file, file) && known.file.ModTime().Equal(file.ModTime()) {
			return known.version, nil
		}
	}
	version, errVersion := l.askVersion(ctx)
	if err == nil && errVersion == nil {
		l.version.Store(&versionOf{file, version})
	}
	return version, errVersion
}

// versionOf is what a binary says of itself.
type versionOf struct {
	file    os.FileInfo
	version string
}

func (l *LVM) askVersion(ctx context.Context) (string, error) {
	// "lvm version" also asks the kernel's device-mapper for its version and fails where there is none, after the lines
	// that matter; --driverloaded spares that.
	res, err := l.runner.Run(ctx, run.Command{Path: l.binary, Args: []string{"version", "--driverloaded", "n"}, Env: l.env})
	if err != nil {
		return "", classify(err)
	}
	for line := range strings.Lines(string(res.Stdout)) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "LVM version:"); ok {
			if fields := strings.Fields(v); len(fields) > 0 {
				return fields[0], nil
			}
		}
	}
	return "", fmt.Errorf("lvm version: no version in %q", res.Stdout)
}

// modern runs a command that uses what LVM knows since 2.03.12. If LVM does not know it, the command has done nothing: it is run without, from then on
// every time.
func (l *LVM) modern(command func(modern bool) (run.Result, error)) (run.Result, error) {
	if l.older.Load() {
		return command(false)
	}
	res, err := command(true)
	var exit *run.Error
	if errors.As(err, &exit) && (strings.Contains(exit.Stderr, "Unrecognised field: "+columnAutoactivation) ||
		strings.Contains(exit.Stderr, "unrecognized option '"+optionAutoactivation+"'")) {
		l.older.Store(true)
		return command(false)
	}
	return res, err
}

// run performs one LVM command that sees exactly the given devices. Standard input is empty, so that every question LVM asks
// is answered with its default, which is no.
func (l *LVM) run(ctx context.Context, devices []string, command string, args ...string) (run.Result, error) {
	return l.perform(ctx, run.Command{}, devices, command, args...)
}

// Run performs one LVM command that sees exactly the given devices, under our configuration, and adds the kind to its error. It is for groups of which
// this package knows nothing: no argument is looked at.
func (l *LVM) Run(ctx context.Context, devices []string, command string, args ...string) (run.Result, error) {
	return l.run(ctx, devices, command, args...)
}

// Read is Run for a command that changes nothing. One that the kernel does not let go when the context ends is left behind, with a *run.LeftError.
func (l *LVM) Read(ctx context.Context, devices []string, command string, args ...string) (run.Result, error) {
	return l.perform(ctx, run.Command{ReadsOnly: true}, devices, command, args...)
}

// answer is run with an answer to the first question; the next ones have the default.
func (l *LVM) answer(ctx context.Context, text string, devices []string, command string, args ...string) (run.Result, error) {
	return l.perform(ctx, run.Command{Stdin: []byte(text)}, devices, command, args...)
}

// perform completes a command and runs it.
func (l *LVM) perform(ctx context.Context, cmd run.Command, devices []string, command string, args ...string) (run.Result, error) {
	if len(devices) == 0 {
		return run.Result{}, fmt.Errorf("lvm %s: %w: no devices", command, ErrInvalid)
	}
	argv := append([]string{command}, l.common...)
	for _, d := range devices {
		if err := validDevice(d); err != nil {
			return run.Result{}, fmt.Errorf("lvm %s: %w", command, err)
		}
		argv = append(argv, "--devices", d)
	}
	if err := l.checkHost(ctx); err != nil {
		return run.Result{}, fmt.Errorf("lvm %s: %w", command, err)
	}
	cmd.Path, cmd.Args, cmd.Env = l.binary, append(argv, args...), l.env
	if slices.Contains(clearsHints, command) {
		cmd.Env = environment(hintsDir(l.dir))
	}
	res, err := l.runner.Run(ctx, cmd)
	return res, classify(err)
}
