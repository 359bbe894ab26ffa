package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"quarry.storage/quarry/test/lab/internal/build"
	"quarry.storage/quarry/test/lab/internal/process"
)

// snapshotControllerName is the one process of the control plane that a lab has
// only when asked for.
const snapshotControllerName = "snapshot-controller"

// Snapshots makes the cluster know VolumeSnapshots: it applies their definitions
// and starts their controller unless it runs. It may be called again at any
// time.
func (c *Cluster) Snapshots(ctx context.Context) error {
	if _, err := c.withKubernetes(); err != nil {
		return err
	}
	program, err := build.SnapshotController(ctx, c.report)
	if err != nil {
		return err
	}
	definitions, err := build.SnapshotDefinitions(ctx)
	if err != nil {
		return err
	}
	assets, err := build.Assets(ctx, c.report)
	if err != nil {
		return err
	}
	unlock, err := c.dir.Lock()
	if err != nil {
		return err
	}
	defer unlock()
	// The lab may have gone down during the build.
	if _, err := c.withKubernetes(); err != nil {
		return err
	}
	// The controller gives up when its definitions are not there.
	kubectl := filepath.Join(assets, "kubectl")
	for _, args := range [][]string{
		{"apply", "--server-side", "--force-conflicts", "-f", "-"},
		{"wait", "--for=condition=Established", "--timeout=60s", "-f", "-"},
	} {
		cmd := exec.CommandContext(ctx, kubectl, append([]string{"--kubeconfig", c.dir.Kubeconfig()}, args...)...)
		cmd.Stdin = bytes.NewReader(definitions)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("kubectl %s of the snapshot definitions: %w: %s", args[0], err, strings.TrimSpace(string(out)))
		}
	}
	return c.ensure(process.Command{Name: snapshotControllerName, Path: program, Args: []string{
		"--kubeconfig=" + c.dir.ComponentKubeconfig("admin"),
		// Its own limits are those of a cluster with many controllers.
		"--kube-api-qps=50", "--kube-api-burst=100",
		"--retry-interval-max=10s",
	}})
}
