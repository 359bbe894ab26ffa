package ceph

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// containerID is how container runtimes name containers: they choose the digits at random.
var containerID = regexp.MustCompile(`^[0-9a-f]{64}$`)

// root opens the root directory of a container that runs on this node. The caller closes it.
func (t *Tool) root(container string) (*os.File, error) {
	if !containerID.MatchString(container) {
		return nil, fmt.Errorf("container %q: %w", container, ErrNoContainer)
	}
	if err := t.named(container); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(t.cfg.Proc)
	if err != nil {
		return nil, err
	}
	host, err := t.hostRoot()
	if err != nil {
		return nil, fmt.Errorf("container %s: %w", container, err)
	}
	var failed error
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		f, err := t.rootOf(e.Name(), container, host)
		if err == nil && f != nil {
			return f, nil
		}
		failed = errors.Join(failed, err)
	}
	if failed != nil {
		return nil, fmt.Errorf("container %s: %w", container, failed)
	}
	return nil, fmt.Errorf("container %s: %w", container, ErrNoContainer)
}

// hostRoot is the root directory of the node's first process.
func (t *Tool) hostRoot() (unix.Stat_t, error) {
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(t.cfg.Proc, "1/root"), &st); err != nil {
		return st, fmt.Errorf("root of the node: %w", err)
	}
	return st, nil
}

// rootOf opens the root directory of a process if it is one of the container; nil if it is not, or is gone. A runtime may have a program of its own in
// the control group of the container, which watches it: that one has the node's root directory, and what is found there is not the container's.
func (t *Tool) rootOf(process, container string, host unix.Stat_t) (*os.File, error) {
	if of, err := t.within(process, container); !of || err != nil {
		return nil, err
	}
	fd, err := unix.Open(filepath.Join(t.cfg.Proc, process, "root"), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("root of process %s: %w", process, err)
	}
	f := os.NewFile(uintptr(fd), "root of container "+container)
	// Another process may have got the number between the two.
	if of, err := t.within(process, container); !of || err != nil {
		f.Close()
		return nil, err
	}
	var own unix.Stat_t
	if err := unix.Fstat(fd, &own); err != nil || own.Dev == host.Dev && own.Ino == host.Ino {
		f.Close()
		return nil, err
	}
	return f, nil
}

// within reports whether a process is one of the container, by its control groups.
func (t *Tool) within(process, container string) (bool, error) {
	groups, err := os.ReadFile(filepath.Join(t.cfg.Proc, process, "cgroup"))
	if gone(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("control groups of process %s: %w", process, err)
	}
	return slices.ContainsFunc(strings.Split(string(groups), "\n"), func(line string) bool { return ofContainer(line, container) }), nil
}

// ofContainer reports whether a line names the control group of the container, or one below it. Runtimes name it ID, or PREFIX-ID.scope.
// The program with which CRI-O watches a container has a group named after it, too, and runs on the host.
func ofContainer(line, container string) bool {
	for _, element := range strings.Split(line, "/") {
		element = strings.TrimSuffix(element, ".scope")
		if strings.HasSuffix(element, "conmon-"+container) {
			continue
		}
		if element == container || strings.HasSuffix(element, "-"+container) || strings.HasSuffix(element, ":"+container) {
			return true
		}
	}
	return false
}

// gone reports whether a process ended meanwhile.
func gone(err error) bool { return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) }

// path leads to an open directory, for this process and for one that it starts.
func path(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }
