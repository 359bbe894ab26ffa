// Package kernel chooses the user-mode Linux kernel that nodes run. It knows
// Debian's packages of it, not what a node does with it.
package kernel

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"quarry.storage/quarry/test/lab/internal/cache"
	"quarry.storage/quarry/test/lab/internal/debian"
	"quarry.storage/quarry/test/lab/internal/progress"
)

// Kernel is a kernel as a program.
type Kernel struct {
	// Program starts it.
	Program string
	// Modules has its modules, in one directory per release.
	Modules string
}

// installed is the machine's own, of the package user-mode-linux.
var installed = Kernel{Program: "/usr/bin/linux.uml", Modules: "/usr/lib/uml/modules"}

// release is the Debian release whose kernel is preferred. From 6.16 on,
// processes of a node work together with its kernel through seccomp filters
// where they were traced before: a process starts four to six times as fast.
const release = "forky"

// revision is raised when the kernel is to be kept differently.
const revision = "1"

const key = "kernel-" + release + "-" + revision

// choice is the environment variable that makes nodes run the machine's own
// kernel when it is "installed".
const choice = "QUARRY_LAB_KERNEL"

// Ensure gives the newer release's kernel, kept in the cache, and the machine's
// own where that cannot be had: slower, and otherwise as good.
func Ensure(ctx context.Context, report *progress.Reporter) Kernel {
	if os.Getenv(choice) == "installed" {
		return installed
	}
	dir, err := cache.Ensure(key, func(dir string) error {
		defer report.While("getting the kernel of Debian %s", release)()
		return fill(ctx, dir)
	})
	if err != nil {
		report.Step("nodes run this machine's own kernel, which is slower: Debian %s's was not to be had: %v", release, err)
		return installed
	}
	return Kernel{Program: filepath.Join(dir, installed.Program), Modules: filepath.Join(dir, installed.Modules)}
}

// fill unpacks the kernel and the C library of its release, and makes the
// kernel use that library at the place where the cache will have both.
func fill(ctx context.Context, dir string) error {
	if err := debian.Unpack(ctx, release, dir, "user-mode-linux", "libc6"); err != nil {
		return err
	}
	program := filepath.Join(dir, installed.Program)
	final, _ := cache.Find(key)
	// First with the library where it is now, to see that the two fit.
	if err := tie(ctx, program, dir); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, program, "--version").CombinedOutput(); err != nil {
		return fmt.Errorf("%s --version: %w: %s", program, err, bytes.TrimSpace(out))
	}
	return tie(ctx, program, final)
}

// tie makes a program use the C library below a directory.
func tie(ctx context.Context, program, dir string) error {
	libraries := filepath.Join(dir, "usr/lib/x86_64-linux-gnu")
	out, err := exec.CommandContext(ctx, "patchelf", "--set-interpreter", filepath.Join(libraries, "ld-linux-x86-64.so.2"),
		"--set-rpath", libraries, program).CombinedOutput()
	if err != nil {
		return fmt.Errorf("patchelf %s: %w: %s", program, err, bytes.TrimSpace(out))
	}
	return nil
}
