// Package ceph is the backend of the CSI driver for subvolumes of the filesystem of a Ceph cluster. Ceph itself keeps all that there is to know of a volume: the
// package keeps nothing. A Ceph cluster that cannot be asked, or that is another one, is an error that says so, and never a volume that does not exist.
package ceph

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/ceph"
	"quarry.storage/quarry/controller/internal/csi/frame"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephvolume"
)

// FSType is what the kernel calls such a filesystem.
const FSType = "ceph"

// Config is what a Backend works with.
type Config struct {
	// Reader reads from the cache, with the index of frame.IndexPersistentVolumes: Clusters and PersistentVolumes. It waits until the cache is complete.
	Reader client.Reader
	// Live asks the API server itself: a Cluster that is given up gets no new volume.
	Live client.Reader
	// Connect returns what runs the commands of the Ceph cluster with an FSID. It fails where nothing can.
	Connect func(ctx context.Context, fsid string) (ceph.Runner, error)
	Log     logr.Logger
	// Patience is how long a call waits for the copy that it makes. One that takes longer goes on, and is waited for by the next call; zero means that none waits. Only a few calls wait at a time.
	Patience time.Duration
}

// Backend is the frame.Backend of subvolumes.
type Backend struct {
	Config
	persistent frame.PersistentVolumes
	// waiting has an entry for each call that waits for a copy.
	waiting chan struct{}
	tight   tight
}

var (
	_ frame.Backend     = (*Backend)(nil)
	_ frame.Measurer    = (*Backend)(nil)
	_ frame.Snapshotter = (*Backend)(nil)
)

// New makes a Backend.
func New(cfg Config) *Backend {
	return &Backend{
		Config: cfg, persistent: frame.PersistentVolumes{Reader: cfg.Reader, Driver: v1alpha1.DriverCephFS}, waiting: make(chan struct{}, waiters),
	}
}

// Driver describes the driver: every node reaches every volume, nothing is attached, and Ceph keeps volumes within their size.
func Driver() frame.Driver {
	return frame.Driver{
		Name: v1alpha1.DriverCephFS,
		Volumes: frame.Naming{Name: cephvolume.Name, Parse: func(handle string) (string, error) {
			id, err := parse(handle)
			return id.Name, err
		}},
		Snapshots: frame.Naming{Name: cephvolume.SnapshotName, Parse: func(handle string) (string, error) {
			id, err := parseSnapshot(handle)
			return id.Name, err
		}},
		Clones:     true,
		Offer:      volume.Offer{Shared: true, Filesystems: []string{FSType}},
		Parameters: func(own map[string]string) error { return volume.Known(own, v1alpha1.ParameterCluster) },
	}
}

// parse reads the handle of a volume.
func parse(handle string) (cephvolume.ID, error) {
	id, err := cephvolume.Parse(handle)
	if err != nil {
		return id, fmt.Errorf("%w: %w", volume.ErrNotOurs, err)
	}
	return id, nil
}

// parseSnapshot reads the handle of a snapshot.
func parseSnapshot(handle string) (cephvolume.SnapshotID, error) {
	id, err := cephvolume.ParseSnapshot(handle)
	if err != nil {
		return id, fmt.Errorf("%w: %w", volume.ErrNotOurs, err)
	}
	return id, nil
}
