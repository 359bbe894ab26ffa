// Package process starts the lab's processes on the machine, records each by
// pid and start time, and ends exactly those. It never looks a process up by
// its name.
package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/test/lab/internal/network"
	"quarry.storage/quarry/test/lab/internal/state"
)

// Record names one started process.
type Record struct {
	Name  string `json:"name"`
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
}

// Alive tells whether the recorded process, and not a later one with the same
// pid, still runs.
func (r Record) Alive() bool {
	s, err := readStat(r.PID)
	return err == nil && s.start == r.Start
}

// Table is the directory that holds a lab's records, and the network namespace
// the lab's processes are in.
type Table struct {
	Dir       string
	Namespace string
}

func (t Table) file(name string) string { return filepath.Join(t.Dir, name+".json") }

// Get reads the record of a process; ok is false when there is none.
func (t Table) Get(name string) (r Record, ok bool, err error) {
	err = state.ReadJSON(t.file(name), &r)
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, false, nil
	}
	return r, err == nil, err
}

// Alive tells whether the process with the given name runs.
func (t Table) Alive(name string) bool {
	r, ok, err := t.Get(name)
	return err == nil && ok && r.Alive()
}

// All reads every record.
func (t Table) All() ([]Record, error) {
	entries, err := os.ReadDir(t.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var records []Record
	for _, e := range entries {
		name, isRecord := strings.CutSuffix(e.Name(), ".json")
		if !isRecord {
			continue
		}
		r, ok, err := t.Get(name)
		if err != nil {
			return nil, err
		}
		if ok {
			records = append(records, r)
		}
	}
	return records, nil
}

// Kill ends the named process and its session at once and forgets it. It is
// fine when there is no such process any more. The session matters for a node's
// kernel: its helpers, and the host process of each guest address space, live
// on after it and hold its disks.
func (t Table) Kill(name string) error {
	r, ok, err := t.Get(name)
	if err != nil || !ok {
		return err
	}
	if err := r.kill(); err != nil {
		return err
	}
	if inode := network.Inode(t.Namespace); inode != 0 {
		if err := sweep(inode, r.PID); err != nil {
			return fmt.Errorf("kill the session of %s: %w", name, err)
		}
	}
	return os.Remove(t.file(name))
}

// killPatience bounds how long a killed process may take to be gone: a process
// in an uninterruptible write dies when the write is done.
const killPatience = 20 * time.Second

func (r Record) kill() error {
	if !r.Alive() {
		return nil
	}
	if err := unix.Kill(r.PID, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill %s (pid %d): %w", r.Name, r.PID, err)
	}
	deadline := time.Now().Add(killPatience)
	for r.Alive() {
		if time.Now().After(deadline) {
			return fmt.Errorf("kill %s: pid %d is still there after %s", r.Name, r.PID, killPatience)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return nil
}
