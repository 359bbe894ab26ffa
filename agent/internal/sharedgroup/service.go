// Package sharedgroup works on the volume groups of shared LUNs, and maps their volumes on this node. For every change it looks at the LUN, at this
// node's key and at the group, has package decide say what to do, does that, and looks again. It knows neither the wire nor the tools.
package sharedgroup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/go-logr/logr"

	"quarry.storage/quarry/agent/internal/keylock"
	"quarry.storage/quarry/agent/internal/sharedgroup/decide"
	"quarry.storage/quarry/pkg/sharedlun"
)

// Luns finds LUNs, and asks targets for what they keep of them.
type Luns interface {
	// Device is the path of the LUN's device. A device that is another LUN is ErrOtherLun, one that this node does not see ErrNotFound.
	Device(ctx context.Context, lun sharedlun.Identity) (path string, err error)
	// Confirm refuses with ErrNoKey unless the key is this node's, and registered.
	Confirm(ctx context.Context, lun sharedlun.Identity, key uint64) (sharedlun.Reservation, error)
	// Astray tells which volumes of a group have devices that write to another LUN than this one by now, and which paths lead there, in words that are empty when
	// none is known to. An error says that a path could not be asked; what the others told counts.
	Astray(ctx context.Context, lun sharedlun.Identity, group string) (volumes []string, says string, err error)
}

// Groups works on the group of a LUN. A call returns when no process works on the LUN any more, also after its context has ended.
type Groups interface {
	// Quiet returns when no command on an owner's group runs on this node that an agent of before started: it may outlive its agent in the kernel.
	Quiet(ctx context.Context, ownerUID string) error
	// Look tells the group of an owner on a device, and what is there otherwise.
	Look(ctx context.Context, device string, ref sharedlun.Ref) (decide.Found, error)
	// Wipe removes what has that digest.
	Wipe(ctx context.Context, device, digest string, lun sharedlun.Identity) error
	// MakePV makes the device a physical volume whose UUID begins with the stem, MakeGroup the group on it.
	MakePV(ctx context.Context, device, ownerUID, stem string, lunBytes int64) error
	MakeGroup(ctx context.Context, device, name, ownerUID string, epoch uint64) error
	// Perform makes one change, if the group is still as it was reported.
	Perform(ctx context.Context, device string, g sharedlun.Group, step decide.Step) error
	// RemoveGroup removes an empty group, RemovePV the physical volume without a group.
	RemoveGroup(ctx context.Context, device string, g sharedlun.Group) error
	RemovePV(ctx context.Context, device, pvUUID string) error
}

// Devices are the devices of volumes on this node. Volumes and groups are named by their UUIDs in LVM.
type Devices interface {
	// Number is the number of a device, "8:16", and its size.
	Number(ctx context.Context, device string) (number string, bytes int64, err error)
	// List tells the devices of a group, those of zeroing and copying too, ordered by volume.
	List(ctx context.Context, group string) ([]decide.Mapped, error)
	// Load makes a device have exactly these ranges of the device with that number. Once the table is loaded the number cannot become another device's: sure is
	// asked then, and only if it agrees the table becomes live. Otherwise the device is what it was.
	Load(ctx context.Context, group, volume, lun string, ranges []sharedlun.Range, sure func(context.Context) error) error
	// Cut makes a device return errors, and those of a zeroing and a copying of the volume, too. Remove removes one that is not open: ErrInUse. What is being zeroed or copied of the volume counts as open.
	Cut(ctx context.Context, group, volume string) error
	Remove(ctx context.Context, group, volume string) error
	// Zero makes ranges that no device shows read as zero, through a device of their own, which is made as Load makes one.
	Zero(ctx context.Context, group, volume, lun string, ranges []sharedlun.Range, discard bool, sure func(context.Context) error, done func(at int64)) error
	// Copy fills ranges that no device shows with what others have, which no device shows either. What done is told has reached the LUN. Both have devices of their own, which are made as
	// Load makes one, and are gone when it returns without an error.
	Copy(ctx context.Context, d decide.Duplicate, sure func(context.Context) error, done func(at int64)) error
}

// Epochs remembers, on this node's own disk, the epochs that it has promised to leave groups to.
type Epochs interface {
	// Promised is the highest epoch that was promised for an owner's group; 0 when none was.
	Promised(ownerUID string) (uint64, error)
	// Promise remembers an epoch, unless a higher one is. It has reached the disk when the call returns.
	Promise(ownerUID string, epoch uint64) error
}

// Config is what a Service is made of.
type Config struct {
	// Node is the name of this node, by which volumes are held.
	Node    string
	Luns    Luns
	Groups  Groups
	Devices Devices
	// Filesystems makes the first filesystems of volumes.
	Filesystems Filesystems
	Epochs      Epochs
	// Changing tells whoever watches this node that its devices are changed here, until end is called; nil when nobody watches.
	Changing func() (end func())
	Log      logr.Logger
}

// Service works on the groups of all LUNs. Its methods are safe for concurrent use.
type Service struct {
	cfg   Config
	locks keylock.Locks

	// background ends with Close; work are the tasks.
	background context.Context
	stop       context.CancelFunc
	work       sync.WaitGroup

	mu     sync.Mutex
	quiet  map[string]bool   // owners of whom no earlier agent's command runs
	orders map[string]order  // by group and volume
	tasks  map[string]*task  // by group and volume, and by formatKey
	guards map[string]*guard // by group
	pacers map[string]*pacer // by group
}

// New makes a Service. What it does in the background ends with the context, and with Close.
func New(ctx context.Context, cfg Config) *Service {
	ctx, cancel := context.WithCancel(ctx)
	if cfg.Changing == nil {
		cfg.Changing = func() func() { return func() {} }
	}
	return &Service{cfg: cfg, background: ctx, stop: cancel, quiet: map[string]bool{}, orders: map[string]order{}, tasks: map[string]*task{}, guards: map[string]*guard{}, pacers: map[string]*pacer{}}
}

// Close ends what runs in the background, and waits for it. No call may come later.
func (s *Service) Close() {
	s.stop()
	s.work.Wait()
}

// lockLun lets one call at a time work on a LUN, and on an owner's group.
func (s *Service) lockLun(ctx context.Context, ref sharedlun.Ref) (unlock func(), err error) {
	return s.lock(ctx, "lun "+ref.Lun.WWID, "owner "+ref.OwnerUID)
}

// settled returns when no command of an earlier agent works on an owner's group. Those of this one have ended when its lock is free. The caller holds
// the lock.
func (s *Service) settled(ctx context.Context, ownerUID string) error {
	s.mu.Lock()
	done := s.quiet[ownerUID]
	s.mu.Unlock()
	if done {
		return nil
	}
	if err := s.cfg.Groups.Quiet(ctx, ownerUID); err != nil {
		return unread(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quiet[ownerUID] = true
	return nil
}

// lock takes all keys, or none, and waits for them until the context ends.
func (s *Service) lock(ctx context.Context, keys ...string) (unlock func(), err error) {
	if unlock, err = s.locks.Lock(ctx, keys...); err != nil {
		return nil, fmt.Errorf("%w: %w", sharedlun.ErrBusy, err)
	}
	return unlock, nil
}

// kinds are the errors that say what a caller is to do. One of no kind leaves it unknown how far a change went.
var kinds = []error{
	sharedlun.ErrInvalid, sharedlun.ErrNotFound, sharedlun.ErrOtherLun, sharedlun.ErrNotClean, sharedlun.ErrOldEpoch, sharedlun.ErrMoved,
	sharedlun.ErrNoKey, sharedlun.ErrNotReserved, sharedlun.ErrNoReservations, sharedlun.ErrExists, sharedlun.ErrHeld, sharedlun.ErrInUse, sharedlun.ErrMisfit,
	sharedlun.ErrNoSpace, sharedlun.ErrUnread, sharedlun.ErrUnknown, sharedlun.ErrBusy,
}

// unread marks an error of no kind, of what is looked at before anything is changed.
func unread(err error) error { return ofKind(err, sharedlun.ErrUnread) }

// unknown marks an error of no kind, of a change.
func unknown(err error) error { return ofKind(err, sharedlun.ErrUnknown) }

func ofKind(err, kind error) error {
	if err == nil || slices.ContainsFunc(kinds, func(k error) bool { return errors.Is(err, k) }) {
		return err
	}
	return fmt.Errorf("%w: %w", kind, err)
}
