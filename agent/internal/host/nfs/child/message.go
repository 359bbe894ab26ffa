package child

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"time"

	"quarry.storage/quarry/agent/internal/host/nfs/kernel"
	"quarry.storage/quarry/agent/internal/host/nfs/share"
	"quarry.storage/quarry/agent/internal/host/run/task"
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
	// Abandon removes what is left of a volume that was never made.
	Abandon Operation = "abandon"
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
	// Bytes is the size of a volume that is made.
	Bytes int64 `json:",omitempty"`
	// Budget is how long a removal goes on, and how long a list looks for directories: not at all where it is 0.
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
	task.Failure
	// Reason is that of a problem with the share.
	Reason string `json:",omitempty"`
}

var kinds = task.Kinds{
	{Name: "invalid", Err: sharedvolume.ErrInvalid},
	{Name: "taken", Err: sharedvolume.ErrTaken},
	{Name: "busy", Err: sharedvolume.ErrBusy},
	{Name: "state", Err: sharedvolume.ErrState},
	{Name: "notOurs", Err: sharedvolume.ErrNotOurs},
	{Name: "notExist", Err: os.ErrNotExist},
	{Name: "inUse", Err: ErrInUse},
	{Name: "stale", Err: ErrStale},
	{Name: "deadline", Err: context.DeadlineExceeded},
}

// Errors of mounts.
var (
	// ErrInUse means that a mount is in use.
	ErrInUse = errors.New("the mount is in use")
	// ErrStale means that the server does not know what is mounted (ESTALE): every use of the mount is an error until the server knows it again.
	ErrStale = errors.New("the server does not know the directory that is mounted")
)

func failure(err error) *Failure {
	if err == nil {
		return nil
	}
	var problem *sharedvolume.Problem
	if errors.As(err, &problem) {
		return &Failure{Failure: task.Failure{Message: problem.Message}, Reason: problem.Reason}
	}
	return &Failure{Failure: *kinds.Failure(err)}
}

// Err is the error again.
func (f *Failure) Err() error {
	switch {
	case f == nil:
		return nil
	case f.Reason != "":
		return &sharedvolume.Problem{Reason: f.Reason, Message: f.Message}
	}
	return kinds.Err(&f.Failure)
}
