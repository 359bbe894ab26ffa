//go:build hostroot

package conformance_test

import (
	"context"
	"io/fs"
	"slices"
	"sync"
	"testing"

	"quarry.storage/quarry/agent/agenttest/conformance"
	"quarry.storage/quarry/agent/internal/host/block"
	"quarry.storage/quarry/agent/internal/plan/volume"
)

// TestRealHost_halves takes the disks of a group away in turn.
func TestRealHost_halves(t *testing.T) {
	onRealHost(t, func(t *testing.T, n conformance.Node) { conformance.Halves(t, n.(conformance.Settling)) })
}

// Settle records that a volume is used, as for a pod.
func (n *realNode) Settle(t *testing.T, group, name string) error {
	_, err := n.server.Node.SettleVolume(t.Context(), volume.Spec{Group: group, Name: name})
	return err
}

// detachable hides devices of the node. LVM is given the devices that are seen, so to LVM one that is hidden is missing.
type detachable struct {
	*block.Host

	mu     sync.Mutex
	hidden map[string]bool
}

// List leaves out what is hidden.
func (d *detachable) List(ctx context.Context) ([]block.Device, error) {
	devices, err := d.Host.List(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(devices, func(b block.Device) bool { return d.hidden[b.Path] || d.hidden[b.Node] }), err
}

// Device does not find what is hidden.
func (d *detachable) Device(major, minor uint32) (block.Device, error) {
	found, err := d.Host.Device(major, minor)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.hidden[found.Path] || d.hidden[found.Node] {
		return block.Device{}, fs.ErrNotExist
	}
	return found, err
}

func (d *detachable) hide(path string, hidden bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hidden[path] = hidden
}

// Detach hides a disk.
func (n *realNode) Detach(_ *testing.T, path string) { n.block.hide(path, true) }

// Attach shows it again.
func (n *realNode) Attach(_ *testing.T, path string) { n.block.hide(path, false) }
