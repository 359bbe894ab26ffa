// Package ceph is the source of volumes in the filesystem of a Ceph cluster: each is one directory, mounted at the volume's staging path with the key that the
// StorageClass names. It knows how such mounts are recognised; how Ceph is talked to without waiting for it is package host/cephfs.
package ceph

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"google.golang.org/grpc/codes"

	"quarry.storage/quarry/agent/internal/csi"
	"quarry.storage/quarry/agent/internal/host/cephfs"
	"quarry.storage/quarry/agent/internal/host/fs"
	"quarry.storage/quarry/agent/internal/host/mount"
	"quarry.storage/quarry/pkg/cephname"
	"quarry.storage/quarry/pkg/cephvolume"
	"quarry.storage/quarry/pkg/csirpc"
	"quarry.storage/quarry/pkg/quarry"
)

// fsType is the kernel's name of what is mounted.
const fsType = "ceph"

// Mounts mounts volumes, and returns in time whatever Ceph does.
type Mounts interface {
	// Attach mounts a volume on an open place.
	Attach(ctx context.Context, v cephfs.Volume, place *os.File) error
	// Unmount takes a mount away.
	Unmount(ctx context.Context, m cephfs.Mounted) error
	// Measure reads the usage of a mount.
	Measure(ctx context.Context, m cephfs.Mounted) (cephfs.Usage, error)
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
	_ Mounts = (*cephfs.Client)(nil)
	_ Places = (*mount.Kernel)(nil)
)

// Config is what a Source is made of.
type Config struct {
	Mounts Mounts
	Places Places
	Table  Table
	Log    logr.Logger
}

// Source is the volumes in Ceph filesystems.
type Source struct{ cfg Config }

var _ csi.Trees = (*Source)(nil)

// New makes a Source.
func New(cfg Config) *Source { return &Source{cfg} }

// Profile describes the driver.
func (s *Source) Profile() csi.Profile {
	return csi.Profile{Name: quarry.DriverCephFS, Codes: csirpc.Table{
		{Err: cephvolume.ErrInvalid, Code: codes.InvalidArgument},
		{Err: cephvolume.ErrNotOurs, Code: codes.NotFound},
		{Err: cephfs.ErrBusy, Code: codes.Aborted},
		{Err: cephfs.ErrHangs, Code: codes.Unavailable},
		{Err: cephfs.ErrUnreachable, Code: codes.Unavailable},
		// After an error that is final the kubelet forgets a mount that it was not sure of, and never has it unstaged.
		{Err: cephfs.ErrShutOut, Code: codes.Unavailable},
		{Err: cephfs.ErrInUse, Code: codes.FailedPrecondition},
		{Err: cephfs.ErrKernel, Code: codes.FailedPrecondition},
		{Err: cephfs.ErrRefused, Code: codes.FailedPrecondition},
	}}
}

// Check refuses what is no handle of this driver. Every node has every volume.
func (s *Source) Check(handle string) error {
	_, err := cephvolume.Parse(handle)
	return err
}

// Accept takes every access mode, with a filesystem only.
func (s *Source) Accept(want csirpc.Access) (csi.Access, error) {
	if want.Block {
		return csi.Access{}, csirpc.Invalid("a volume in a filesystem is no block device")
	}
	if want.FSType != "" && want.FSType != fsType {
		return csi.Access{}, csirpc.Invalid("filesystem %.100q: a volume of Ceph has no other than %s", want.FSType, fsType)
	}
	options, err := mount.ParseOptions(fsType, want.Flags)
	return csi.Access{Access: want, Options: options, Frozen: options.ReadOnly}, err
}

// where reads what a call says of a volume.
func where(v csi.Volume) (cephvolume.ID, cephvolume.Attributes, error) {
	id, err := cephvolume.Parse(v.Handle)
	if err != nil {
		return id, cephvolume.Attributes{}, err
	}
	a, err := cephvolume.ParseAttributes(id, v.Context)
	if err != nil {
		return id, a, fmt.Errorf("volume_context: %w", err)
	}
	return id, a, nil
}

// Find says what a volume's mounts are known by. A call that ends a use does not say where the volume is: then every mount of Ceph at the path that the kubelet
// made for the volume counts.
func (s *Source) Find(_ context.Context, v csi.Volume) (csi.From, error) {
	from := csi.From{Types: []string{fsType}}
	if len(v.Context) == 0 {
		return from, s.Check(v.Handle)
	}
	id, a, err := where(v)
	from.Tree = cephfs.Source(id, a.Path)
	return from, err
}

// Ready checks what is known of a volume. Whether the directory exists is seen by mounting it.
func (s *Source) Ready(ctx context.Context, v csi.Volume, _ csi.Access) (csi.From, error) {
	if _, err := s.volume(v); err != nil {
		return csi.From{}, err
	}
	return s.Find(ctx, v)
}

// volume reads all that it takes to mount a volume. The monitors of the Secret are those of now, and outrank those that were recorded.
func (s *Source) volume(v csi.Volume) (cephfs.Volume, error) {
	id, a, err := where(v)
	if err != nil {
		return cephfs.Volume{}, err
	}
	c, err := cephvolume.ParseCredential(v.Secrets)
	switch {
	case err != nil:
		return cephfs.Volume{}, err
	case c.User != cephname.ClientUser:
		return cephfs.Volume{}, fmt.Errorf("the secret is of user %s, not %s: %w", c.User, cephname.ClientUser, cephvolume.ErrInvalid)
	}
	out := cephfs.Volume{ID: id, Path: a.Path, Monitors: c.Monitors, Credential: c}
	if len(out.Monitors) == 0 {
		out.Monitors = a.Monitors
	}
	if len(out.Monitors) == 0 {
		return out, fmt.Errorf("neither the secret nor the volume says where the monitors are: %w", cephvolume.ErrInvalid)
	}
	return out, nil
}

// Mount mounts a volume.
func (s *Source) Mount(ctx context.Context, v csi.Volume, want csi.Access, target string) error {
	which, err := s.volume(v)
	if err != nil {
		return err
	}
	for _, entry := range want.Flags {
		which.Options = append(which.Options, strings.Split(entry, ",")...)
	}
	place, err := s.cfg.Places.Place(target)
	if err != nil {
		return err
	}
	defer place.Close()
	err = s.cfg.Mounts.Attach(ctx, which, place)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w: %w", csi.ErrNotThere, err)
	}
	return err
}

// Release has nothing to do: a volume is mounted alone.
func (s *Source) Release(context.Context, csi.Volume) error { return nil }

// Unmount takes away a mount of a volume. It is never forced. A mount that the kernel took away while its last writes wait for Ceph is gone for the caller, and the
// volume is not mounted again on this node before they are done.
func (s *Source) Unmount(ctx context.Context, v csi.Volume, p mount.Point, _ bool) error {
	dir, base, err := s.cfg.Places.Parent(p.Path)
	if err != nil {
		return err
	}
	defer dir.Close()
	err = s.cfg.Mounts.Unmount(ctx, cephfs.Mounted{Dir: dir, Name: base, What: "volume " + v.Handle + " at " + p.Path, Volume: v.Handle})
	if !errors.Is(err, cephfs.ErrHangs) {
		return err
	}
	points, tableErr := s.cfg.Table.Points()
	if tableErr != nil {
		return errors.Join(err, tableErr)
	}
	if slices.ContainsFunc(points, func(q mount.Point) bool { return q.Path == p.Path && q.Filesystem == p.Filesystem }) {
		return err
	}
	s.cfg.Log.Info("Unmounted a volume whose last writes wait for Ceph", "volume", v.Handle, "path", p.Path)
	return nil
}

// Serves refuses a mount whose client Ceph shut out. Whatever else is in the way of asking says nothing about the client.
func (s *Source) Serves(ctx context.Context, at mount.Point) error {
	if _, err := s.Measure(ctx, at); errors.Is(err, cephfs.ErrShutOut) {
		return err
	}
	return nil
}

// shutOut says what a mount is whose client Ceph shut out, and what a person does then. While one pod has the volume, or waits for it, the kubelet does not have it
// unstaged.
const shutOut = "this node was cut off from Ceph for too long. Its pods get errors from the volume for good, and what they had not written yet is lost. Cordon the node, " +
	"delete the pods on it that use the volume, and those that wait for it, and uncordon the node once they are gone: then the volume is mounted anew"

// Measure reads the usage of a mount. Its size is the quota of the volume.
func (s *Source) Measure(ctx context.Context, at mount.Point) (fs.Usage, error) {
	dir, base, err := s.cfg.Places.Parent(at.Path)
	if err != nil {
		return fs.Usage{}, err
	}
	defer dir.Close()
	u, err := s.cfg.Mounts.Measure(ctx, cephfs.Mounted{Dir: dir, Name: base, What: at.Path})
	if errors.Is(err, cephfs.ErrShutOut) {
		err = fmt.Errorf("%w: %s", err, shutOut)
	}
	return fs.Usage{TotalBytes: u.TotalBytes, UsedBytes: u.UsedBytes, FreeBytes: u.FreeBytes, UsedInodes: u.UsedInodes}, err
}
