package sharedvolume

import (
	"errors"
	"fmt"
	"time"
)

// LookTime is how long an agent looks at a share before it says that the server does not answer. Whoever asks an agent to look waits longer than that.
const LookTime = 7 * time.Second

// Kinds of failures of work on a share, for errors.Is.
var (
	// ErrTaken means that a directory is there and not this volume's, or that the volume was made otherwise.
	ErrTaken = errors.New("it exists already")
	// ErrState means that the volume is not in a state for what was asked. The message says what is to be done.
	ErrState = errors.New("it is not possible now")
	// ErrBusy means that another call works on the same volume or share.
	ErrBusy = errors.New("another call works on it")
)

// Problem is an error that lies with the share itself.
type Problem struct {
	// Reason is one of the constants ReasonXxx.
	Reason string
	// Message is one sentence for a person.
	Message string
}

// Error is the message.
func (p *Problem) Error() string { return p.Message }

// NewProblem makes a Problem.
func NewProblem(reason, format string, args ...any) *Problem {
	return &Problem{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Share says which share is meant, and whose.
type Share struct {
	// Server and Path are those of the Nfs.
	Server, Path string
	// MountOptions are those of the Nfs.
	MountOptions []string
	// Owner is the UID of the Nfs.
	Owner string
	// ID is the identity that the share must have; empty where it is not known yet.
	ID string
	// HasVolumes is true when a PersistentVolume of the owner exists: then its records have to be there, and are not begun anew.
	HasVolumes bool
}

// Check refuses a share that cannot be meant.
func (s Share) Check() error {
	if _, err := Host(s.Server); err != nil {
		return err
	}
	if err := CheckPath(s.Path); err != nil {
		return err
	}
	if _, err := ParseOptions(s.MountOptions); err != nil {
		return err
	}
	if err := CheckShareID(s.ID); err != nil {
		return err
	}
	return CheckOwner(s.Owner)
}

// String is how people write it.
func (s Share) String() string { return Source(s.Server, s.Path) }

// Usage is how full a share is, in bytes.
type Usage struct{ Total, Used, Free int64 }

// Seen is what one look at a share found.
type Seen struct {
	// Problem says why the share cannot be used; nil when it can.
	Problem *Problem
	// ID is the identity written on the share; empty when it could not be read.
	ID string
	Usage
	// Version of the protocol, and the address that was connected to; empty when there is no mount.
	Version, Address string
}

// Wish is a volume that is to be made.
type Wish struct {
	// Name is the part of its handle behind the owner.
	Name string
	// Directory is relative to the root of the share.
	Directory string
	// OnDelete is what becomes of the directory when the volume is deleted.
	OnDelete Policy
	// Bytes is the size that is asked for; 0 records none. Nothing enforces it.
	Bytes int64
}

// Check refuses a directory that is not safe, and a size that is none.
func (w Wish) Check() error {
	if w.Bytes < 0 {
		return fmt.Errorf("a size of %d bytes: %w", w.Bytes, ErrInvalid)
	}
	return CheckDirectory(w.Directory)
}

// State of a volume's directory.
type State string

// The states.
const (
	// Making: nothing uses it yet.
	Making State = "making"
	// Made: it is there.
	Made State = "made"
	// Removing: nothing uses it any more.
	Removing State = "removing"
)

// Directory is what is recorded of one volume.
type Directory struct {
	ID
	// Directory is relative to the root of the share.
	Directory string
	OnDelete  Policy
	State     State
	Created   time.Time
	// ShareID is the identity of the share.
	ShareID string
	// Bytes is the size that the first call asked for. It does not follow an expansion. 0 where none is on record, as of volumes that an
	// agent of an earlier version made.
	Bytes int64
	// Problem says why the directory of a volume that was made cannot be used; empty when it can, and when nobody looked.
	Problem string
	// NeverMade is true when the volume never got as far as Made: nobody ever used it. It is false where nobody knows.
	NeverMade bool
}

// Discarded is where the directory of a volume is while it is being deleted, relative to the root of the share.
func (d Directory) Discarded() string { return MarkDirectory + "/" + RemovingDirectory + "/" + d.Key() }

// Removal is how far the removal of a volume is.
type Removal struct {
	// Done is true when the volume is gone.
	Done bool
	// Removed counts what was removed so far, over all calls.
	Removed int64
	// OnDelete is what is done.
	OnDelete Policy
	// ArchivedAs is the new place of an archived directory.
	ArchivedAs string
	// Note is one sentence about what was found otherwise than recorded; empty when there is nothing to say.
	Note string
}
