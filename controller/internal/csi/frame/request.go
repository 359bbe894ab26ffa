package frame

import (
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/csirpc"
)

// maxName is the longest name, in bytes, that the specification has.
const maxName = 128

func checkName(name string) error {
	switch {
	case name == "":
		return volume.Refuse(volume.Invalid, "no name is given")
	case len(name) > maxName:
		return volume.Refuse(volume.Invalid, "the name has %d bytes, at most %d are taken", len(name), maxName)
	}
	return nil
}

// volumeName returns the name in the handle of a volume.
func (d *driver) volumeName(handle string) (string, error) {
	if handle == "" {
		return "", volume.Refuse(volume.Invalid, "no volume id is given")
	}
	return d.Volumes.Parse(handle)
}

// snapshotName returns the name in the handle of a snapshot.
func (d *driver) snapshotName(handle string) (string, error) {
	if handle == "" {
		return "", volume.Refuse(volume.Invalid, "no snapshot id is given")
	}
	return d.Snapshots.Parse(handle)
}

// access reads the volume capabilities of a request, and refuses what the driver does not offer.
func (d *driver) access(list ...*csi.VolumeCapability) ([]csirpc.Access, error) {
	asked, err := csirpc.ReadAccesses(list)
	if err != nil {
		return nil, err
	}
	return asked, d.Offer.CheckAll(capabilities(asked))
}

func capabilities(asked []csirpc.Access) []volume.Capability {
	out := make([]volume.Capability, 0, len(asked))
	for _, a := range asked {
		out = append(out, volume.Capability{
			Block: a.Block, Mount: !a.Block, FSType: a.FSType, Mode: a.Mode.String(), SingleNode: a.SingleNode(),
		})
	}
	return out
}

// parameters reads the parameters of a StorageClass, and refuses what the driver does not know.
func (d *driver) parameters(given map[string]string) (volume.Parameters, error) {
	p := volume.ReadParameters(given)
	if err := d.Offer.CheckFS(p.FSType); err != nil {
		return p, err
	}
	return p, d.Parameters(p.Own)
}

func sizeRange(r *csi.CapacityRange) volume.Range {
	return volume.Range{Given: r != nil, Required: r.GetRequiredBytes(), Limit: r.GetLimitBytes()}
}

// place reads where a volume may be. A driver without topology has volumes that every node reaches.
func (d *driver) place(requisite, preferred []*csi.Topology) (volume.Topology, error) {
	if d.Topology == "" {
		return volume.Topology{}, nil
	}
	segments := func(list []*csi.Topology) []map[string]string {
		var out []map[string]string
		for _, t := range list {
			out = append(out, t.GetSegments())
		}
		return out
	}
	if d.ofStorages() {
		return volume.ReadStorages(d.Topology, segments(requisite), segments(preferred))
	}
	return volume.ReadTopology(d.Topology, segments(requisite), segments(preferred))
}

// ofStorages reports whether every storage has a label of its own.
func (d *driver) ofStorages() bool { return strings.HasSuffix(d.Topology, "/") }

// segment says on the wire where a volume is.
func (d *driver) segment(at string) map[string]string {
	if d.ofStorages() {
		return map[string]string{d.Topology + at: volume.Member}
	}
	return map[string]string{d.Topology: at}
}

// source returns the volume or snapshot whose content is wanted; nil for none.
func (d *driver) source(s *csi.VolumeContentSource) (*Source, error) {
	switch {
	case s == nil:
		return nil, nil
	case s.GetSnapshot() != nil && d.snapshots != nil:
		handle := s.GetSnapshot().GetSnapshotId()
		_, err := d.snapshotName(handle)
		return &Source{Handle: handle, Snapshot: true}, err
	case s.GetVolume() != nil && d.Clones:
		handle := s.GetVolume().GetVolumeId()
		_, err := d.volumeName(handle)
		return &Source{Handle: handle}, err
	}
	return nil, volume.Refuse(volume.Invalid, "the driver makes no volume with the content of such a source")
}

// message makes the wire's form of a volume.
func (d *driver) message(v Volume) *csi.Volume {
	out := &csi.Volume{VolumeId: v.Handle, CapacityBytes: v.Bytes, VolumeContext: v.Context}
	if d.Topology == "" {
		return out
	}
	for _, n := range v.Nodes {
		out.AccessibleTopology = append(out.AccessibleTopology, &csi.Topology{Segments: d.segment(n)})
	}
	return out
}

func condition(c volume.Condition) *csi.VolumeCondition {
	return &csi.VolumeCondition{Abnormal: c.Abnormal, Message: c.Message}
}
