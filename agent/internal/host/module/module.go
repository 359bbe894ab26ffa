// Package module tells which parts of the kernel a host has: those that run, and those that its own modprobe would load. It loads none.
package module

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"quarry.storage/quarry/agent/internal/host/run"
)

// State says whether the kernel has a part.
type State int

// States of a part. The zero value is that nobody could tell.
const (
	Unknown State = iota
	// Present: it is built in, or loaded.
	Present
	// Loadable: the host's modprobe finds it.
	Loadable
	// Missing: the host's modprobe knows no such part.
	Missing
)

// Config says where to look. Empty fields mean the host's own.
type Config struct {
	Runner run.Runner
	// Sys and Proc are the host's /sys and /proc.
	Sys, Proc string
}

// Tool looks at the kernel of one host.
type Tool struct{ cfg Config }

// New makes a Tool.
func New(cfg Config) Tool {
	if cfg.Sys == "" {
		cfg.Sys = "/sys"
	}
	if cfg.Proc == "" {
		cfg.Proc = "/proc"
	}
	return Tool{cfg}
}

const (
	nsenter = "/usr/bin/nsenter"
	// notFound is modprobe's exit code for a part that it does not find. It says nothing then; whatever else fails does.
	notFound = 1
)

// State looks for a part of the kernel by the name of its module. The error says why nobody could tell.
func (t Tool) State(ctx context.Context, name string) (State, error) {
	switch yes, err := t.runs(name); {
	case err != nil:
		return Unknown, err
	case yes:
		return Present, nil
	}
	_, err := t.cfg.Runner.Run(ctx, run.Command{Path: nsenter, ReadsOnly: true, Args: []string{
		"--mount=" + filepath.Join(t.cfg.Proc, "1/ns/mnt"), "--", "modprobe", "--dry-run", "--quiet", name,
	}})
	var exit *run.Error
	switch {
	case err == nil:
		return Loadable, nil
	case errors.As(err, &exit) && exit.ExitCode == notFound && exit.Stderr == "":
		return Missing, nil
	}
	return Unknown, err
}

// runs reports whether a part is in the kernel now. A built-in one may have no directory in sysfs: filesystems and device-mapper stand in tables then.
func (t Tool) runs(name string) (bool, error) {
	if _, err := os.Stat(filepath.Join(t.cfg.Sys, "module", name)); err == nil {
		return true, nil
	}
	filesystems, err := os.ReadFile(filepath.Join(t.cfg.Proc, "filesystems"))
	if err != nil {
		return false, err
	}
	for line := range strings.Lines(string(filesystems)) {
		if fields := strings.Fields(line); len(fields) > 0 && fields[len(fields)-1] == name {
			return true, nil
		}
	}
	return false, nil
}
