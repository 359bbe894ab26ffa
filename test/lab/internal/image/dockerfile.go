package image

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/test/lab/internal/cache"
	"quarry.storage/quarry/test/lab/internal/progress"
	"quarry.storage/quarry/test/lab/internal/state"
)

// Build is an image to build from a Dockerfile.
type Build struct {
	Dockerfile string
	Context    string
	Tag        string
	// Args are values for the Dockerfile's ARGs, as NAME=VALUE.
	Args []string
	// Output is the archive to write.
	Output string
}

// Run builds the image and writes its archive. Layers that were built before
// are taken from buildah's own storage in the cache.
func (b Build) Run(ctx context.Context, report *progress.Reporter) error {
	text, err := os.ReadFile(b.Dockerfile)
	if err != nil {
		return err
	}
	root, err := cache.Root()
	if err != nil {
		return err
	}
	// One build at a time: buildah's layer cache does not see what a parallel
	// build is about to add.
	unlock, err := state.LockFile(filepath.Join(root, ".lock-buildah"))
	if err != nil {
		return err
	}
	defer unlock()
	store := buildah{root: filepath.Join(root, "buildah")}
	defer store.tidy()
	for _, name := range baseNames(string(text)) {
		if err := store.ensureBase(ctx, name, report); err != nil {
			return err
		}
	}
	stop := report.While("building %s from %s", b.Tag, b.Dockerfile)
	defer stop()
	args := []string{
		"build", "--isolation", "chroot", "--pull=never", "--layers", "--quiet", "--format", "docker",
		"--timestamp", "0", "--file", b.Dockerfile, "--tag", b.Tag,
	}
	for _, a := range b.Args {
		args = append(args, "--build-arg", a)
	}
	if err := store.run(ctx, append(args, b.Context)...); err != nil {
		return fmt.Errorf("build %s: %w", b.Tag, err)
	}
	return store.save(ctx, b.Tag, b.Output)
}

// baseNames lists the images a Dockerfile starts its stages from, without the
// stages it names itself.
func baseNames(dockerfile string) []string {
	var names, stages []string
	for line := range strings.Lines(dockerfile) {
		words := strings.Fields(line)
		if len(words) < 2 || !strings.EqualFold(words[0], "FROM") {
			continue
		}
		words = slices.DeleteFunc(words[1:], func(w string) bool { return strings.HasPrefix(w, "--") })
		if len(words) == 0 {
			continue
		}
		if len(words) == 3 && strings.EqualFold(words[1], "AS") {
			stages = append(stages, words[2])
		}
		if words[0] != "scratch" && !slices.Contains(stages, words[0]) && !slices.Contains(names, words[0]) {
			names = append(names, words[0])
		}
	}
	return names
}

// buildah runs the program of that name on a storage of the lab's own.
type buildah struct{ root string }

func (b buildah) run(ctx context.Context, args ...string) error {
	global := []string{"--root", b.root, "--runroot", filepath.Join(b.root, "run"), "--storage-driver", "overlay"}
	cmd := exec.CommandContext(ctx, "buildah", append(global, args...)...)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return errors.Join(fmt.Errorf("buildah %s: %w", args[0], err), errors.New(strings.TrimSpace(stdout.String()+stderr.String())))
	}
	return nil
}

// ensureBase puts a base image into the storage, and replaces it when its
// archive has changed.
func (b buildah) ensureBase(ctx context.Context, name string, report *progress.Reporter) error {
	ensure, ok := bases[name]
	if !ok {
		return fmt.Errorf("base image %s: the lab has no registry and makes only %s", name, strings.Join(slices.Sorted(maps.Keys(bases)), ", "))
	}
	archive, err := ensure(ctx, report)
	if err != nil {
		return fmt.Errorf("base image %s: %w", name, err)
	}
	mark := filepath.Join(b.root, ".base-"+cache.Hash(name))
	if current, err := os.ReadFile(mark); err == nil && string(current) == archive {
		if err := b.run(ctx, "inspect", "--type", "image", name); err == nil {
			return nil
		}
	}
	report.Step("taking %s into the image storage", name)
	if err := b.run(ctx, "pull", "docker-archive:"+archive); err != nil {
		return fmt.Errorf("base image %s: %w", name, err)
	}
	return state.WriteFile(mark, []byte(archive), 0o644)
}

// tidy removes the working containers and mounts a build that was cut short
// left, and the mount of the storage itself.
func (b buildah) tidy() {
	// A build that was interrupted is tidied up all the same.
	_ = b.run(context.Background(), "rm", "--all")
	_ = unix.Unmount(filepath.Join(b.root, "overlay"), unix.MNT_DETACH)
}

// save writes an image's archive in one step.
func (b buildah) save(ctx context.Context, tag, output string) error {
	output, err := filepath.Abs(output)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(output), 0o755); err != nil {
		return err
	}
	tmp := output + ".new"
	if err := os.RemoveAll(tmp); err != nil {
		return err
	}
	defer os.Remove(tmp)
	if err := b.run(ctx, "push", "--disable-compression", tag, "docker-archive:"+tmp+":"+tag); err != nil {
		return fmt.Errorf("save %s: %w", tag, err)
	}
	return os.Rename(tmp, output)
}
