package csi

import (
	"cmp"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"quarry.storage/quarry/agent/internal/host/fs"
	"quarry.storage/quarry/agent/internal/host/mount"
	"quarry.storage/quarry/pkg/csirpc"
	"quarry.storage/quarry/pkg/volumeid"
)

// present refuses a request that lacks a required field. Fields come as name and value.
func present(fields ...string) error { return csirpc.Present(fields...) }

// volume reads a handle. A volume of another node, or of nobody, is not found here.
func (d *Driver) volume(handle string) (volumeid.ID, error) {
	id, err := volumeid.Parse(handle)
	if err != nil {
		return volumeid.ID{}, err
	}
	if id.Node != d.cfg.NodeName {
		return volumeid.ID{}, fmt.Errorf("volume %s, this is node %s: %w", id, d.cfg.NodeName, errNotThere)
	}
	return id, nil
}

// access is what is wanted of a volume.
type access struct {
	// block is true for a raw device.
	block bool
	// fsType is empty when any does.
	fsType  string
	options mount.Options
	// alone is true when the volume may be published at one place only.
	alone bool
	// readOnly is true when nothing is to be written.
	readOnly bool
}

// capability reads a volume capability: a volume of one node, as a device or with a filesystem that the agent handles.
func capability(c *csi.VolumeCapability) (access, error) {
	asked, err := csirpc.ReadAccess(c)
	if err != nil {
		return access{}, err
	}
	if !asked.SingleNode() {
		return access{}, invalid("access mode %s: a local volume is on one node only", asked.Mode)
	}
	a := access{block: asked.Block, fsType: asked.FSType, alone: asked.Alone(), readOnly: asked.ReadOnly()}
	if a.block {
		return a, nil
	}
	if a.fsType != "" && !fs.Supported(a.fsType) {
		return access{}, fmt.Errorf("%w: %.100q", fs.ErrUnsupported, a.fsType)
	}
	if a.options, err = mount.ParseOptions(cmp.Or(a.fsType, fs.Ext4), asked.Flags); err != nil {
		return access{}, err
	}
	a.readOnly = a.readOnly || a.options.ReadOnly
	return a, nil
}
