package sole

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// unlocked looks for an agent that is older than the lock: a process of the agent's program that has the same directory of the host mounted
// and does not have the file of the lock open. An agent outside of a pod has nothing mounted there, and knows others by the lock only.
// It is needed until test/upgrade/base names a commit after decision 0037.
func (t *Turn) unlocked() error {
	own, err := t.mounted("self")
	if err != nil || own == "" {
		return wrap(err)
	}
	program, err := os.Readlink(filepath.Join(t.cfg.Proc, "self/exe"))
	if err != nil {
		return wrap(err)
	}
	entries, err := os.ReadDir(t.cfg.Proc)
	if err != nil {
		return wrap(err)
	}
	for _, e := range entries {
		id, err := strconv.Atoi(e.Name())
		if err != nil || id == os.Getpid() {
			continue
		}
		switch older, err := t.older(e.Name(), filepath.Base(program), own); {
		case gone(err):
		case err != nil:
			return wrap(err)
		case older:
			return fmt.Errorf("waiting for an older agent that works on this node: process %d", id)
		}
	}
	return nil
}

// running returns what a process runs, and by which of its threads that can be told, as a path below /proc. The first thread of a process may have
// ended while others go on: it has no program then, and neither files nor mounts.
func (t *Turn) running(id string) (exe, thread string, err error) {
	exe, err = os.Readlink(filepath.Join(t.cfg.Proc, id, "exe"))
	if err == nil || !gone(err) {
		return exe, id, err
	}
	threads, unread := os.ReadDir(filepath.Join(t.cfg.Proc, id, "task"))
	if unread != nil {
		return "", "", unread
	}
	for _, e := range threads {
		thread = filepath.Join(id, "task", e.Name())
		if exe, err = os.Readlink(filepath.Join(t.cfg.Proc, thread, "exe")); err == nil || !gone(err) {
			return exe, thread, err
		}
	}
	return "", "", err
}

// older reports whether a process is an agent that does not know the lock.
func (t *Turn) older(id, program, own string) (bool, error) {
	exe, id, err := t.running(id)
	// A program that was replaced on its disk is still that program.
	if err != nil || filepath.Base(strings.TrimSuffix(exe, " (deleted)")) != program {
		return false, err
	}
	text, err := os.ReadFile(filepath.Join(t.cfg.Proc, id, "cmdline"))
	if err != nil {
		return false, err
	}
	args := bytes.Split(text, []byte{0})
	if len(args) > 1 && slices.Contains(t.cfg.Except, string(args[1])) {
		return false, nil
	}
	if place, err := t.mounted(id); err != nil || place != own {
		return false, err
	}
	knows, err := t.knows(id)
	return err == nil && !knows, err
}

// mounted returns what a process has mounted at the directory where agents meet: the device, and the path on it. A pod has the host's
// directory there only when it may mount whatever it likes. Nothing of the process's filesystems is touched: they may hang.
func (t *Turn) mounted(id string) (string, error) {
	text, err := os.ReadFile(filepath.Join(t.cfg.Proc, id, "mountinfo"))
	if err != nil {
		return "", err
	}
	place := ""
	for line := range strings.Lines(string(text)) {
		// See proc_pid_mountinfo(5): ID, parent, device, root, mount point. The last mount covers those before it.
		if f := strings.Fields(line); len(f) > 4 && f[4] == t.cfg.Dir {
			place = f[2] + " " + f[3]
		}
	}
	return place, nil
}

// knows reports whether a process has the file of the lock open.
func (t *Turn) knows(id string) (bool, error) {
	dir := filepath.Join(t.cfg.Proc, id, "fd")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		switch to, err := os.Readlink(filepath.Join(dir, e.Name())); {
		case err == nil && to == filepath.Join(t.cfg.Dir, lockName):
			return true, nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return false, err
		}
	}
	return false, nil
}

// gone reports whether an error says that a process has ended meanwhile, or has no program: a thread of the kernel, or one that has ended.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }

func wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(waiting+": %w", err)
}
