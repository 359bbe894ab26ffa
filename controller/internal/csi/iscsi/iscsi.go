// Package iscsi is the backend of the CSI driver for volumes on shared LUNs. Every change of a volume group is made in a turn of package san, whose rules
// say who may write. What is recorded decides which LUN and which group are meant: the Members. What is on the LUN decides everything else. The
// package keeps no state that matters, and does not know the wire to the agents.
//
// A volume that a node holds is attached there, with one exception: one of which nothing is ready yet is being made, and is held by the node that zeroes
// it. A volume that nobody holds is never zeroed: what is new at its end is zeroed when it is attached next.
package iscsi

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/csi/frame"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/controller/internal/san"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/filesystem"
	"quarry.storage/quarry/pkg/sharedlun"
)

// Nodes is what agents do with volumes on shared LUNs. Errors are decide.Faults.
type Nodes interface {
	san.Nodes
	// Zero zeroes what of a volume is not ready, or tells how far that is.
	Zero(
		ctx context.Context, node string, ref sharedlun.Ref, c sharedlun.Credential, v sharedlun.Volume, discard bool,
	) (sharedlun.Progress, error)
	// Copy fills a volume that is a copy of another one, or tells how far that is.
	Copy(
		ctx context.Context, node string, ref sharedlun.Ref, c sharedlun.Credential, v sharedlun.Volume, discard bool, bytesPerSecond int64,
	) (sharedlun.Progress, error)
	// Format makes the first filesystem of a volume, or tells whether it is there.
	Format(
		ctx context.Context, node string, ref sharedlun.Ref, c sharedlun.Credential, v sharedlun.Volume, fsType string,
	) (done bool, err error)
}

// Config is what a Backend works with.
type Config struct {
	// Reader reads from the cache, with the index of frame.IndexPersistentVolumes: Iscsis, Members and PersistentVolumes. It waits until the
	// cache is complete.
	Reader client.Reader
	// SAN takes the turns.
	SAN   *san.San
	Nodes Nodes
	// Fleet knows the initiators, and Leases who writes.
	Fleet  san.Fleet
	Leases san.Leases
	// Pause is between two looks at how far zeroing is; default 1 s.
	Pause time.Duration
	Log   logr.Logger
}

// Backend is the frame.Backend of volumes on shared LUNs.
type Backend struct {
	Config

	mu sync.Mutex
	// taken are the versions of the records that somebody had taken when the driver swept last, by UID of the Iscsi.
	taken map[string]string
	// attachments are the latest ones, by handle.
	attachments map[string]attachment
	// waiting has a place for each call that may wait for a fence: the attacher makes ten calls at a time.
	waiting chan struct{}
}

// maxWaiting is how many calls wait for fences.
const maxWaiting = 4

var (
	_ frame.Backend     = (*Backend)(nil)
	_ frame.Attacher    = (*Backend)(nil)
	_ frame.Measurer    = (*Backend)(nil)
	_ frame.Snapshotter = (*Backend)(nil)
	_ frame.Sweeper     = (*Backend)(nil)
)

// New makes a Backend.
func New(cfg Config) *Backend {
	if cfg.Pause == 0 {
		cfg.Pause = time.Second
	}
	return &Backend{Config: cfg, attachments: map[string]attachment{}, waiting: make(chan struct{}, maxWaiting)}
}

// Driver describes the driver: a volume is used on one initiator at a time, and moves between them.
func Driver() frame.Driver {
	return frame.Driver{
		Name:       v1alpha1.DriverISCSI,
		Volumes:    frame.Naming{Name: sharedlun.Name, Parse: nameIn(false)},
		Snapshots:  frame.Naming{Name: sharedlun.SnapshotName, Parse: nameIn(true)},
		Clones:     true,
		Offer:      volume.Offer{Block: true, Filesystems: filesystem.Names()},
		Parameters: func(own map[string]string) error { return volume.Known(own, v1alpha1.ParameterIscsi) },
		Topology:   v1alpha1.LabelInitiatorPrefix, NodeExpansion: true,
	}
}

// nameIn reads the name in a handle of a volume, or of a snapshot.
func nameIn(snapshot bool) func(handle string) (string, error) {
	return func(handle string) (string, error) {
		id, err := parse(handle, snapshot)
		return id.Name, err
	}
}

// parse reads the handle of a volume, or of a snapshot.
func parse(handle string, snapshot bool) (sharedlun.ID, error) {
	id, err := sharedlun.Parse(handle)
	if err != nil {
		return id, fmt.Errorf("%w: %w", volume.ErrNotOurs, err)
	}
	if id.IsSnapshot() != snapshot {
		return id, fmt.Errorf("%w: %s is of a snapshot: %t", volume.ErrNotOurs, id, id.IsSnapshot())
	}
	return id, nil
}
