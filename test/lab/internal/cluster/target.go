package cluster

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"quarry.storage/quarry/test/lab/internal/iscsi"
	"quarry.storage/quarry/test/lab/internal/spec"
	"quarry.storage/quarry/test/lab/internal/state"
)

// Target makes the storage node serve a target, or changes one that it serves.
func (c *Cluster) Target(ctx context.Context, name string, wish spec.TargetWish) (spec.Target, error) {
	err := c.ChangeTargets(ctx, func(s spec.Storage) (spec.Storage, error) { return s.WithTarget(name, wish, newSerial) })
	if err != nil {
		return spec.Target{}, err
	}
	storage, _, err := c.loadStorage()
	if err != nil {
		return spec.Target{}, err
	}
	return storage.Target(name)
}

// WipeTarget puts other, empty disks behind the LUNs of a target. Its sessions
// go on.
func (c *Cluster) WipeTarget(ctx context.Context, name string) error {
	return c.ChangeTargets(ctx, func(s spec.Storage) (spec.Storage, error) { return s.WithWiped(name, newSerial) })
}

// DelayWrites keeps back what a node writes to the volumes that it has on a
// target. It lasts until the node boots.
func (c *Cluster) DelayWrites(ctx context.Context, name, node string, by time.Duration) error {
	if err := c.checkStorage(spec.StorageName); err != nil {
		return err
	}
	storage, _, err := c.loadStorage()
	if err != nil {
		return err
	}
	t, err := storage.Target(name)
	if err != nil {
		return err
	}
	_, err = c.capture(ctx, node, c.dir.Binary(), "node", "delay-writes", t.IQN(), by.String())
	return err
}

// ChangeTargets changes what the storage node serves over iSCSI. What is
// recorded is what a node that is started again serves, so it is written before
// the node is told.
func (c *Cluster) ChangeTargets(ctx context.Context, change func(spec.Storage) (spec.Storage, error)) error {
	desc, err := c.running()
	if err != nil {
		return err
	}
	unlock, err := c.dir.Lock()
	if err != nil {
		return err
	}
	defer unlock()
	if err := c.checkStorage(spec.StorageName); err != nil {
		return err
	}
	before, _, err := c.loadStorage()
	if err != nil {
		return err
	}
	storage, err := change(before)
	if err != nil {
		return err
	}
	if storage, err = c.plugLUNs(ctx, desc.Lab, storage); err != nil {
		return errors.Join(err, c.unplugLUNs(desc.Lab, before))
	}
	if err := state.WriteJSON(c.storageFile(), storage); err != nil {
		return err
	}
	if c.processes.Alive(spec.StorageName) {
		if err := c.applyTargets(ctx, desc.Lab, storage); err != nil {
			return err
		}
	}
	return c.unplugLUNs(desc.Lab, storage)
}

// applyTargets makes a storage node that runs serve exactly the targets.
func (c *Cluster) applyTargets(ctx context.Context, lab spec.Lab, storage spec.Storage) error {
	wish := iscsi.Wish{Targets: storage.Targets}
	for _, name := range lab.NodeNames() {
		wish.Initiators = append(wish.Initiators, spec.IQN(name))
	}
	text, err := json.Marshal(wish)
	if err != nil {
		return err
	}
	_, err = c.captureWith(ctx, spec.StorageName, bytes.NewReader(text), c.dir.Binary(), "node", "iscsi-apply")
	return err
}

// lunImage is the image of a LUN; the name tells it from the other disks of the
// node.
func (c *Cluster) lunImage(serial string) string {
	return filepath.Join(c.dir.Node(spec.StorageName), lunImagePrefix+serial+".img")
}

const lunImagePrefix = "lun-"

// plugLUNs makes the disks of the LUNs that have none yet.
func (c *Cluster) plugLUNs(ctx context.Context, lab spec.Lab, storage spec.Storage) (spec.Storage, error) {
	disks, err := c.loadDisks(spec.StorageName)
	if err != nil {
		return storage, err
	}
	for _, l := range storage.LUNs() {
		if l.Device != "" {
			continue
		}
		disk := Disk{Bus: BusUBD, Image: c.lunImage(l.Serial)}
		if err := makeSparse(disk.Image, l.Bytes); err != nil {
			return storage, err
		}
		device, err := c.attach(ctx, lab, spec.StorageIndex, disks, &disk)
		if err != nil {
			return storage, err
		}
		disks = append(disks, disk)
		if err := state.WriteJSON(c.disksFile(spec.StorageName), disks); err != nil {
			return storage, err
		}
		storage = storage.WithDevice(l.Serial, device)
	}
	return storage, nil
}

// unplugLUNs removes the disks that no LUN has any more.
func (c *Cluster) unplugLUNs(lab spec.Lab, storage spec.Storage) error {
	disks, err := c.loadDisks(spec.StorageName)
	if err != nil {
		return err
	}
	wanted := map[string]bool{}
	for _, l := range storage.LUNs() {
		wanted[c.lunImage(l.Serial)] = true
	}
	var errs []error
	left := slices.DeleteFunc(slices.Clone(disks), func(d Disk) bool {
		isLUN := filepath.Dir(d.Image) == c.dir.Node(spec.StorageName) && strings.HasPrefix(filepath.Base(d.Image), lunImagePrefix)
		if wanted[d.Image] || !isLUN {
			return false
		}
		if c.processes.Alive(spec.StorageName) {
			if err := c.machine(lab, spec.StorageIndex, nil).Detach(d.Unit); err != nil {
				errs = append(errs, fmt.Errorf("unplug %s: %w", d.Image, err))
				return false
			}
		}
		errs = append(errs, os.Remove(d.Image))
		return true
	})
	if len(left) < len(disks) {
		errs = append(errs, state.WriteJSON(c.disksFile(spec.StorageName), left))
	}
	return errors.Join(errs...)
}

func newSerial() string {
	var b [serialDigits / 2]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
