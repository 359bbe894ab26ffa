package cluster

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"quarry.storage/quarry/test/lab/internal/network"
	"quarry.storage/quarry/test/lab/internal/spec"
)

// Status prints what of the lab runs.
func (c *Cluster) Status(ctx context.Context, out io.Writer) error {
	desc, ok, err := c.dir.Load()
	if err != nil {
		return err
	}
	if !ok {
		fmt.Fprintf(out, "lab %s is down\n", c.name)
		return nil
	}
	ready, apiErr := c.ready(ctx, desc, time.Time{})
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintf(w, "lab\t%s\tcomplete=%t\n", c.name, desc.Complete)
	if !desc.Lab.Bare {
		fmt.Fprintf(w, "kubeconfig\t%s\t\n", c.dir.Kubeconfig())
	}
	for _, name := range components(desc.Lab) {
		fmt.Fprintf(w, "%s\t%s\t\n", name, c.processState(name))
	}
	// This one is there only if it was asked for.
	if _, ok, err := c.processes.Get(snapshotControllerName); ok && err == nil {
		fmt.Fprintf(w, "%s\t%s\t\n", snapshotControllerName, c.processState(snapshotControllerName))
	}
	for i, name := range desc.Lab.NodeNames() {
		fmt.Fprintf(w, "%s\t%s\t%s, link %s\n", name, c.processState(name), readiness(name, ready, apiErr), c.linkState(i+1))
	}
	// So is this one.
	if storage, ok, err := c.loadStorage(); ok && err == nil {
		fmt.Fprintf(w, "%s\t%s\t%s, %d exports, %d targets, link %s\n", spec.StorageName, c.processState(spec.StorageName),
			spec.NodeIP(spec.StorageIndex), len(storage.Exports), len(storage.Targets), c.linkState(spec.StorageIndex))
	}
	return w.Flush()
}

func (c *Cluster) processState(name string) string {
	r, ok, err := c.processes.Get(name)
	if err != nil || !ok || !r.Alive() {
		return "not running"
	}
	return fmt.Sprintf("running (pid %d)", r.PID)
}

func readiness(name string, ready []string, apiErr error) string {
	switch {
	case apiErr != nil:
		return "Ready unknown"
	case slices.Contains(ready, name):
		return "Ready"
	default:
		return "not Ready"
	}
}

// linkUnknown is the state of a link that is not there.
const linkUnknown = "unknown"

func (c *Cluster) linkState(index int) string {
	state := linkUnknown
	_ = network.Inside(c.Namespace(), func() error {
		up, err := network.IsPlugged(spec.ClusterTap(index), spec.ClusterBridge)
		if err == nil && up {
			state = "up"
		} else if err == nil {
			state = "cut"
		}
		return err
	})
	return state
}

// LogFile finds the log of a component or, for a node, of one of its services;
// the empty service is the kubelet, and the console of the storage node.
func (c *Cluster) LogFile(name, service string) (string, error) {
	path := c.dir.ComponentLog(name)
	if info, err := os.Stat(c.dir.NodeLogs(name)); err == nil && info.IsDir() {
		switch service {
		case "console":
		case "":
			if name == spec.StorageName {
				break
			}
			path = filepath.Join(c.dir.NodeLogs(name), "kubelet.log")
		default:
			path = filepath.Join(c.dir.NodeLogs(name), service+".log")
		}
	}
	if _, err := os.Stat(path); err != nil {
		found, _ := filepath.Glob(filepath.Join(c.dir.Logs(), "*.log"))
		inNodes, _ := filepath.Glob(filepath.Join(c.dir.Logs(), "*", "*.log"))
		return "", fmt.Errorf("no log of %q; there are:\n%s", name, strings.Join(append(found, inNodes...), "\n"))
	}
	return path, nil
}
