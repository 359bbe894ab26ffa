package build

import (
	"bytes"
	"context"
	_ "embed" // The clock is text here: it is compiled as part of Go's runtime.
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"quarry.storage/quarry/test/lab/internal/progress"
)

// With the counter of the processor programs of the lab read the clock without a
// system call: it bridges the time between two readings of the kernel's clock, as
// in test/ceph/clock.c. A node has a user-mode kernel, where each call is a trap
// of 30 microseconds, and two of three calls of a kubelet read the clock.
var (
	//go:embed clock/clock.go.txt
	clockDeclared []byte
	//go:embed clock/clock_amd64.s.txt
	clockCode []byte
)

// choice is the environment variable that leaves that clock away when it is "kernel". Programs are built anew then.
const choice = "QUARRY_LAB_CLOCK"

// hook is the line of Go's runtime that finds the kernel's own clock, and use
// puts ours in its place.
const (
	hook = "\t\tvdsoParseSymbols(info1, vdsoFindVersion(info1, &vdsoLinuxVersion))\n"
	use  = "\t\tuseLabClock()\n"
)

// counted reports whether programs are to have the clock. It is made for one kind of processor.
func counted() bool { return os.Getenv(choice) != "kernel" && runtime.GOARCH == "amd64" }

// clockKey names the content of the clock; empty without one.
func clockKey() []string {
	if !counted() {
		return nil
	}
	return []string{string(clockDeclared), string(clockCode), hook, use}
}

// errOtherRuntime means that Go's runtime does not look for the kernel's clock where that is expected.
var errOtherRuntime = errors.New("another form")

// overlay writes what Go's runtime has besides into a directory, and returns
// the file for the -overlay flag of the Go command.
func overlay(ctx context.Context, dir string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOROOT: %w", err)
	}
	source := filepath.Join(strings.TrimSpace(string(out)), "src", "runtime")
	finder := filepath.Join(source, "vdso_linux.go")
	text, err := os.ReadFile(finder)
	if err != nil {
		return "", err
	}
	hooked := bytes.Replace(text, []byte(hook), []byte(hook+use), 1)
	if bytes.Equal(hooked, text) {
		return "", fmt.Errorf("%s has %w", finder, errOtherRuntime)
	}
	replace := map[string]string{}
	for path, content := range map[string][]byte{
		finder:                                 hooked,
		filepath.Join(source, "clock.go"):      clockDeclared,
		filepath.Join(source, "clock_amd64.s"): clockCode,
	} {
		replace[path] = filepath.Join(dir, filepath.Base(path)+".txt")
		if err := os.WriteFile(replace[path], content, 0o644); err != nil {
			return "", err
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, list, 0o644)
}

// goBuildCounted is goBuild with the clock, if programs are to have it. A version of Go whose runtime has another form builds them without it.
func goBuildCounted(ctx context.Context, report *progress.Reporter, source, linkerFlags, dir string, packages ...string) error {
	if !counted() {
		return goBuild(ctx, source, linkerFlags, dir, packages...)
	}
	scratch, err := os.MkdirTemp("", "quarry-clock-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	with, err := overlay(ctx, scratch)
	switch {
	case errors.Is(err, errOtherRuntime):
		report.Step("building without the quicker clock, so that nodes take more processor time: %v", err)
		return goBuild(ctx, source, linkerFlags, dir, packages...)
	case err != nil:
		return err
	}
	return goBuild(ctx, source, linkerFlags, dir, append([]string{"-overlay", with}, packages...)...)
}
