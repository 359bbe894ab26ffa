package child

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"time"

	"quarry.storage/quarry/agent/internal/host/nfs/kernel"
	"quarry.storage/quarry/agent/internal/host/nfs/share"
	"quarry.storage/quarry/pkg/sharedvolume"
)

// Mount says which share to mount, and what for.
type Mount struct {
	kernel.Source
	// Addresses of the host, in the order in which they are tried.
	Addresses []netip.Addr
}

// Hello is the first answer of a server: whether the share is mounted.
type Hello struct {
	// Address that was connected to.
	Address string
	Failure *Failure
}

// Operation names what a server can do.
type Operation string

// The operations.
const (
	// Look reads the identity and the usage of a share.
	Look Operation = "look"
	// Prepare writes the mark of an owner, tries what making a volume needs, and then looks.
	Prepare Operation = "prepare"
	// Ensure makes a volume's directory.
	Ensure Operation = "ensure"
	// Remove removes one.
	Remove Operation = "remove"
	// List reads records.
	List Operation = "list"
)

// Request asks a server for one operation.
type Request struct {
	// ID is repeated in the answer.
	ID        uint64
	Operation Operation
	Target    share.Target
	Volume    string              `json:",omitempty"`
	Directory string              `json:",omitempty"`
	OnDelete  sharedvolume.Policy `json:",omitempty"`
	// Budget is how long a removal goes on.
	Budget time.Duration `json:",omitempty"`
	// After and Limit choose a page.
	After string `json:",omitempty"`
	Limit int    `json:",omitempty"`
}

// Response is the answer to a Request.
type Response struct {
	ID      uint64
	Failure *Failure `json:",omitempty"`
	// ShareID is known even where a share cannot be used, if it could be read.
	ShareID   string                   `json:",omitempty"`
	Usage     sharedvolume.Usage       `json:",omitzero"`
	Directory sharedvolume.Directory   `json:",omitzero"`
	Removal   sharedvolume.Removal     `json:",omitzero"`
	Measured  Usage                    `json:",omitzero"`
	List      []sharedvolume.Directory `json:",omitempty"`
	Next      string                   `json:",omitempty"`
}

// Attachment asks for one directory of a share to be mounted on the place that is open as file 3.
type Attachment struct {
	Mount     Mount
	Target    share.Target
	Volume    string
	Directory string
}

// Unmounting asks for a name to be unmounted in the directory that is open as file 3.
type Unmounting struct {
	Name string
	// Force makes what waits for the server fail, and what was not written yet is lost.
	Force bool
}

// Measuring asks for the usage of what is mounted on a name in the directory that is open as file 3.
type Measuring struct{ Name string }

// Usage is what is used and free of a mount.
type Usage struct {
	TotalBytes, UsedBytes, FreeBytes int64
	// Inodes are all zero where the server does not limit them.
	TotalInodes, UsedInodes, FreeInodes int64
}

// Failure is an error on its way between two processes.
type Failure struct {
	// Kind is the kind of the error, if it has one.
	Kind string `json:",omitempty"`
	// Reason is that of a problem with the share.
	Reason  string `json:",omitempty"`
	Message string
}

// kinds are the errors that are told apart on the other side. The first that fits wins.
var kinds = []struct {
	name string
	err  error
}{
	{"invalid", sharedvolume.ErrInvalid},
	{"taken", sharedvolume.ErrTaken},
	{"busy", sharedvolume.ErrBusy},
	{"state", sharedvolume.ErrState},
	{"notOurs", sharedvolume.ErrNotOurs},
	{"notExist", os.ErrNotExist},
	{"inUse", ErrInUse},
	{"deadline", context.DeadlineExceeded},
}

// ErrInUse means that a mount is in use.
var ErrInUse = errors.New("the mount is in use")

func failure(err error) *Failure {
	if err == nil {
		return nil
	}
	f := &Failure{Message: err.Error()}
	var problem *sharedvolume.Problem
	if errors.As(err, &problem) {
		f.Reason, f.Message = problem.Reason, problem.Message
		return f
	}
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			f.Kind = k.name
			break
		}
	}
	return f
}

// Err is the error again.
func (f *Failure) Err() error {
	switch {
	case f == nil:
		return nil
	case f.Reason != "":
		return &sharedvolume.Problem{Reason: f.Reason, Message: f.Message}
	}
	for _, k := range kinds {
		if k.name == f.Kind {
			return &carried{message: f.Message, kind: k.err}
		}
	}
	return errors.New(f.Message)
}

// carried is an error of another process.
type carried struct {
	message string
	kind    error
}

// Error is the message as it was there.
func (c *carried) Error() string { return c.message }

// Unwrap is the kind.
func (c *carried) Unwrap() error { return c.kind }
