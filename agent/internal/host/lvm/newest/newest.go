// Package newest remembers, across restarts of the agent and of the node, the newest state of each volume group that LVM told of on the node. LVM
// itself has no memory but the disks: with those away that a change was written to, it shows the group as it was before, and says nothing of it. Its
// backup of the metadata is no such memory: a report of an older state overwrites it.
package newest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// State is one state of a group.
type State struct {
	// Name of the group.
	Name string
	// Change counts the changes of its metadata. LVM calls it the sequence number.
	Change int64
	// Lacked: the group lacked a device.
	Lacked bool
	// Broken says why what was noted is not known. Empty when it is.
	Broken string
}

// Record is the memory, one file per group. It is safe for concurrent use.
type Record struct {
	dir string
	mu  sync.Mutex
}

// New makes a Record that keeps its files in a directory, which is made when it is needed.
func New(dir string) *Record { return &Record{dir: dir} }

// File is where the state of a group is kept. A person who knows that no newer state comes back removes it.
func (r *Record) File(uuid string) string { return filepath.Join(r.dir, uuid) }

// Known returns the newest states that were noted, by the UUIDs of their groups.
func (r *Record) Known() (map[string]State, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	entries, err := os.ReadDir(r.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	known := map[string]State{}
	for _, e := range entries {
		if strings.Contains(e.Name(), ".") {
			// A write that was cut off.
			continue
		}
		s, ok, err := r.read(e.Name())
		if err != nil {
			s, ok = State{Broken: err.Error()}, true
		}
		if ok {
			known[e.Name()] = s
		}
	}
	return known, nil
}

func (r *Record) read(uuid string) (s State, ok bool, err error) {
	text, err := os.ReadFile(r.File(uuid))
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, false, nil
	}
	if err != nil {
		return State{}, false, err
	}
	words := strings.Fields(string(text))
	if len(words) == 3 && words[2] == lacked {
		s.Lacked, words = true, words[:2]
	}
	if len(words) != 2 {
		return State{}, false, r.unclear(uuid, text)
	}
	s.Name = words[1]
	if s.Change, err = strconv.ParseInt(words[0], 10, 64); err != nil {
		return State{}, false, r.unclear(uuid, text)
	}
	return s, true, nil
}

// lacked is the word of a state in which the group lacked a device.
const lacked = "lacked-a-device"

func (r *Record) unclear(uuid string, text []byte) error {
	return fmt.Errorf("file %s holds %q, not the number of a change and the name of a group: remove it", r.File(uuid), text)
}

// Note notes the state that LVM told of a group. An earlier one than is noted counts only if nothing was noted since before, which the caller read, was: then the
// caller saw the whole group, and somebody put an earlier state back. What is broken is replaced by the state of a group that lacks no device.
func (r *Record) Note(uuid string, before, now State) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if uuid == "" || uuid != filepath.Base(uuid) || strings.Contains(uuid, ".") || now.Name == "" {
		return fmt.Errorf("note the state of group %q: %q is no UUID", now.Name, uuid)
	}
	noted, ok, err := r.read(uuid)
	if err != nil && now.Lacked || err == nil && ok && (noted == now || now.Change < noted.Change && noted != before) {
		return err
	}
	text := fmt.Sprintf("%d %s\n", now.Change, now.Name)
	if now.Lacked {
		text = fmt.Sprintf("%d %s %s\n", now.Change, now.Name, lacked)
	}
	return r.write(uuid, text)
}

// write replaces the file of a group. It is on disk when the call returns: what is noted has to outlive a power cut.
func (r *Record) write(uuid, text string) error {
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return err
	}
	path := r.File(uuid)
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	dir, err := os.Open(r.dir)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Forget forgets a group: it is removed, and what a disk of it that was away still tells of is of no use to anybody.
func (r *Record) Forget(uuid string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if uuid == "" || uuid != filepath.Base(uuid) {
		return fmt.Errorf("forget the state of a group: %q is no UUID", uuid)
	}
	if err := os.Remove(r.File(uuid)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
