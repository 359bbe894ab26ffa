package build

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"quarry.storage/quarry/test/lab/internal/progress"
)

var (
	provisioner = sidecar("external-provisioner", "v6")
	attacher    = sidecar("external-attacher", "v4")
	resizer     = sidecar("external-resizer", "v2")
	snapshotter = sidecar("external-snapshotter", "v8")
)

// sidecar shares most of what it is built from with Kubernetes.
func sidecar(name, major string) component {
	return component{name: name, module: "github.com/kubernetes-csi/" + name + "/" + major, dir: "kube", stamp: sidecarStamp}
}

// snapshotModule has the definitions of the snapshot API beside its Go types.
const snapshotModule = "github.com/kubernetes-csi/external-snapshotter/client/v8"

func sidecarStamp(version string) string { return "-X main.version=" + version }

// Sidecar is a program of the Kubernetes project that runs beside a CSI driver
// and calls it for what happens in the cluster.
type Sidecar struct {
	// Name is the program's, and the last part of its image's.
	Name    string
	Version string

	component component
	key       string
}

// Sidecars lists the sidecars in the versions their modules require.
func Sidecars() ([]Sidecar, error) {
	sidecars := []Sidecar{
		{Name: "csi-provisioner", component: provisioner},
		{Name: "csi-attacher", component: attacher},
		{Name: "csi-resizer", component: resizer},
		{Name: "csi-snapshotter", component: snapshotter},
	}
	for i := range sidecars {
		r, err := sidecars[i].component.recipe()
		if err != nil {
			return nil, err
		}
		sidecars[i].Version, sidecars[i].key = r.version, r.key
	}
	return sidecars, nil
}

// Key names the program's content without building it.
func (s Sidecar) Key() string { return s.key }

// Ensure builds the program unless it is in the cache and gives its path.
func (s Sidecar) Ensure(ctx context.Context, report *progress.Reporter) (string, error) {
	dir, err := s.component.ensure(ctx, report)
	return filepath.Join(dir, s.Name), err
}

// SnapshotController gives the program that every cluster with snapshots runs
// once, whatever its CSI drivers.
func SnapshotController(ctx context.Context, report *progress.Reporter) (string, error) {
	dir, err := snapshotter.ensure(ctx, report)
	return filepath.Join(dir, "snapshot-controller"), err
}

// SnapshotDefinitions gives the definitions of the snapshot API, as one YAML
// stream, from the module that the snapshot programs are built with.
func SnapshotDefinitions(ctx context.Context) ([]byte, error) {
	source, err := snapshotter.source()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", snapshotModule)
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var module struct{ Dir, Error string }
	if parseErr := json.Unmarshal(out, &module); err == nil {
		err = parseErr
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("find %s: %w", snapshotModule, err), errors.New(strings.TrimSpace(module.Error+stderr.String())))
	}
	return definitions(os.DirFS(filepath.Join(module.Dir, "config", "crd")))
}

// definitions puts the files of the snapshot API together. Those of group
// snapshots are left out: the snapshot controller does not serve them unless
// told to.
func definitions(dir fs.FS) ([]byte, error) {
	names, err := fs.Glob(dir, "snapshot.storage.k8s.io_*.yaml")
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s has no definitions of snapshots", snapshotModule)
	}
	var all bytes.Buffer
	for _, name := range names {
		content, err := fs.ReadFile(dir, name)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&all, "---\n%s\n", bytes.TrimSpace(content))
	}
	return all.Bytes(), nil
}
