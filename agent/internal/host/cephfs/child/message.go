package child

import (
	"errors"
	"os"

	"quarry.storage/quarry/agent/internal/host/run/task"
)

// Attachment asks for a volume to be mounted on the place that is open as file 3.
type Attachment struct {
	// FSID, Filesystem and Path say what is mounted; Monitors know where it is.
	FSID, Filesystem, Path string
	Monitors               []string
	// User and Secret are what the monitors are shown.
	User, Secret string
	// Options are mount options of the kernel for any filesystem.
	Options []string
}

// Unmounting asks for a name to be unmounted in the directory that is open as file 3.
type Unmounting struct{ Name string }

// Measuring asks for the usage of what is mounted on a name in the directory that is open as file 3.
type Measuring struct{ Name string }

// Usage is what is used and free of a mount.
type Usage struct {
	TotalBytes, UsedBytes, FreeBytes int64
	// UsedInodes are the files and directories; zero where they could not be read.
	UsedInodes int64
}

// Response says how a task went.
type Response struct {
	Failure  *task.Failure `json:",omitempty"`
	Measured Usage         `json:",omitzero"`
}

// Kinds of failures, for errors.Is.
var (
	// ErrInUse means that a mount is in use.
	ErrInUse = errors.New("the mount is in use")
	// ErrRefused means that the monitors do not take the key, or that this node is blocked.
	ErrRefused = errors.New("refused by Ceph")
	// ErrKernel means that the kernel of this node cannot mount it.
	ErrKernel = errors.New("not possible with the kernel of this node")
	// ErrUnreachable means that no monitor, or no metadata server, answered.
	ErrUnreachable = errors.New("no answer from Ceph")
	// ErrShutOut means that Ceph serves the client of a mount no more: every use of the mount is an error until it is mounted anew.
	ErrShutOut = errors.New("the client of this mount was shut out by Ceph")
)

var kinds = task.Kinds{
	{Name: "inUse", Err: ErrInUse},
	{Name: "refused", Err: ErrRefused},
	{Name: "kernel", Err: ErrKernel},
	{Name: "unreachable", Err: ErrUnreachable},
	{Name: "shutOut", Err: ErrShutOut},
	{Name: "notExist", Err: os.ErrNotExist},
}

// Err is the error of the task, for errors.Is.
func (r Response) Err() error { return kinds.Err(r.Failure) }
