package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"quarry.storage/quarry/test/lab/internal/kernel"
	"quarry.storage/quarry/test/lab/internal/network"
	"quarry.storage/quarry/test/lab/internal/spec"
	"quarry.storage/quarry/test/lab/internal/state"
)

// storageSystemBytes is the size of the disk that takes what the storage node
// writes beside its exports; the file is sparse.
const storageSystemBytes = 1 << 30

func (c *Cluster) storageFile() string {
	return filepath.Join(c.dir.Node(spec.StorageName), "storage.json")
}

// loadStorage reads the shape of the storage node; ok is false when the lab has
// none.
func (c *Cluster) loadStorage() (s spec.Storage, ok bool, err error) {
	err = state.ReadJSON(c.storageFile(), &s)
	if errors.Is(err, fs.ErrNotExist) {
		return spec.Storage{}, false, nil
	}
	return s, err == nil, err
}

// checkStorage is an error when the named node is a storage node that the lab
// does not have.
func (c *Cluster) checkStorage(name string) error {
	if name != spec.StorageName {
		return nil
	}
	_, ok, err := c.loadStorage()
	if err == nil && !ok {
		err = fmt.Errorf("lab %q has no storage node: `lab storage up --name %s`", c.name, c.name)
	}
	return err
}

// StorageUp boots the storage node unless it runs, waits until it serves, and
// returns its address. A node that was killed has the disks it had. With adopt
// it takes one that is there in whatever shape it has.
func (c *Cluster) StorageUp(ctx context.Context, want spec.Storage, adopt bool) (string, error) {
	if err := want.Validate(); err != nil {
		return "", err
	}
	unlock, err := c.dir.Lock()
	if err != nil {
		return "", err
	}
	defer unlock()
	desc, err := c.running()
	if err != nil {
		return "", err
	}
	storage, ok, err := c.loadStorage()
	if err != nil {
		return "", err
	}
	if !ok {
		if err := c.makeStorage(ctx, want); err != nil {
			return "", err
		}
		storage = want
	}
	if !adopt && !storage.SameShape(want) {
		return "", fmt.Errorf("the storage node is there with another shape: memory %dM, disk %dM; run `lab storage down --name %s` first",
			storage.Memory>>20, storage.Disk>>20, c.name)
	}
	return c.startStorage(ctx, desc.Lab, storage)
}

// startStorage boots the storage node, waits until it serves, and returns its
// address.
func (c *Cluster) startStorage(ctx context.Context, lab spec.Lab, storage spec.Storage) (string, error) {
	if err := c.bootStorage(ctx, lab, storage); err != nil {
		return "", err
	}
	if err := c.waitStorage(ctx); err != nil {
		return "", err
	}
	if len(storage.Targets) > 0 {
		if err := c.applyTargets(ctx, lab, storage); err != nil {
			return "", err
		}
	}
	return spec.NodeIP(spec.StorageIndex), nil
}

// startStorageAgain boots a storage node that is there.
func (c *Cluster) startStorageAgain(ctx context.Context, lab spec.Lab) error {
	if err := c.checkStorage(spec.StorageName); err != nil {
		return err
	}
	storage, _, err := c.loadStorage()
	if err != nil {
		return err
	}
	_, err = c.startStorage(ctx, lab, storage)
	return err
}

// makeStorage makes the disks of a storage node. Its shape is written last: a
// node without it is the remains of an interrupted start.
func (c *Cluster) makeStorage(ctx context.Context, want spec.Storage) error {
	dir := c.dir.Node(spec.StorageName)
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	disks := []Disk{
		{Bus: BusUBD, Image: filepath.Join(dir, systemDiskName)},
		{Bus: BusUBD, Image: filepath.Join(dir, "exports.img"), Unit: 1},
	}
	for i, bytes := range []int64{storageSystemBytes, want.Disk} {
		if err := makeFileSystem(ctx, disks[i].Image, bytes); err != nil {
			return err
		}
	}
	if err := state.WriteJSON(c.disksFile(spec.StorageName), disks); err != nil {
		return err
	}
	return state.WriteJSON(c.storageFile(), want)
}

func (c *Cluster) bootStorage(ctx context.Context, lab spec.Lab, storage spec.Storage) error {
	if c.processes.Alive(spec.StorageName) {
		return nil
	}
	// A link that was cut before the node was killed stays cut.
	if c.linkState(spec.StorageIndex) == linkUnknown {
		if err := network.Inside(c.Namespace(), func() error { return ensureTaps(spec.StorageIndex) }); err != nil {
			return err
		}
	}
	disks, err := c.loadDisks(spec.StorageName)
	if err != nil {
		return err
	}
	k := kernel.Ensure(ctx, c.report)
	config, err := c.nodeConfig(lab, spec.StorageIndex, parts{kernel: k}, disks)
	if err != nil {
		return err
	}
	config.Storage = &storage
	lab.Memory = storage.Memory
	c.report.Step("starting the storage node")
	return c.boot(lab, spec.StorageIndex, k, disks, config)
}

// waitStorage waits until the storage node serves. It asks over the management
// network, so that a cut link does not matter.
func (c *Cluster) waitStorage(ctx context.Context) error {
	return c.wait(ctx, []string{spec.StorageName}, "the storage node does not serve", func() (bool, error) {
		_, err := c.capture(ctx, spec.StorageName, c.dir.Binary(), "node", "nfs-ready")
		return err == nil, err
	})
}

// StorageDown ends the storage node and removes its disks.
func (c *Cluster) StorageDown() error {
	unlock, err := c.dir.Lock()
	if err != nil {
		return err
	}
	defer unlock()
	if err := c.processes.Kill(spec.StorageName); err != nil {
		return err
	}
	if network.Inode(c.Namespace()) != 0 {
		err := network.Inside(c.Namespace(), func() error {
			return errors.Join(network.Remove(spec.ClusterTap(spec.StorageIndex)), network.Remove(spec.ManagementTap(spec.StorageIndex)))
		})
		if err != nil {
			return err
		}
	}
	return os.RemoveAll(c.dir.Node(spec.StorageName))
}

// Export makes the storage node serve one more directory, or one that it serves
// with new options, and returns what clients mount.
func (c *Cluster) Export(ctx context.Context, name, options string) (string, error) {
	unlock, err := c.dir.Lock()
	if err != nil {
		return "", err
	}
	defer unlock()
	if err := c.checkStorage(spec.StorageName); err != nil {
		return "", err
	}
	storage, _, err := c.loadStorage()
	if err != nil {
		return "", err
	}
	if storage, err = storage.WithExport(name, options); err != nil {
		return "", err
	}
	exports, err := json.Marshal(storage.Exports)
	if err != nil {
		return "", err
	}
	if _, err := c.capture(ctx, spec.StorageName, c.dir.Binary(), "node", "nfs-export", string(exports)); err != nil {
		return "", err
	}
	// The list is what a node that is started again serves.
	return spec.NodeIP(spec.StorageIndex) + ":" + spec.Export{Name: name}.Path(), state.WriteJSON(c.storageFile(), storage)
}
