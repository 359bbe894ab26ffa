// Package debian installs the lab's Debian packages. It knows dpkg and apt,
// not what the packages are for.
package debian

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
)

// ParseList reads a package list: one name per line, comments after a number
// sign.
func ParseList(text string) []string {
	var names []string
	for line := range strings.Lines(text) {
		name, _, _ := strings.Cut(line, "#")
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// Missing lists those of the packages that are not installed.
func Missing(ctx context.Context, names []string) ([]string, error) {
	args := append([]string{"-W", "-f", "${Package} ${db:Status-Status}\n"}, names...)
	out, err := exec.CommandContext(ctx, "dpkg-query", args...).Output()
	// It exits with 1 when it does not know a package, which is an answer.
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return nil, fmt.Errorf("ask dpkg for installed packages: %w", err)
	}
	return missing(names, string(out)), nil
}

func missing(names []string, status string) []string {
	installed := make(map[string]bool, len(names))
	for line := range strings.Lines(status) {
		name, state, _ := strings.Cut(strings.TrimSpace(line), " ")
		if state == "installed" {
			installed[name] = true
		}
	}
	var left []string
	for _, name := range names {
		if !installed[name] {
			left = append(left, name)
		}
	}
	return left
}

// Install installs packages without their recommendations and without letting
// their services start: the lab runs what it needs itself. While another
// program holds apt's locks it waits, and tells say for whom.
func Install(ctx context.Context, names []string, log string, say func(format string, args ...any)) error {
	restore, err := forbidServices()
	if err != nil {
		return err
	}
	defer restore()
	out, err := os.Create(log)
	if err != nil {
		return err
	}
	defer out.Close()
	apt := apt{locks: lockFiles, patience: lockPatience, say: say, run: runAptGet}
	// With the option, apt-get waits if dpkg's lock is taken between two of its
	// own steps; the rest of the waiting is ours.
	timeout := fmt.Sprintf("DPkg::Lock::Timeout=%.0f", lockPatience.Seconds())
	for _, args := range [][]string{
		{"-o", timeout, "update"},
		append([]string{"-o", timeout, "install", "-y", "--no-install-recommends"}, names...),
	} {
		if err := apt.get(ctx, out, args...); err != nil {
			return fmt.Errorf("apt-get %s: %w; its output is in %s", args[2], err, log)
		}
	}
	return nil
}

// policyFile is asked by Debian's packages before they start a service.
const policyFile = "/usr/sbin/policy-rc.d"

func forbidServices() (restore func(), err error) {
	f, err := os.OpenFile(policyFile, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return func() {}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("keep services from starting: %w", err)
	}
	_, err = f.WriteString("#!/bin/sh\nexit 101\n")
	return func() { os.Remove(policyFile) }, errors.Join(err, f.Close())
}
