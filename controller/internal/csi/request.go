package csi

import (
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/volumeid"
)

// maxName is the longest name, in bytes, that the specification has.
const maxName = 128

func checkName(name string) error {
	switch {
	case name == "":
		return refuse(volume.Invalid, "no name is given")
	case len(name) > maxName:
		return refuse(volume.Invalid, fmt.Sprintf("the name has %d bytes, at most %d are taken", len(name), maxName))
	}
	return nil
}

// volumeID reads the handle of a volume.
func volumeID(handle string) (volumeid.ID, error) {
	if handle == "" {
		return volumeid.ID{}, refuse(volume.Invalid, "no volume id is given")
	}
	id, err := volumeid.Parse(handle)
	if err == nil && id.IsSnapshot() {
		err = fmt.Errorf("%w: %s is a snapshot", volumeid.ErrNotOurs, id)
	}
	return id, err
}

// snapshotID reads the handle of a snapshot.
func snapshotID(handle string) (volumeid.ID, error) {
	if handle == "" {
		return volumeid.ID{}, refuse(volume.Invalid, "no snapshot id is given")
	}
	id, err := volumeid.Parse(handle)
	if err == nil && !id.IsSnapshot() {
		err = fmt.Errorf("%w: %s is no snapshot", volumeid.ErrNotOurs, id)
	}
	return id, err
}

var singleNode = map[csi.VolumeCapability_AccessMode_Mode]bool{
	csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER:        true,
	csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY:   true,
	csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER: true,
	csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER:  true,
}

func capabilities(in []*csi.VolumeCapability) []volume.Capability {
	var out []volume.Capability
	for _, c := range in {
		v := volume.Capability{Block: c.GetBlock() != nil, Mount: c.GetMount() != nil, FSType: c.GetMount().GetFsType()}
		if m := c.GetAccessMode().GetMode(); m != csi.VolumeCapability_AccessMode_UNKNOWN {
			v.Mode, v.SingleNode = m.String(), singleNode[m]
		}
		out = append(out, v)
	}
	return out
}

func sizeRange(r *csi.CapacityRange) volume.Range {
	return volume.Range{Given: r != nil, Required: r.GetRequiredBytes(), Limit: r.GetLimitBytes()}
}

func topology(r *csi.TopologyRequirement) (volume.Topology, error) {
	segments := func(list []*csi.Topology) []map[string]string {
		var out []map[string]string
		for _, t := range list {
			out = append(out, t.GetSegments())
		}
		return out
	}
	return volume.ReadTopology(v1alpha1.TopologyHost, segments(r.GetRequisite()), segments(r.GetPreferred()))
}

// source returns the volume or snapshot whose content is wanted; nil for none.
func source(s *csi.VolumeContentSource) (*volumeid.ID, error) {
	var id volumeid.ID
	var err error
	switch {
	case s == nil:
		return nil, nil
	case s.GetSnapshot() != nil:
		id, err = snapshotID(s.GetSnapshot().GetSnapshotId())
	case s.GetVolume() != nil:
		id, err = volumeID(s.GetVolume().GetVolumeId())
	default:
		return nil, refuse(volume.Invalid, "the content source is neither a snapshot nor a volume")
	}
	return &id, err
}

func onNode(node string) []*csi.Topology {
	return []*csi.Topology{{Segments: map[string]string{v1alpha1.TopologyHost: node}}}
}

func condition(c volume.Condition) *csi.VolumeCondition {
	return &csi.VolumeCondition{Abnormal: c.Abnormal, Message: c.Message}
}
