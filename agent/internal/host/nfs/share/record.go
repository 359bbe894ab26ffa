package share

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"quarry.storage/quarry/pkg/sharedvolume"
)

const (
	// recordVersion is written into every record. An agent refuses records of a later version.
	recordVersion = 1
	maxRecord     = 16 << 10
	suffix        = ".json"
)

// record is what is written of one volume.
type record struct {
	Version   int                 `json:"version"`
	Owner     string              `json:"owner"`
	Volume    string              `json:"volume"`
	Directory string              `json:"directory"`
	OnDelete  sharedvolume.Policy `json:"onDelete"`
	State     sharedvolume.State  `json:"state"`
	// Inode is the directory's, as of the tree of records named by Tree.
	Inode uint64 `json:"inode,string"`
	Tree  string `json:"tree"`
	// Created is a Unix time in seconds.
	Created int64 `json:"created"`
	// Bytes is the size that was asked for when the record was made. It says which calls ask for this volume, and nothing else. Early versions
	// of the agent drop it when they write the record anew.
	Bytes int64 `json:"bytes,omitempty"`
	// Doing is what the removal does, and Archive the new place of the directory when it is archived.
	Doing   sharedvolume.Policy `json:"doing,omitempty"`
	Archive string              `json:"archive,omitempty"`
	// Unused is true when the removal began before the volume was ready: what is in its directory is not the volume's, and stays.
	Unused bool `json:"unused,omitempty"`
	// Moved is true when the directory that is deleted was moved out of sight. What is at its place since then is another's.
	Moved bool `json:"moved,omitempty"`
	// Removed counts entries.
	Removed int64 `json:"removed,omitempty"`
}

func (r record) id() sharedvolume.ID { return sharedvolume.ID{Owner: r.Owner, Name: r.Volume} }

// of reports whether two records are of the same directory.
func (r record) of(other record) bool { return r.Inode == other.Inode && r.Tree == other.Tree }

// key is the name of what belongs to the volume in the directories that all owners share.
func (r record) key() string { return r.id().Key() }

// neverMade reports whether nobody ever used the volume. A removal that an early version of the agent began before the volume was made does not
// say so on record, and is taken for that of a volume that was made.
func (r record) neverMade() bool { return r.State == sharedvolume.Making || r.Unused }

// load reads the record of a volume; found is false when there is none.
func (o *owned) load(name string) (r record, found bool, err error) {
	content, err := o.volumes.read(name + suffix)
	if isMissing(err) {
		return record{}, false, nil
	}
	if err == nil {
		r, err = decode(content, sharedvolume.ID{Owner: o.owner, Name: name})
	}
	if err != nil {
		return record{}, false, fmt.Errorf("record of volume %s: %w", name, err)
	}
	return r, true, nil
}

// decode checks everything that a record says, for it leads to a directory.
func decode(content []byte, id sharedvolume.ID) (record, error) {
	var r record
	decoder := json.NewDecoder(bytes.NewReader(content))
	if err := decoder.Decode(&r); err != nil {
		return record{}, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if r.Version != recordVersion {
		return record{}, fmt.Errorf("it has version %d, this agent knows %d: %w", r.Version, recordVersion, errDamaged)
	}
	if r.id() != id {
		return record{}, fmt.Errorf("it is of volume %s: %w", r.id(), errDamaged)
	}
	return r, r.check()
}

// check refuses what this agent never writes.
func (r record) check() error {
	directories, policies := []string{r.Directory}, []sharedvolume.Policy{r.OnDelete}
	if r.Archive != "" {
		directories = append(directories, r.Archive)
	}
	if r.State == sharedvolume.Removing {
		policies = append(policies, r.Doing)
	}
	for _, d := range directories {
		if err := sharedvolume.CheckDirectory(d); err != nil {
			return fmt.Errorf("%w: %w", errDamaged, err)
		}
	}
	for _, p := range policies {
		if _, err := sharedvolume.ParsePolicy(string(p)); err != nil || p == "" {
			return fmt.Errorf("%w: policy %q", errDamaged, p)
		}
	}
	states := []sharedvolume.State{sharedvolume.Making, sharedvolume.Made, sharedvolume.Removing}
	if !slices.Contains(states, r.State) || r.Inode == 0 || r.Tree == "" || r.Bytes < 0 {
		return fmt.Errorf("%w: state %q, inode %d, %d bytes", errDamaged, r.State, r.Inode, r.Bytes)
	}
	return nil
}

// create writes the first record of a volume. EEXIST says that another agent was faster.
func (o *owned) create(r record) error { return o.putRecord(r, false) }

// save replaces the record of a volume.
func (o *owned) save(r record) error { return o.putRecord(r, true) }

// finish makes sure that the directory is where it belongs, and writes that down. Another agent may have made the volume meanwhile, and may even
// have come to the end of its removal: a volume that is forgotten stays forgotten.
func (o *owned) finish(r record) (record, error) {
	inode, err := o.root.inode(r.Directory)
	if err != nil {
		return record{}, err
	}
	if inode != r.Inode {
		return record{}, fmt.Errorf("directory %q: another one took its place: %w", r.Directory, sharedvolume.ErrTaken)
	}
	now, found, err := o.load(r.Volume)
	switch {
	case err != nil:
		return record{}, err
	case !found, now.State == sharedvolume.Removing:
		return record{}, fmt.Errorf("volume %s was removed meanwhile: %w", r.Volume, sharedvolume.ErrState)
	case !now.of(r):
		return record{}, fmt.Errorf("volume %s: another agent makes it: %w", r.Volume, sharedvolume.ErrBusy)
	case now.State == sharedvolume.Made:
		return now, nil
	}
	if err := o.enlist(now); err != nil {
		return record{}, err
	}
	made := now
	made.State = sharedvolume.Made
	return made, o.replace(now, made)
}

// replace writes the record of a volume anew, unless another agent changed or removed it. NFS cannot compare and replace at once, so that an
// agent may still be too late. Whoever removes a volume takes it from the index first: what is not there afterwards goes again.
func (o *owned) replace(old, r record) error {
	content, err := json.Marshal(r)
	if err != nil {
		return err
	}
	draft := uuid.NewString()
	if err := o.write(o.tmpDir, draft, append(content, '\n')); err != nil {
		return err
	}
	// The look comes after the draft, which takes a while to write.
	if err := o.same(old); err != nil {
		return errors.Join(err, ignoreMissing(o.unlink(o.tmpDir, draft)))
	}
	if err := o.rename(o.tmpDir, draft, o.volumes, r.Volume+suffix); err != nil || r.Tree != o.tree {
		return err
	}
	if kept, err := o.keeps(r); err != nil || kept {
		return err
	}
	if err = o.same(r); err == nil {
		err = ignoreMissing(o.unlink(o.volumes, r.Volume+suffix))
	}
	return errors.Join(err, changed(r))
}

// same refuses a record that is not what was read of it.
func (o *owned) same(r record) error {
	now, found, err := o.load(r.Volume)
	if err == nil && (!found || now != r) {
		err = changed(r)
	}
	return err
}

func changed(r record) error {
	return fmt.Errorf("volume %s: another agent changed or removed it meanwhile: %w", r.Volume, sharedvolume.ErrBusy)
}

// progress writes down how far a deletion is, and returns the record as it is then; found is false when another agent came to its end meanwhile: a
// volume that is forgotten stays forgotten. The caller may have read the record before another agent began something else: nothing is
// deleted then.
func (o *owned) progress(r record) (now record, found bool, err error) {
	now, found, err = o.load(r.Volume)
	if err != nil || !found {
		return r, false, err
	}
	if !now.of(r) || now.State != sharedvolume.Removing || now.Doing != sharedvolume.Delete {
		return r, true, changed(r)
	}
	next := now
	next.Moved, next.Removed = now.Moved || r.Moved, max(now.Removed, r.Removed)
	return next, true, o.replace(now, next)
}

func (o *owned) putRecord(r record, replace bool) error {
	content, err := json.Marshal(r)
	if err != nil {
		return err
	}
	volumes := o.volumes
	if r.Owner != o.owner {
		// The records of all owners are compared with a share that was copied.
		if volumes, err = o.marks.open(volumesDir + "/" + r.Owner); err != nil {
			return err
		}
		defer volumes.close()
	}
	return o.put(o.tmpDir, volumes, r.Volume+suffix, append(content, '\n'), replace)
}

// put makes a whole file appear at once, or replaces one at once.
func (s *Share) put(tmp, in dir, name string, content []byte, replace bool) error {
	if !replace {
		_, err := s.add(tmp, in, name, content)
		return err
	}
	draft := uuid.NewString()
	if err := s.write(tmp, draft, content); err != nil {
		return err
	}
	return s.rename(tmp, draft, in, name)
}

// add makes a whole file appear at once, where nothing has its name. On a server without hard links it is not sure that the file stays: of two
// agents at the same moment, the later one may replace the file of the other.
func (s *Share) add(tmp, in dir, name string, content []byte) (sure bool, err error) {
	draft := uuid.NewString()
	if err := s.write(tmp, draft, content); err != nil {
		return false, err
	}
	err = s.link(tmp, draft, in, name)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EMLINK) {
		return false, s.move(tmp, draft, in, name)
	}
	return true, errors.Join(err, s.unlink(tmp, draft))
}

// forget removes the record of a volume, as the last step of its removal. The record of a directory that another agent made meanwhile stays, and
// so does that of a volume that was being made and is ready by now.
func (o *owned) forget(r record) error {
	now, found, err := o.load(r.Volume)
	if err != nil || !found {
		return err
	}
	if !now.of(r) || (r.State == sharedvolume.Making) != (now.State == sharedvolume.Making) {
		return fmt.Errorf("volume %s was made anew meanwhile: %w", r.Volume, sharedvolume.ErrBusy)
	}
	return ignoreMissing(o.unlink(o.volumes, r.Volume+suffix))
}

// recordOf reads the record of a volume of any owner; found is false when there is none.
func (o *owned) recordOf(id sharedvolume.ID) (r record, found bool, err error) {
	content, err := o.marks.read(volumesDir + "/" + id.Owner + "/" + id.Name + suffix)
	if err != nil {
		return record{}, false, ignoreMissing(err)
	}
	r, err = decode(content, id)
	return r, err == nil, err
}

func (o *owned) public(r record) sharedvolume.Directory {
	return sharedvolume.Directory{
		ID: r.id(), Directory: r.Directory, OnDelete: r.OnDelete, State: r.State, Created: time.Unix(r.Created, 0), ShareID: o.id,
		Bytes: r.Bytes, NeverMade: r.neverMade(),
	}
}

func ignoreMissing(err error) error {
	if isMissing(err) {
		return nil
	}
	return err
}
