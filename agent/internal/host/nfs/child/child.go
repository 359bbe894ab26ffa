// Package child is what the agent runs in processes of their own: everything that waits for a server of NFS. Such a process may be
// killed at any time, and is, when it does not answer in time. It holds the mounts that it works through: they go with it.
package child

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/agent/internal/host/nfs/kernel"
	"quarry.storage/quarry/agent/internal/host/nfs/share"
	"quarry.storage/quarry/agent/internal/host/run/netns"
	"quarry.storage/quarry/agent/internal/host/run/task"
)

// Command is the first argument of the agent's program that makes it one of these processes. The second is one of the tasks, the third
// the network namespace to work in.
const Command = "nfs-child"

// Tasks.
const (
	// TaskServe mounts a share out of sight and works on it until its input ends.
	TaskServe = "serve"
	// TaskAttach mounts one directory of a share for pods.
	TaskAttach = "attach"
	// TaskUnmount unmounts.
	TaskUnmount = "unmount"
	// TaskMeasure reads the usage of a mount of a pod.
	TaskMeasure = "measure"
	// TaskProbe asks whether a server answers.
	TaskProbe = "probe"
)

// place is the number of the file that a task is handed.
const place = 3

// Main is the whole process. It talks over standard input and output.
func Main(argv []string, in io.Reader, out io.Writer) int {
	return task.Main(func() error { return run(argv, in, out) })
}

func run(argv []string, in io.Reader, out io.Writer) error {
	if len(argv) != 4 || argv[1] != Command {
		return errors.New("this is for the agent itself")
	}
	kind, namespace := argv[2], argv[3]
	// Mounts of pods are seen in the mount namespace of the agent.
	if kind != TaskUnmount && kind != TaskMeasure {
		if err := netns.Enter(namespace, argv); err != nil {
			return err
		}
	}
	// Modes are as they are given.
	unix.Umask(0)
	switch kind {
	case TaskServe:
		return Serve(in, out, open)
	case TaskAttach:
		return Once(in, out, told(attach))
	case TaskUnmount:
		return Once(in, out, told(unmount))
	case TaskMeasure:
		return Once(in, out, measure)
	case TaskProbe:
		return Once(in, out, told(probe))
	}
	return fmt.Errorf("no task %q", kind)
}

// Once reads one message, does what it asks for, and says how that went.
func Once[T any](in io.Reader, out io.Writer, do func(T) (Response, error)) error {
	return task.Once(in, out, func(message T) Response {
		r, err := do(message)
		r.Failure = failure(err)
		return r
	})
}

// told makes a task of one that says only how it went.
func told[T any](do func(T) error) func(T) (Response, error) {
	return func(message T) (Response, error) { return Response{}, do(message) }
}

// site is a share at an address.
type site struct {
	source  kernel.Source
	at      netip.AddrPort
	placing sync.Mutex
}

// open mounts a share out of sight, and keeps that mount: it keeps the connection to the server.
func open(m Mount) (Site, string, error) {
	_, at, err := mount(m)
	return &site{source: m.Source, at: at}, at.String(), err
}

// Open mounts the share once more, over the same connection.
func (s *site) Open() (*share.Share, error) {
	root, err := kernel.Mount(s.source, s.at)
	if err != nil {
		return nil, err
	}
	return share.New(root, share.Config{Placing: &s.placing}), nil
}

func mount(m Mount) (int, netip.AddrPort, error) {
	at, err := find(m)
	if err != nil {
		return -1, netip.AddrPort{}, err
	}
	root, err := kernel.Mount(m.Source, at)
	return root, at, err
}

func find(m Mount) (netip.AddrPort, error) {
	port, err := strconv.ParseUint("0"+m.Options.Port, 10, 16)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("port: %w", err)
	}
	// The one who asked kills this process when it takes too long.
	ctx, cancel := context.WithTimeout(context.TODO(), time.Minute)
	defer cancel()
	return kernel.Probe(ctx, m.Addresses, uint16(port), m.Options.Version)
}

func probe(m Mount) error {
	_, err := find(m)
	return err
}

// attach mounts the share as pods want it, finds the volume's directory in that very mount, and shows it at the place.
func attach(a Attachment) error {
	root, _, err := mount(a.Mount)
	if err != nil {
		return err
	}
	s := share.New(root, share.Config{})
	defer s.Close()
	dir, err := s.Find(a.Target, a.Volume, a.Directory)
	if err != nil {
		return err
	}
	defer dir.Close()
	return kernel.Attach(root, int(dir.Fd()), place)
}

// measure reads the usage of a mount. What else is there, once the mount is gone, is nobody's volume.
func measure(m Measuring) (Response, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(fmt.Sprintf("/proc/self/fd/%d/%s", place, m.Name), &st); err != nil {
		return Response{}, unreadable(m.Name, err)
	}
	if st.Type != unix.NFS_SUPER_MAGIC {
		return Response{}, fmt.Errorf("%s is no mount of NFS: %w", m.Name, os.ErrNotExist)
	}
	return Response{Measured: Usage{
		TotalBytes: int64(st.Blocks) * st.Bsize, UsedBytes: int64(st.Blocks-st.Bfree) * st.Bsize, FreeBytes: int64(st.Bavail) * st.Bsize,
		TotalInodes: int64(st.Files), UsedInodes: int64(st.Files - st.Ffree), FreeInodes: int64(st.Ffree),
	}}, nil
}

// unreadable says why a mount cannot be read.
func unreadable(name string, err error) error {
	if errors.Is(err, unix.ESTALE) {
		return fmt.Errorf("%w: usage of %s: %w", ErrStale, name, err)
	}
	return fmt.Errorf("usage of %s: %w", name, err)
}

// forceTries is how often a mount is forced before it is only taken out of sight. Each time, what waits for the server fails.
const forceTries = 3

func unmount(u Unmounting) error {
	var err error
	if !u.Force {
		err = kernel.Unmount(place, u.Name, 0)
	} else {
		for range forceTries {
			if err = kernel.Unmount(place, u.Name, unix.MNT_FORCE); err == nil {
				return nil
			}
			time.Sleep(time.Second)
		}
		err = kernel.Unmount(place, u.Name, unix.MNT_FORCE|unix.MNT_DETACH)
	}
	if errors.Is(err, unix.EBUSY) {
		err = fmt.Errorf("%w: %w", ErrInUse, err)
	}
	return err
}
