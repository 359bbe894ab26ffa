package iscsi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"quarry.storage/quarry/pkg/sharedlun"
)

// Record is what this node remembers of a volume that was staged here.
type Record struct {
	// UUID of the volume in LVM: another volume may have been given its name since.
	UUID string `json:"uuid"`
}

// Records keeps a file for each volume below one directory, which outlives the agent and the node's boots. A record says nothing about whether the
// volume is still this node's: the LUN does.
type Records struct {
	// Dir is made when the first record is.
	Dir string
}

func (r Records) path(id sharedlun.ID) string { return filepath.Join(r.Dir, id.Group, id.Name) }

// Load reads the record of a volume; an empty one when there is none. One that cannot be read is an error.
func (r Records) Load(id sharedlun.ID) (Record, error) {
	text, err := os.ReadFile(r.path(id))
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, nil
	}
	var out Record
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err == nil {
		err = sharedlun.CheckUUID("volume", out.UUID)
	}
	if err != nil {
		return Record{}, fmt.Errorf("what this node remembers of volume %s in %s: %w: %w. Remove the file once the volume is mounted nowhere on the node", id,
			r.path(id), sharedlun.ErrUnread, err)
	}
	return out, nil
}

// Remove forgets a volume. One that is not remembered needs no work.
func (r Records) Remove(id sharedlun.ID) error {
	if err := os.Remove(r.path(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget volume %s: %w: %w", id, sharedlun.ErrUnread, err)
	}
	return nil
}

// Stale are the volumes of a group that were remembered before a time.
func (r Records) Stale(group string, before time.Time) []sharedlun.ID {
	all, err := os.ReadDir(filepath.Join(r.Dir, group))
	if err != nil {
		// Nothing depends on it: what is forgotten later is only kept longer.
		return nil
	}
	var out []sharedlun.ID
	for _, f := range all {
		id, err := sharedlun.New(group, f.Name())
		if err != nil {
			continue
		}
		if info, err := f.Info(); err == nil && info.ModTime().Before(before) {
			out = append(out, id)
		}
	}
	return out
}

// Save replaces the record of a volume. It has reached the disk when the call returns.
func (r Records) Save(id sharedlun.ID, record Record) error {
	if err := r.save(id, record); err != nil {
		return fmt.Errorf("remember volume %s: %w: %w", id, sharedlun.ErrUnread, err)
	}
	return nil
}

func (r Records) save(id sharedlun.ID, record Record) error {
	text, err := json.Marshal(record)
	if err != nil {
		return err
	}
	path := r.path(id)
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	// No name of a volume begins with a dot.
	draft := filepath.Join(dir, "."+id.Name)
	out, err := os.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	if err := errors.Join(err, out.Sync(), out.Close()); err != nil {
		return err
	}
	if err := os.Rename(draft, path); err != nil {
		return err
	}
	for _, d := range []string{dir, r.Dir, filepath.Dir(r.Dir)} {
		opened, err := os.Open(d)
		if err == nil {
			err = errors.Join(opened.Sync(), opened.Close())
		}
		if err != nil {
			return err
		}
	}
	return nil
}
