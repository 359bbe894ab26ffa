package iscsi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/agent/internal/host/run"
)

// socket is where iscsid listens for iscsiadm.
const socket = "@ISCSIADM_ABSTRACT_NAMESPACE"

const (
	// probeTimeout is how long a portal may take for a connection, answerTimeout how long iscsid may take to answer.
	probeTimeout  = 5 * time.Second
	answerTimeout = 3 * time.Second
)

// inside runs a function in a network namespace. Its thread ends with it.
func inside(namespace string, f func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		result <- func() error {
			ns, err := os.Open(namespace)
			if err != nil {
				return err
			}
			defer ns.Close()
			if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("enter %s: %w", namespace, err)
			}
			return f()
		}()
	}()
	return <-result
}

// listening reports whether somebody serves sessions where iscsiadm connects. The error is errDeaf when somebody has the socket, and nobody answers there: iscsid hangs, or it died and
// left a child behind, which has the socket open.
func listening(namespace string) (yes bool, err error) {
	err = inside(namespace, func() error {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		err = unix.Connect(fd, &unix.SockaddrUnix{Name: socket})
		switch {
		case errors.Is(err, unix.ECONNREFUSED):
			return nil
		case errors.Is(err, unix.EAGAIN):
			return errDeaf
		case err == nil:
			err = answered(fd)
		}
		yes = err == nil
		return err
	})
	if err != nil {
		return false, fmt.Errorf("iscsid: %w", err)
	}
	return yes, nil
}

// answered waits until the other end hangs up, which iscsid does with whoever sends it less than a request, whatever its version is.
func answered(fd int) error {
	if err := unix.Shutdown(fd, unix.SHUT_WR); err != nil {
		return err
	}
	deadline := time.Now().Add(answerTimeout)
	for {
		left := time.Until(deadline)
		if left <= 0 {
			return errDeaf
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
		switch {
		case err != nil && !errors.Is(err, unix.EINTR):
			return err
		case n > 0:
			return nil
		}
	}
}

// server finds the process that serves sessions; 0 when none does, 1 when process 1 starts it for the first who connects. The error is errDeaf for one that does
// not answer.
func (h *Host) server() (pid int, err error) {
	yes, err := h.listens()
	h.heard(err)
	if err != nil || !yes {
		return 0, err
	}
	if pid, err = h.process(daemon); err != nil || pid != 0 {
		return pid, err
	}
	return 1, nil
}

// dial connects to a portal and hangs up.
func dial(ctx context.Context, namespace, portal string) error {
	return inside(namespace, func() error {
		// A literal address: nothing is looked up, and the connection is made on this thread.
		conn, err := (&net.Dialer{Timeout: probeTimeout}).DialContext(ctx, "tcp", portal)
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// rootOf is the root directory of a process.
func (h *Host) rootOf(pid int) string { return filepath.Join(h.cfg.Proc, strconv.Itoa(pid), "root") }

// ours reports whether a process sees the mounts that this one sees, and the host does not: then it is our iscsid, or an earlier one of ours.
func (h *Host) ours(pid int) bool {
	mounts := func(pid string) string {
		text, err := os.Readlink(filepath.Join(h.cfg.Proc, pid, "ns/mnt"))
		if err != nil {
			return ""
		}
		return text
	}
	self := mounts("self")
	return pid > 1 && self != "" && self != mounts("1") && mounts(strconv.Itoa(pid)) == self
}

// eraser removes files; an os.Root is one.
type eraser interface {
	Lstat(name string) (fs.FileInfo, error)
	Remove(name string) error
}

// remove removes a file that may be gone. A file system that is mounted for reading, as that of the agent's image is, refuses before it looks whether there is anything to remove.
func remove(from eraser, file string) error {
	_, err := from.Lstat(file)
	if err == nil {
		err = from.Remove(file)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// tool runs iscsiadm beside the process that serves sessions.
func (h *Host) tool(ctx context.Context, args ...string) (run.Result, error) {
	pid, err := h.server()
	if err == nil && pid == 0 {
		err = errNoDaemon
	}
	if err != nil {
		return run.Result{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	of := filepath.Join(h.cfg.Proc, strconv.Itoa(pid), "ns")
	return h.cfg.Runner.Run(ctx, run.Command{Path: nsenter, Args: append([]string{
		"--mount=" + filepath.Join(of, "mnt"), "--net=" + h.network(), "--", iscsiadm,
	}, args...)})
}

// errNoDaemon means that nobody serves sessions.
var errNoDaemon = errors.New("no iscsid runs")

// exitCode is that of a process which ended; -1 when it did not.
func exitCode(err error) int {
	var e *run.Error
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return e.ExitCode
	}
	return -1
}
