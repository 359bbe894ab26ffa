package child

import (
	"errors"
	"os"
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
	Failure  *Failure `json:",omitempty"`
	Measured Usage    `json:",omitzero"`
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
)

// Failure is an error on its way between two processes.
type Failure struct {
	// Kind is the kind of the error, if it has one.
	Kind    string `json:",omitempty"`
	Message string
}

// kinds are the errors that are told apart on the other side. The first that fits wins.
var kinds = []struct {
	name string
	err  error
}{
	{"inUse", ErrInUse}, {"refused", ErrRefused}, {"kernel", ErrKernel}, {"unreachable", ErrUnreachable}, {"notExist", os.ErrNotExist},
}

func kindOf(err error) error {
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			return k.err
		}
	}
	return nil
}

func failure(err error) *Failure {
	if err == nil {
		return nil
	}
	f := &Failure{Message: err.Error()}
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
	if f == nil {
		return nil
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
