// Package sharedlun is the one place that knows what the nodes and the controller call things on a LUN that several nodes share: the LUN's
// identity, the volume group on it with its marks, the handle of a volume, and what a target keeps of reservations. It is pure: it knows
// neither the LUN nor the wire.
package sharedlun

import (
	"errors"
	"fmt"
)

// Kinds of failures, for errors.Is.
var (
	// ErrInvalid means that a name, a size or an identity is not accepted. The message says what is wrong.
	ErrInvalid = errors.New("not valid")
	// ErrNotFound means that this node does not see the LUN, or that the group or the volume does not exist.
	ErrNotFound = errors.New("not found")
	// ErrOtherLun means that the device under the number of the LUN is another LUN than the recorded one.
	ErrOtherLun = errors.New("another LUN than the recorded one")
	// ErrNotClean means that something of others is on the LUN.
	ErrNotClean = errors.New("the LUN is not empty")
	// ErrOldEpoch means that a later writer changed the group, or that this node was told of one.
	ErrOldEpoch = errors.New("the epoch is old")
	// ErrMoved means that the group, or the order of another caller, is newer than what the caller decided on.
	ErrMoved = errors.New("the group changed since")
	// ErrNoKey means that this node may not write: its key is not registered.
	ErrNoKey = errors.New("this node's key is not registered")
	// ErrNotReserved means that no node may write: nobody has reserved the LUN, so that a fenced one could, too, or somebody else has with another type.
	ErrNotReserved = errors.New("the LUN is not reserved for the nodes that have keys")
	// ErrNoReservations means that the target keeps no persistent reservations, or not those that all registered nodes hold.
	ErrNoReservations = errors.New("the target has no reservations")
	// ErrInitiator means that the name of the node's initiator is not the recorded one, or is that of another node, too.
	ErrInitiator = errors.New("not the initiator's own name")
	// ErrLast means that no other node has a key registered: the reservation would end, and nobody would be kept from writing.
	ErrLast = errors.New("no other node is registered")
	// ErrExists means that a volume of the name exists and is not what was asked for.
	ErrExists = errors.New("exists already")
	// ErrHeld means that a node holds the volume.
	ErrHeld = errors.New("held by a node")
	// ErrInUse means that a device or a session is in use on this node.
	ErrInUse = errors.New("in use")
	// ErrMisfit means that the table of a volume leaves the LUN, or would move or shrink the device that is there.
	ErrMisfit = errors.New("the table does not fit")
	// ErrNoSpace means that the group has not enough room.
	ErrNoSpace = errors.New("no space")
	// ErrBusy means that another call works on the group, or on the volume.
	ErrBusy = errors.New("another call is at work")
	// ErrUnread means that something could not be read, and that nothing was changed.
	ErrUnread = errors.New("could not be read")
	// ErrUnknown means that nobody can say how far a change went.
	ErrUnknown = errors.New("not known")
	// ErrRebooted means that the node was booted since a key was granted.
	ErrRebooted = errors.New("the node was booted since")
)

// Changed is an error that came after something was changed: whatever its kind, it is no refusal.
type Changed struct{ Err error }

// Error is that of the error.
func (c *Changed) Error() string { return c.Err.Error() }

// Unwrap is the error.
func (c *Changed) Unwrap() error { return c.Err }

// AfterChange marks an error that came after something was changed; nil when there is none.
func AfterChange(err error) error {
	if err == nil {
		return nil
	}
	return &Changed{Err: err}
}

// Identity tells a LUN from all others.
type Identity struct {
	// WWID is VPD page 0x83 as the kernel prints it, for example "naa.6001405...".
	WWID string
	// Serial is VPD page 0x80.
	Serial    string
	SizeBytes int64
}

// Check refuses an identity by which nobody could tell LUNs apart.
func (i Identity) Check() error {
	switch {
	case i.WWID == "":
		return fmt.Errorf("%w: the LUN has no WWID (VPD page 0x83)", ErrInvalid)
	case i.Serial == "":
		return fmt.Errorf("%w: the LUN has no serial number (VPD page 0x80)", ErrInvalid)
	case i.SizeBytes <= 0:
		return fmt.Errorf("%w: the LUN has %d bytes", ErrInvalid, i.SizeBytes)
	}
	return nil
}

// Named refuses a LUN of another WWID or serial number, whatever its size.
func (i Identity) Named(seen Identity) error {
	if i.WWID != seen.WWID || i.Serial != seen.Serial {
		return fmt.Errorf("%w: it has WWID %q and serial number %q, on record are %q and %q", ErrOtherLun, seen.WWID, seen.Serial, i.WWID, i.Serial)
	}
	return nil
}

// Same refuses a LUN that is not this one. A LUN that grew is the same; one that shrank is not.
func (i Identity) Same(seen Identity) error {
	if err := i.Named(seen); err != nil {
		return err
	}
	if seen.SizeBytes < i.SizeBytes {
		return fmt.Errorf("%w: it has %d bytes, on record are %d", ErrOtherLun, seen.SizeBytes, i.SizeBytes)
	}
	return nil
}

// Range is a part of a LUN, in bytes from its beginning.
type Range struct {
	Start, Size int64
}
