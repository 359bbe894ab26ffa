package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"quarry.storage/quarry/test/lab/internal/build"
	"quarry.storage/quarry/test/lab/internal/image"
	"quarry.storage/quarry/test/lab/internal/kernel"
	"quarry.storage/quarry/test/lab/internal/network"
	"quarry.storage/quarry/test/lab/internal/node"
	"quarry.storage/quarry/test/lab/internal/pki"
	"quarry.storage/quarry/test/lab/internal/spec"
	"quarry.storage/quarry/test/lab/internal/state"
)

// readyPatience is how long the control plane and then the nodes may take. On
// an idle machine they take a tenth of it.
const readyPatience = 4 * time.Minute

// Up brings the lab up, or completes one of which parts have ended. With adopt
// it takes a lab that is there in whatever shape it has.
func (c *Cluster) Up(ctx context.Context, want spec.Lab, adopt bool) error {
	if err := want.Validate(); err != nil {
		return err
	}
	unlock, err := c.dir.Lock()
	if err != nil {
		return err
	}
	defer unlock()
	desc, ok, err := c.dir.Load()
	if err != nil || !ok || !desc.Complete {
		// Whatever is there is the remains of a start that was cut short.
		if err := c.clean(); err != nil {
			return fmt.Errorf("clean up before starting: %w", err)
		}
		if err := os.RemoveAll(c.dir.Logs()); err != nil {
			return err
		}
		desc = state.Description{Lab: want}
	}
	if !adopt && !desc.Lab.SameShape(want) {
		return fmt.Errorf("lab %q is up with another shape: %d nodes, disks %dx%dM, memory %dM, bare %t; run `lab down --name %s` first",
			c.name, desc.Lab.Nodes, desc.Lab.Disks.Count, desc.Lab.Disks.Bytes>>20, desc.Lab.Memory>>20, desc.Lab.Bare, c.name)
	}
	desc.Lab.Images = want.Images
	if desc.Complete {
		// Its disks are made.
		desc.Lab.Images = nil
	}
	parts, err := c.prepare(ctx, desc.Lab)
	if err != nil {
		return err
	}
	if desc.Complete && c.allAlive(desc.Lab) {
		return c.waitNodes(ctx, desc, time.Time{})
	}
	if err := c.start(ctx, &desc, parts); err != nil {
		return fmt.Errorf("%w\nlogs are in %s; `lab down --name %s` cleans up", err, c.dir.Logs(), c.name)
	}
	desc.Complete = true
	return c.dir.Save(desc)
}

// parts is everything a lab is started from.
type parts struct {
	programs build.Programs
	kernel   kernel.Kernel
	images   []node.Image
	// systemDisk is what every node's system disk starts as a copy of. In a
	// bare lab it is empty, and so are the disks at first.
	systemDisk string
}

// prepare builds what is missing.
func (c *Cluster) prepare(ctx context.Context, lab spec.Lab) (parts, error) {
	if lab.Bare {
		return parts{kernel: kernel.Ensure(ctx, c.report)}, nil
	}
	programs, err := build.Ensure(ctx, c.report)
	if err != nil {
		return parts{}, err
	}
	pause, err := image.EnsurePause(ctx)
	if err != nil {
		return parts{}, fmt.Errorf("make the pause image: %w", err)
	}
	busybox, err := image.EnsureBusybox(ctx)
	if err != nil {
		return parts{}, fmt.Errorf("make the busybox image: %w", err)
	}
	sidecars, err := image.EnsureSidecars(ctx, c.report)
	if err != nil {
		return parts{}, err
	}
	images := []node.Image{{Name: spec.PauseImage, Archive: pause}, {Name: image.Busybox, Archive: busybox}}
	for _, s := range sidecars {
		images = append(images, node.Image{Name: s.Name, Archive: s.Archive})
	}
	// With its base there already, an agent's image loads much faster.
	archives := image.CachedBases()
	for _, i := range images {
		archives = append(archives, i.Archive)
	}
	disk, err := c.ensureSystemDisk(ctx, programs.Containerd, archives)
	if err == nil && len(lab.Images) > 0 {
		disk, err = c.withImages(ctx, disk, programs.Containerd, lab.Images)
	}
	return parts{programs: programs, kernel: kernel.Ensure(ctx, c.report), systemDisk: disk, images: images}, err
}

func (c *Cluster) start(ctx context.Context, desc *state.Description, p parts) error {
	var outer *os.File
	if !desc.Lab.Bare && !c.processes.Alive(forwarderName) {
		var err error
		if outer, desc.Port, err = listen(desc.Port); err != nil {
			return err
		}
		defer outer.Close()
	}
	if err := c.dir.Save(*desc); err != nil {
		return err
	}
	if err := c.installBinary(); err != nil {
		return err
	}
	if err := c.ensureNetwork(desc.Lab); err != nil {
		return err
	}
	started := now()
	if desc.Lab.Bare {
		c.report.Step("starting %d bare nodes", desc.Lab.Nodes)
		if err := c.startNodes(ctx, desc.Lab, p); err != nil {
			return err
		}
		return c.waitNodes(ctx, *desc, started)
	}
	if err := pki.EnsureCluster(c.dir, desc.Lab, desc.Port); err != nil {
		return fmt.Errorf("make certificates: %w", err)
	}
	c.report.Step("starting the control plane and %d nodes", desc.Lab.Nodes)
	// Nodes boot while the control plane starts: their kubelets ask until it answers.
	if err := c.startNodes(ctx, desc.Lab, p); err != nil {
		return err
	}
	if err := c.startControlPlane(ctx, *desc, p.programs, outer); err != nil {
		return err
	}
	c.report.Step("control plane ready")
	return c.waitNodes(ctx, *desc, started)
}

// startNodes boots all nodes at once.
func (c *Cluster) startNodes(ctx context.Context, lab spec.Lab, p parts) error {
	errs := make([]error, lab.Nodes)
	var nodes sync.WaitGroup
	for i := range lab.Nodes {
		nodes.Go(func() { errs[i] = c.startNode(ctx, lab, i+1, p) })
	}
	nodes.Wait()
	return errors.Join(errs...)
}

// installBinary copies this program into the state directory.
func (c *Cluster) installBinary() error {
	if _, err := os.Stat(c.dir.Binary()); err == nil {
		return nil
	}
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer self.Close()
	content, err := io.ReadAll(self)
	if err != nil {
		return err
	}
	return state.WriteFile(c.dir.Binary(), content, 0o755)
}

func (c *Cluster) ensureNetwork(lab spec.Lab) error {
	if err := network.EnsureNamespace(c.Namespace()); err != nil {
		return err
	}
	return network.Inside(c.Namespace(), func() error {
		if err := network.EnsureUp("lo"); err != nil {
			return err
		}
		if err := network.EnsureBridge(spec.ClusterBridge, spec.ControlPlane+"/24", spec.APIServiceIP+"/32"); err != nil {
			return err
		}
		if err := network.EnsureBridge(spec.ManagementBridge, spec.ManagementHost+"/24"); err != nil {
			return err
		}
		if err := network.EnsureDeadBridge(spec.CutBridge); err != nil {
			return err
		}
		for i := 1; i <= lab.Nodes; i++ {
			if err := ensureNodeNetwork(i); err != nil {
				return err
			}
		}
		return nil
	})
}

func ensureNodeNetwork(index int) error {
	if err := ensureTaps(index); err != nil {
		return err
	}
	return network.EnsureRoute(spec.NodePodCIDR(index), spec.NodeIP(index))
}

func ensureTaps(index int) error {
	if err := network.EnsureTap(spec.ClusterTap(index), spec.ClusterBridge); err != nil {
		return err
	}
	return network.EnsureTap(spec.ManagementTap(index), spec.ManagementBridge)
}

// Down ends the lab and removes all of it but its logs.
func (c *Cluster) Down() error {
	unlock, err := c.dir.Lock()
	if err != nil {
		return err
	}
	defer unlock()
	return c.clean()
}

// clean works from what is there, not from what should be: it has to cope with
// any half of a lab.
func (c *Cluster) clean() error {
	if err := c.processes.KillAll(); err != nil {
		return fmt.Errorf("end the processes of lab %q: %w", c.name, err)
	}
	if err := network.DeleteNamespace(c.Namespace()); err != nil {
		return err
	}
	if err := c.dir.Clear(); err != nil {
		return fmt.Errorf("remove %s: %w", filepath.Clean(c.dir.Path()), err)
	}
	return nil
}
