package build

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"quarry.storage/quarry/test/lab/internal/cache"
	"quarry.storage/quarry/test/lab/internal/progress"
)

// component is the programs of one module. The go.mod of a directory below
// test/lab lists them as tools.
type component struct {
	// name of the component in the cache and in progress.
	name   string
	module string
	// dir has the go.mod. Components with dependencies in common share one, so
	// that what they share is compiled once.
	dir string
	// stamp gives the linker flags that put the version into the programs.
	stamp func(version string) string
}

var (
	kubernetes = component{name: "kube", module: "k8s.io/kubernetes", dir: "kube", stamp: kubernetesStamp}
	containerd = component{name: "containerd", module: "github.com/containerd/containerd/v2", dir: "containerd", stamp: func(v string) string {
		return "-X github.com/containerd/containerd/v2/version.Version=" + v
	}}
)

// kubernetesStamp is needed for more than show: the API server refuses to
// start with a version it cannot parse.
func kubernetesStamp(version string) string {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	const pkg = "k8s.io/component-base/version."
	return fmt.Sprintf("-X %[1]sgitVersion=%[2]s -X %[1]sgitMajor=%[3]s -X %[1]sgitMinor=%[4]s -X %[1]sgitTreeState=clean",
		pkg, version, parts[0], parts[1])
}

// Programs are the directories of everything that is built from modules.
type Programs struct {
	// Kubernetes has kube-apiserver, kubelet, kubectl and the others.
	Kubernetes string
	// Containerd has containerd, its shim and ctr.
	Containerd string
}

// Ensure builds what is not in the cache yet.
func Ensure(ctx context.Context, report *progress.Reporter) (Programs, error) {
	var p Programs
	var err error
	if p.Containerd, err = containerd.ensure(ctx, report); err != nil {
		return p, err
	}
	p.Kubernetes, err = kubernetes.ensure(ctx, report)
	return p, err
}

// recipe is all that a component's programs follow from.
type recipe struct {
	source, version, flags string
	// packages of the programs.
	packages []string
	// key is the name of the programs' directory in the cache.
	key string
}

func (c component) recipe() (recipe, error) {
	source, err := c.source()
	if err != nil {
		return recipe{}, err
	}
	goMod, err := os.ReadFile(filepath.Join(source, "go.mod"))
	if err != nil {
		return recipe{}, err
	}
	version, err := requiredVersion(goMod, c.module)
	if err != nil {
		return recipe{}, fmt.Errorf("%s: %w", source, err)
	}
	goSum, err := os.ReadFile(filepath.Join(source, "go.sum"))
	if err != nil {
		return recipe{}, err
	}
	flags := "-s -w " + c.stamp(version)
	packages := tools(goMod, c.module)
	if len(packages) == 0 {
		return recipe{}, fmt.Errorf("%s: go.mod lists no program of %s as a tool", source, c.module)
	}
	key := fmt.Sprintf("%s-%s-%s", c.name, version, cache.Hash(append([]string{string(goMod), string(goSum), flags, runtime.Version()}, clockKey()...)...))
	return recipe{source: source, version: version, flags: flags, packages: packages, key: key}, nil
}

// source is the directory of the component's go.mod.
func (c component) source() (string, error) {
	checkout, err := Checkout()
	return filepath.Join(checkout, "test", "lab", c.dir), err
}

func (c component) ensure(ctx context.Context, report *progress.Reporter) (string, error) {
	r, err := c.recipe()
	if err != nil {
		return "", err
	}
	return cache.Ensure(r.key, func(dir string) error {
		stop := report.While("building %s %s (minutes the first time)", c.name, r.version)
		defer stop()
		return goBuildCounted(ctx, report, r.source, r.flags, dir, r.packages...)
	})
}

// GoProgram builds one package of the project's own module into a directory.
func GoProgram(ctx context.Context, checkout, pkg, dir string) error {
	return goBuild(ctx, checkout, "-s -w", dir, pkg)
}

// goBuild runs the Go command at low priority: the machine may be running
// tests meanwhile.
func goBuild(ctx context.Context, source, linkerFlags, dir string, packages ...string) error {
	args := append([]string{"-n", "5", "go", "build", "-trimpath", "-ldflags", linkerFlags, "-o", dir + "/"}, packages...)
	cmd := exec.CommandContext(ctx, "nice", args...)
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return errors.Join(fmt.Errorf("go build %s in %s: %w", strings.Join(packages, " "), source, err), errors.New(strings.TrimSpace(stderr.String())))
	}
	return nil
}
