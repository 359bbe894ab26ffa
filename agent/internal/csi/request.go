package csi

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"quarry.storage/quarry/agent/internal/host/fs"
	"quarry.storage/quarry/agent/internal/host/mount"
	"quarry.storage/quarry/pkg/volumeid"
)

// present refuses a request that lacks a required field. Fields come as name and value.
func present(fields ...string) error {
	for i := 0; i < len(fields); i += 2 {
		if fields[i+1] == "" {
			return invalid("%s is missing", fields[i])
		}
	}
	return nil
}

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

// modes are the access modes of a volume that exists on one node.
var modes = []csi.VolumeCapability_AccessMode_Mode{
	csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER,
	csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY,
	csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER,
	csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER,
}

// capability reads a volume capability.
func capability(c *csi.VolumeCapability) (access, error) {
	if c == nil {
		return access{}, invalid("volume_capability is missing")
	}
	mode := c.GetAccessMode().GetMode()
	if !slices.Contains(modes, mode) {
		return access{}, invalid("access mode %s: a local volume is on one node only", mode)
	}
	a := access{
		alone:    mode == csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER,
		readOnly: mode == csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY,
	}
	switch {
	case c.GetBlock() != nil:
		a.block = true
		return a, nil
	case c.GetMount() == nil:
		return access{}, invalid("access type is neither block nor mount")
	case c.GetMount().GetVolumeMountGroup() != "":
		return access{}, invalid("volume_mount_group: the driver does not have that capability")
	}
	a.fsType = c.GetMount().GetFsType()
	if a.fsType != "" && !fs.Supported(a.fsType) {
		return access{}, fmt.Errorf("%w: %.100q", fs.ErrUnsupported, a.fsType)
	}
	var err error
	if a.options, err = mount.ParseOptions(cmp.Or(a.fsType, fs.Ext4), c.GetMount().GetMountFlags()); err != nil {
		return access{}, err
	}
	a.readOnly = a.readOnly || a.options.ReadOnly
	return a, nil
}
