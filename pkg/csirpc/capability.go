package csirpc

import (
	"github.com/container-storage-interface/spec/lib/go/csi"
)

// Access is a volume capability: how a volume is used.
type Access struct {
	// Block is a raw device; otherwise it is a mounted filesystem.
	Block bool
	// FSType is empty when any filesystem does. Flags are mount options.
	FSType string
	Flags  []string
	Mode   csi.VolumeCapability_AccessMode_Mode
}

// modes are the access modes of the specification, and what each means.
var modes = map[csi.VolumeCapability_AccessMode_Mode]struct{ singleNode, readOnly bool }{
	csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER:        {singleNode: true},
	csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY:   {singleNode: true, readOnly: true},
	csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER: {singleNode: true},
	csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER:  {singleNode: true},
	csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY:    {readOnly: true},
	csi.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER:  {},
	csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER:   {},
}

// SingleNode reports whether the volume is used on one node at a time.
func (a Access) SingleNode() bool { return modes[a.Mode].singleNode }

// Alone reports whether the volume is published at one place at a time.
func (a Access) Alone() bool {
	return a.Mode == csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER
}

// ReadOnly reports whether nothing is written.
func (a Access) ReadOnly() bool { return modes[a.Mode].readOnly }

// ReadAccess reads a volume capability. It refuses what the specification does not allow, and the mount group, which no driver of
// Quarry offers.
func ReadAccess(c *csi.VolumeCapability) (Access, error) {
	if c == nil {
		return Access{}, Invalid("volume_capability is missing")
	}
	a := Access{Mode: c.GetAccessMode().GetMode()}
	if _, ok := modes[a.Mode]; !ok {
		return Access{}, Invalid("access mode is missing or not known: %s", a.Mode)
	}
	switch {
	case c.GetBlock() != nil:
		a.Block = true
	case c.GetMount() == nil:
		return Access{}, Invalid("access type is neither block nor mount")
	case c.GetMount().GetVolumeMountGroup() != "":
		return Access{}, Invalid("volume_mount_group: the driver does not have that capability")
	default:
		a.FSType, a.Flags = c.GetMount().GetFsType(), c.GetMount().GetMountFlags()
	}
	return a, nil
}

// ReadAccesses reads the volume capabilities of a request that demands at least one.
func ReadAccesses(list []*csi.VolumeCapability) ([]Access, error) {
	if len(list) == 0 {
		return nil, Invalid("volume_capabilities are missing")
	}
	out := make([]Access, 0, len(list))
	for _, c := range list {
		a, err := ReadAccess(c)
		if err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return out, nil
}
