// Package nfs is the backend of the CSI driver for directories on NFS shares. Agents make and remove the directories; any agent that
// reaches a share serves. What is recorded decides: the attributes of a PersistentVolume, and the record of each volume on its share.
// The package keeps nothing but which agents reached a share last. It does not know the wire to the agents.
package nfs

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/csi/frame"
	"quarry.storage/quarry/controller/internal/decide/nfs"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedvolume"
)

// Agents is what can be done on shares through nodes. Errors of calls are decide.Faults.
type Agents interface {
	// Online returns the nodes whose agents answer.
	Online() []string
	// EnsureDirectory makes the directory of a volume and returns its record.
	EnsureDirectory(ctx context.Context, node string, s sharedvolume.Share, w sharedvolume.Wish) (sharedvolume.Directory, error)
	// RemoveDirectory removes the directory of a volume, or a part of it. An empty policy leaves the choice to the record. directory is the one that the
	// PersistentVolume has on record; empty without one.
	RemoveDirectory(ctx context.Context, node string, s sharedvolume.Share, name, directory string, p sharedvolume.Policy) (sharedvolume.Removal, error)
	// ListDirectories returns a page of the records of the owner's volumes, and with check whether their directories are there.
	ListDirectories(ctx context.Context, node string, s sharedvolume.Share, token string, check bool) ([]sharedvolume.Directory, string, error)
}

// Config is what a Backend works with.
type Config struct {
	// Reader reads from the cache, with the index of frame.IndexPersistentVolumes: Nfs and PersistentVolumes. It waits until the
	// cache is complete: what it does not have does not exist.
	Reader client.Reader
	// Agents of the nodes.
	Agents Agents
	Log    logr.Logger
}

// Backend is the frame.Backend of directories on NFS shares.
type Backend struct {
	Config
	persistent frame.PersistentVolumes

	mu sync.Mutex
	// reached is the node that reached the share of an Nfs last, by the UID of the Nfs.
	reached map[string]string
	// turn counts the attempts, so that each begins with other nodes.
	turn int
}

var _ frame.Backend = (*Backend)(nil)

// New makes a Backend.
func New(cfg Config) *Backend {
	return &Backend{
		Config: cfg, persistent: frame.PersistentVolumes{Reader: cfg.Reader, Driver: v1alpha1.DriverNFS}, reached: map[string]string{},
	}
}

// Driver describes the driver: every node reaches every volume, nothing is attached, and the size is a number only.
func Driver() frame.Driver {
	return frame.Driver{
		Name: v1alpha1.DriverNFS,
		Volumes: frame.Naming{Name: sharedvolume.Name, Parse: func(handle string) (string, error) {
			id, err := parse(handle)
			return id.Name, err
		}},
		Offer:      volume.Offer{Shared: true, Filesystems: []string{"nfs"}},
		Parameters: nfs.CheckParameters,
	}
}

// parse reads a handle.
func parse(handle string) (sharedvolume.ID, error) {
	id, err := sharedvolume.Parse(handle)
	if err != nil {
		return id, fmt.Errorf("%w: %w", volume.ErrNotOurs, err)
	}
	return id, nil
}
