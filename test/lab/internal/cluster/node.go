package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"quarry.storage/quarry/test/lab/internal/cache"
	"quarry.storage/quarry/test/lab/internal/kernel"
	"quarry.storage/quarry/test/lab/internal/network"
	"quarry.storage/quarry/test/lab/internal/node"
	"quarry.storage/quarry/test/lab/internal/process"
	"quarry.storage/quarry/test/lab/internal/spec"
	"quarry.storage/quarry/test/lab/internal/state"
	"quarry.storage/quarry/test/lab/internal/uml"
)

// startNode boots a node with its disks, making them the first time.
func (c *Cluster) startNode(ctx context.Context, lab spec.Lab, index int, p parts) error {
	name := spec.NodeName(index)
	if c.processes.Alive(name) {
		return nil
	}
	disks, err := c.ensureDisks(ctx, lab, name, p.systemDisk)
	if err != nil {
		return fmt.Errorf("disks of node %s: %w", name, err)
	}
	config, err := c.nodeConfig(lab, index, p, disks)
	if err != nil {
		return err
	}
	return c.boot(lab, index, p.kernel, disks, config)
}

// boot starts a node's kernel.
func (c *Cluster) boot(lab spec.Lab, index int, k kernel.Kernel, disks []Disk, config node.Config) error {
	name := spec.NodeName(index)
	if err := state.WriteJSON(c.dir.NodeSpec(name), config); err != nil {
		return err
	}
	for _, d := range []string{config.Logs, c.dir.UML()} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	machine := c.machine(lab, index, disks)
	if err := machine.Forget(); err != nil {
		return fmt.Errorf("start node %s: %w", name, err)
	}
	return c.ensure(process.Command{Name: name, Path: k.Program, Args: machine.Args()})
}

// machine describes the kernel of a node.
func (c *Cluster) machine(lab spec.Lab, index int, disks []Disk) uml.Machine {
	name := spec.NodeName(index)
	return uml.Machine{
		ID: c.name + "-" + name, Dir: c.dir.UML(), Memory: lab.Memory,
		Init: c.dir.Binary(), InitArgs: []string{"node", "init", c.dir.NodeSpec(name)},
		Disks: ubdDisks(disks),
		Taps:  []string{spec.ClusterTap(index), spec.ManagementTap(index)},
		MACs:  []string{fmt.Sprintf("02:00:00:99:00:%02x", 10+index), fmt.Sprintf("02:00:00:98:00:%02x", 10+index)},
	}
}

func (c *Cluster) nodeConfig(lab spec.Lab, index int, p parts, disks []Disk) (node.Config, error) {
	name := spec.NodeName(index)
	cacheRoot, err := cache.Root()
	if err != nil {
		return node.Config{}, err
	}
	config := node.Config{
		Name: name, Lab: c.name,
		IP: spec.NodeIP(index), ManagementIP: spec.ManagementIP(index), PodCIDR: spec.NodePodCIDR(index),
		Path: []string{p.programs.Containerd, p.programs.Kubernetes}, Modules: p.kernel.Modules,
		PKI: c.dir.PKI(), Logs: c.dir.NodeLogs(name), Images: p.images,
		Shares: outermost(append([]string{c.dir.Path(), cacheRoot}, lab.Shares...)),
		SCSI:   scsiDisks(disks), Bare: lab.Bare,
	}
	for i := range lab.Nodes {
		if i+1 != index {
			config.Peers = append(config.Peers, node.Peer{IP: spec.NodeIP(i + 1), PodCIDR: spec.NodePodCIDR(i + 1)})
		}
	}
	return config, nil
}

// outermost drops directories that lie in another one of the list.
func outermost(dirs []string) []string {
	slices.Sort(dirs)
	var kept []string
	for _, dir := range slices.Compact(dirs) {
		if len(kept) == 0 || !strings.HasPrefix(dir+"/", kept[len(kept)-1]+"/") {
			kept = append(kept, dir)
		}
	}
	return kept
}

func makeSparse(path string, size int64) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Close())
}

// KillNode cuts a node's power: its kernel ends without a chance to write.
func (c *Cluster) KillNode(name string) error {
	desc, err := c.running()
	if err != nil {
		return err
	}
	if _, err := desc.Lab.Index(name); err != nil {
		return err
	}
	if err := c.checkStorage(name); err != nil {
		return err
	}
	unlock, err := c.dir.Lock()
	if err != nil {
		return err
	}
	defer unlock()
	return c.processes.Kill(name)
}

// StartNode boots a node again and waits until it is ready.
func (c *Cluster) StartNode(ctx context.Context, name string) error {
	desc, err := c.running()
	if err != nil {
		return err
	}
	index, err := desc.Lab.Index(name)
	if err != nil {
		return err
	}
	unlock, err := c.dir.Lock()
	if err != nil {
		return err
	}
	defer unlock()
	if index == spec.StorageIndex {
		return c.startStorageAgain(ctx, desc.Lab)
	}
	p, err := c.prepare(ctx, desc.Lab)
	if err != nil {
		return err
	}
	if err := c.startNode(ctx, desc.Lab, index, p); err != nil {
		return err
	}
	return c.waitNode(ctx, desc, name)
}

// SetLink cuts or heals a node's link to the cluster bridge.
func (c *Cluster) SetLink(name string, up bool) error {
	desc, err := c.running()
	if err != nil {
		return err
	}
	index, err := desc.Lab.Index(name)
	if err != nil {
		return err
	}
	if err := c.checkStorage(name); err != nil {
		return err
	}
	// The tap itself stays up: writing to one that is down is an error after
	// which the user-mode kernel's driver sends nothing any more.
	bridge := spec.CutBridge
	if up {
		bridge = spec.ClusterBridge
	}
	return network.Inside(c.Namespace(), func() error {
		return network.Plug(spec.ClusterTap(index), bridge)
	})
}
