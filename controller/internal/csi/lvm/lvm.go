// Package lvm is the backend of the CSI driver of local volumes. It keeps no state: what is wanted comes from the informer cache, what
// is there from the agents, and guards and repetition are the agents' matter. It does not know the wire to the agents.
package lvm

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/csi/frame"
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/lvm/place"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/filesystem"
	"quarry.storage/quarry/pkg/volumeid"
)

// Agents is what is known of nodes, and what can be done to volumes there. Errors of calls are decide.Faults.
type Agents interface {
	// Node returns what is known about a node.
	Node(name string) decide.Node
	// ListVolumes observes the volumes of ours, in one group or, when that is empty, in all.
	ListVolumes(ctx context.Context, node, group string) ([]decide.Volume, []decide.ThinPool, error)
	// CreateVolume makes a volume or a snapshot.
	CreateVolume(ctx context.Context, node string, v decide.VolumeSpec) (decide.Volume, error)
	// DeleteVolume removes one.
	DeleteVolume(ctx context.Context, node string, v decide.VolumeSpec) error
	// ResizeVolume makes a volume larger.
	ResizeVolume(ctx context.Context, node string, v decide.VolumeSpec) (decide.Volume, error)
}

// Backend is the frame.Backend of local volumes, with snapshots and capacity.
type Backend struct {
	// Reader reads from the cache: Clusters, Members, StorageNodes and PersistentVolumes.
	Reader client.Reader
	// Live asks the API server itself: for VolumeSnapshotContents, and for the PersistentVolumes on which a removal depends.
	Live client.Reader
	// Agents of the nodes.
	Agents Agents
}

var (
	_ frame.Backend     = (*Backend)(nil)
	_ frame.Snapshotter = (*Backend)(nil)
	_ frame.Measurer    = (*Backend)(nil)
	_ frame.Sweeper     = (*Backend)(nil)
)

// Driver describes the driver: volumes are devices of one node, and are not attached.
func Driver() frame.Driver {
	return frame.Driver{
		Name:      v1alpha1.DriverLVM,
		Volumes:   frame.Naming{Name: volumeid.Name, Parse: nameIn(false)},
		Snapshots: frame.Naming{Name: volumeid.Snapshot, Parse: nameIn(true)},
		Offer:     volume.Offer{Block: true, Filesystems: filesystem.Names()},
		Parameters: func(own map[string]string) error {
			_, err := place.Parse(own)
			return err
		},
		Topology: v1alpha1.TopologyHost, Clones: true, NodeExpansion: true,
	}
}

// parse reads a handle.
func parse(handle string) (volumeid.ID, error) {
	id, err := volumeid.Parse(handle)
	if err != nil {
		return id, fmt.Errorf("%w: %w", volume.ErrNotOurs, err)
	}
	return id, nil
}

// nameIn returns the function that reads the name in LVM from the handle of a volume, or from that of a snapshot.
func nameIn(snapshot bool) func(string) (string, error) {
	return func(handle string) (string, error) {
		id, err := parse(handle)
		switch {
		case err != nil:
			return "", err
		case snapshot && !id.IsSnapshot():
			return "", fmt.Errorf("%w: %s is no snapshot", volume.ErrNotOurs, id)
		case !snapshot && id.IsSnapshot():
			return "", fmt.Errorf("%w: %s is a snapshot", volume.ErrNotOurs, id)
		}
		return id.Name, nil
	}
}

// isFault reports whether an agent refused for that reason.
func isFault(err error, kind decide.FaultKind) bool {
	var f *decide.Fault
	return errors.As(err, &f) && f.Kind == kind
}
