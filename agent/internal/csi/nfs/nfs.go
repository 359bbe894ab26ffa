// Package nfs is the source of volumes on NFS shares: each is one directory, mounted at the volume's staging path. It knows how such
// mounts are recognised and when one may be forced; how a server is talked to without waiting for it is package host/nfs.
package nfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"

	"quarry.storage/quarry/agent/internal/csi"
	"quarry.storage/quarry/agent/internal/host/fs"
	"quarry.storage/quarry/agent/internal/host/mount"
	hostnfs "quarry.storage/quarry/agent/internal/host/nfs"
	"quarry.storage/quarry/pkg/csirpc"
	"quarry.storage/quarry/pkg/quarry"
	"quarry.storage/quarry/pkg/sharedvolume"
)

// Shares mounts directories of shares, and returns in time whatever the server does.
type Shares interface {
	// Attach mounts the directory of a volume on an open place.
	Attach(ctx context.Context, v hostnfs.Volume, place *os.File) error
	// Unmount takes a mount away. With force, what waits for the server fails.
	Unmount(ctx context.Context, m hostnfs.Mounted, force bool) error
	// Reaches is an error when a server does not answer.
	Reaches(ctx context.Context, server string, options []string) error
	// Measure reads the usage of a mount.
	Measure(ctx context.Context, m hostnfs.Mounted) (hostnfs.Usage, error)
}

// Places opens places to mount on.
type Places interface {
	// Place opens a directory.
	Place(path string) (*os.File, error)
	// Parent opens the directory that a path is in.
	Parent(path string) (dir *os.File, base string, err error)
}

// Table is the mount table.
type Table interface {
	Points() ([]mount.Point, error)
}

var (
	_ Shares = (*hostnfs.Client)(nil)
	_ Places = (*mount.Kernel)(nil)
)

// Config is what a Source is made of.
type Config struct {
	Shares Shares
	Places Places
	Table  Table
	Log    logr.Logger
	// Registry takes the metrics; they are not kept when it is nil.
	Registry prometheus.Registerer
}

// Source is the volumes on NFS shares.
type Source struct {
	cfg    Config
	forced prometheus.Counter
}

var _ csi.Trees = (*Source)(nil)

// New makes a Source.
func New(cfg Config) *Source {
	s := &Source{cfg: cfg, forced: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "quarry_agent_nfs_forced_unmounts_total",
		Help: "Forced unmounts of mounts that no pod used any more and whose server was gone.",
	})}
	if cfg.Registry != nil {
		cfg.Registry.MustRegister(s.forced)
	}
	return s
}

// Profile describes the driver.
func (s *Source) Profile() csi.Profile {
	return csi.Profile{Name: quarry.DriverNFS, Codes: csirpc.Table{
		{Err: sharedvolume.ErrInvalid, Code: codes.InvalidArgument},
		{Err: sharedvolume.ErrBusy, Code: codes.Aborted},
		{Err: sharedvolume.ErrNotOurs, Code: codes.NotFound},
		{Err: sharedvolume.ErrState, Code: codes.FailedPrecondition},
		{Err: hostnfs.ErrHangs, Code: codes.Unavailable},
		{Err: hostnfs.ErrInUse, Code: codes.FailedPrecondition},
		{Err: hostnfs.ErrStale, Code: codes.Unavailable},
	}}
}

// types are the kernel's names of what is mounted.
var types = []string{"nfs", "nfs4"}

// Check refuses what is no handle of this driver. Every node has every volume.
func (s *Source) Check(handle string) error {
	_, err := sharedvolume.Parse(handle)
	return err
}

// Accept takes every access mode, with a filesystem only.
func (s *Source) Accept(want csirpc.Access) (csi.Access, error) {
	if want.Block {
		return csi.Access{}, csirpc.Invalid("a directory of a share is no block device")
	}
	if want.FSType != "" && !slices.Contains(types, want.FSType) {
		return csi.Access{}, csirpc.Invalid("filesystem %.100q: a directory of a share has no other than nfs", want.FSType)
	}
	options, err := sharedvolume.ParseOptions(want.Flags)
	return csi.Access{Access: want, Frozen: options.ReadOnly()}, err
}

// volume reads what a call says of a volume.
func volume(v csi.Volume) (hostnfs.Volume, error) {
	id, err := sharedvolume.Parse(v.Handle)
	if err != nil {
		return hostnfs.Volume{}, err
	}
	attributes, err := sharedvolume.ParseAttributes(v.Context)
	if err != nil {
		return hostnfs.Volume{}, fmt.Errorf("volume_context: %w", err)
	}
	return hostnfs.Volume{ID: id, Attributes: attributes}, nil
}

// Find says what a volume's mounts are known by. A call that ends a use does not say where the volume is: then every mount of NFS at the
// path that the kubelet made for the volume counts.
func (s *Source) Find(_ context.Context, v csi.Volume) (csi.From, error) {
	from := csi.From{Types: types}
	if len(v.Context) == 0 {
		return from, s.Check(v.Handle)
	}
	which, err := volume(v)
	if err != nil {
		return csi.From{}, err
	}
	options, err := sharedvolume.ParseOptions(which.MountOptions)
	if err != nil {
		return csi.From{}, err
	}
	from.ReadOnly = options.ReadOnly()
	host, err := sharedvolume.Host(which.Server)
	from.Tree = sharedvolume.Source(host, path.Join(which.Path, which.Directory))
	return from, err
}

// Ready checks what is known of a volume. Whether the directory is the volume's own is checked in the very mount that is made of it.
func (s *Source) Ready(ctx context.Context, v csi.Volume, _ csi.Access) (csi.From, error) {
	if _, err := volume(v); err != nil {
		return csi.From{}, err
	}
	return s.Find(ctx, v)
}

// Mount mounts the directory of a volume.
func (s *Source) Mount(ctx context.Context, v csi.Volume, want csi.Access, target string) error {
	which, err := volume(v)
	if err != nil {
		return err
	}
	which.Options = want.Flags
	place, err := s.cfg.Places.Place(target)
	if err != nil {
		return err
	}
	defer place.Close()
	return explain(s.cfg.Shares.Attach(ctx, which, place))
}

// Release has nothing to do: a share is mounted for each volume alone.
func (s *Source) Release(context.Context, csi.Volume) error { return nil }

// Serves refuses a mount whose directory the server does not know: its export is gone, or another filesystem is there. A server that does not answer serves its
// mounts once it is back.
func (s *Source) Serves(ctx context.Context, at mount.Point) error {
	if _, err := s.Measure(ctx, at); errors.Is(err, hostnfs.ErrStale) {
		return err
	}
	return nil
}

// stale says what a person does about a mount that the server does not know. While one pod has the volume, or waits for it, the kubelet does not have it unstaged.
const stale = "its pods get errors from the volume until the server exports the same filesystem again, with the same directory. If both are there, cordon the node, delete the pods on it " +
	"that use the volume, and those that wait for it, and uncordon the node once they are gone: then the volume is mounted anew"

// Measure reads the usage of a mount, which is that of the whole share.
func (s *Source) Measure(ctx context.Context, at mount.Point) (fs.Usage, error) {
	dir, base, err := s.cfg.Places.Parent(at.Path)
	if err != nil {
		return fs.Usage{}, err
	}
	defer dir.Close()
	u, err := s.cfg.Shares.Measure(ctx, hostnfs.Mounted{Dir: dir, Name: base, What: at.Path, Server: server(at)})
	if errors.Is(err, hostnfs.ErrStale) {
		err = fmt.Errorf("%w: %s", err, stale)
	}
	return fs.Usage{
		TotalBytes: u.TotalBytes, UsedBytes: u.UsedBytes, FreeBytes: u.FreeBytes,
		TotalInodes: u.TotalInodes, UsedInodes: u.UsedInodes, FreeInodes: u.FreeInodes,
	}, err
}

// explain gives the errors of shares the meaning that they have for a volume.
func explain(err error) error {
	var problem *sharedvolume.Problem
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%w: %w", csi.ErrNotThere, err)
	case !errors.As(err, &problem):
		return err
	case problem.Reason == sharedvolume.ReasonUnreachable, problem.Reason == sharedvolume.ReasonNameUnresolved:
		return fmt.Errorf("%w: %w", csi.ErrUnavailable, err)
	}
	return fmt.Errorf("%w: %w", csi.ErrPrecondition, err)
}
