package share

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"quarry.storage/quarry/pkg/sharedvolume"
)

// note enters the directory of a volume in the index, by which a directory is recognised as somebody's volume.
func (o *owned) note(r record) error {
	return o.put(o.tmpDir, o.index, strconv.FormatUint(r.Inode, 10), []byte(r.id().String()+"\n"), true)
}

// unnote takes the directory of a volume from the index. An entry that is another volume's by now stays: in a copy of the share that one
// may have the same number.
func (o *owned) unnote(r record) error {
	return o.withdraw(r, o.index, strconv.FormatUint(r.Inode, 10))
}

// withdraw removes a file that says nothing but a volume's name. Another volume's may replace it after the look at it: what was taken is told by
// its inode, and goes back.
func (o *owned) withdraw(r record, in dir, name string) error {
	content, inode, err := in.file(name)
	if err != nil || strings.TrimSpace(string(content)) != r.id().String() {
		return ignoreMissing(err)
	}
	draft := uuid.NewString()
	if err := o.take(in, name, o.tmpDir, draft); err != nil {
		return ignoreMissing(err)
	}
	taken, err := o.tmpDir.search(draft, func(l listed) bool { return l.name == draft })
	if err == nil && taken.inode == inode {
		return ignoreMissing(o.unlink(o.tmpDir, draft))
	}
	back := o.move(o.tmpDir, draft, in, name)
	if isTaken(back) || isMissing(back) || errors.Is(back, unix.ESTALE) {
		// A still later one is there, or another removal took the directory, which was empty: the volume enters itself anew when it is ready.
		back = ignoreMissing(o.unlink(o.tmpDir, draft))
	}
	return errors.Join(err, back)
}

// holder finds the volume, of any owner, whose directory has the inode. An entry of the index that its volume's record does not
// confirm is left over, and counts for nothing.
func (o *owned) holder(inode uint64) (sharedvolume.ID, bool, error) {
	id, found, err := o.indexed(inode)
	if err != nil || !found {
		return sharedvolume.ID{}, false, err
	}
	r, found, err := o.recordOf(id)
	return id, found && r.Inode == inode && r.Tree == o.tree, err
}

// unrecorded refuses to take a volume without a record for one that is gone while something is at the place that its caller has on record. What
// another volume made there since, inside or around it is that one's.
func (o *owned) unrecorded(name, directory string) error {
	if directory == "" {
		return nil
	}
	_, err := o.root.inode(directory)
	switch {
	case isMissing(err):
		return nil
	case err != nil && !isOther(err):
		return err
	}
	if err := o.keepOff(directory, sharedvolume.ID{Owner: o.owner, Name: name}); errors.Is(err, sharedvolume.ErrTaken) {
		return nil
	} else if err != nil {
		return err
	}
	return fmt.Errorf("volume %s has no record on the share, and something is at its place %q: nobody knows whose it is. Restore %s/%s/%s/%s%s from a backup, "+
		"or move what is at the place away: %w", name, directory, sharedvolume.MarkDirectory, volumesDir, o.owner, name, suffix, sharedvolume.ErrState)
}

// indexed reads which volume the index gives an inode to; found is false when it names none.
func (o *owned) indexed(inode uint64) (id sharedvolume.ID, found bool, err error) {
	content, err := o.index.read(strconv.FormatUint(inode, 10))
	if err != nil {
		return sharedvolume.ID{}, false, ignoreMissing(err)
	}
	if id, err = sharedvolume.Parse(strings.TrimSpace(string(content))); err != nil {
		return sharedvolume.ID{}, false, fmt.Errorf("%w: index of inode %d: %w", errDamaged, inode, err)
	}
	return id, true, nil
}

// keeps reports whether the inode on record still is the volume's. A directory that is gone leaves its inode to the next one that is made. If
// that one is a volume's, the index says so before anybody sees it.
func (o *owned) keeps(r record) (bool, error) {
	id, found, err := o.indexed(r.Inode)
	return found && id == r.id(), err
}

// enlist enters a volume in the index and at its place, if another agent took it from there by mistake.
func (o *owned) enlist(r record) error {
	_, found, err := o.indexed(r.Inode)
	if err == nil && !found {
		// Whoever has the inode by now has replaced the entry, or does so later.
		err = o.put(o.tmpDir, o.index, strconv.FormatUint(r.Inode, 10), []byte(r.id().String()+"\n"), false)
	}
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	at, entered, err := o.entered(r)
	at.close()
	if err == nil && !entered {
		err = o.claim(r)
	}
	if err != nil || found && entered {
		return err
	}
	return o.same(r)
}

// ousted refuses a volume whose inode another volume has by now.
func (o *owned) ousted(r record) error {
	id, held, err := o.holder(r.Inode)
	if err == nil && held && id != r.id() {
		err = fmt.Errorf("directory %q of volume %s is gone from the share, and what is there now is that of volume %s: %w",
			r.Directory, r.Volume, id, sharedvolume.ErrState)
	}
	return err
}

// strayed refuses to call the directory of a volume gone that is out of sight under another volume's name: a rename that an agent asked for
// while its way to the server was broken can arrive when that volume is gone and this one has its place. Only a person puts it back. In a copy
// of the share nobody can tell, and what the removal itself moved and removed is gone.
func (o *owned) strayed(r record) error {
	if r.Tree != o.tree || r.Moved {
		return nil
	}
	kept, err := o.keeps(r)
	if err != nil {
		return err
	}
	if !kept {
		// Where another volume has the inode by now, the directory is gone, and what is found is that one's.
		if _, held, err := o.holder(r.Inode); err != nil || held {
			return err
		}
	}
	found, err := o.removing.search("directory "+strconv.FormatUint(r.Inode, 10), func(l listed) bool { return l.inode == r.Inode })
	switch {
	case err != nil:
		return ignoreMissing(err)
	case found.name == r.key():
		// Another agent moved it there since the caller looked, and wrote that down before.
		if now, known, err := o.load(r.Volume); err != nil || !known || r.State != sharedvolume.Made || now.State != r.State {
			return cmp.Or(err, changed(r))
		}
	}
	return fmt.Errorf("directory %q of volume %s is not gone: it is out of sight at %s/%s/%s, where a rename that came late took it for that of another volume. Move it back to %q: %w",
		r.Directory, r.Volume, sharedvolume.MarkDirectory, removingDir, found.name, r.Directory, sharedvolume.ErrState)
}

// lost says that the directory of a volume is not at its place, and where it is if it strayed.
func (o *owned) lost(r record) error {
	if err := o.strayed(r); err != nil {
		return err
	}
	return fmt.Errorf("directory %q of volume %s is gone from the share: %w", r.Directory, r.Volume, sharedvolume.ErrState)
}

// stays makes sure, right before a rename, that a name still is the volume's directory, and that no other agent went on with the removal.
func (o *owned) stays(r record, in dir, name string) error {
	inode, err := in.inode(name)
	if err != nil || inode != r.Inode {
		return fmt.Errorf("directory %q changed meanwhile: %w", r.Directory, sharedvolume.ErrBusy)
	}
	if kept, err := o.keeps(r); err != nil || !kept {
		return errors.Join(err, changed(r))
	}
	return o.same(r)
}

// giveUp removes what was made of a volume that finds no place, so that nothing is left of it. What another agent made of it meanwhile stays.
func (o *owned) giveUp(r record) error {
	now, found, err := o.load(r.Volume)
	if err != nil || found && (now.State != sharedvolume.Making || !now.of(r)) {
		return err
	}
	// The record goes first: a volume that another agent makes ready keeps index and place.
	if err := o.forget(r); err != nil {
		return err
	}
	if err := errors.Join(ignoreMissing(o.rmdir(o.making, r.key())), o.unnote(r), o.unclaim(r)); err != nil {
		return err
	}
	// Another agent may have made it anew meanwhile, of the directory that was out of sight.
	if now, found, err = o.load(r.Volume); err != nil || !found || !now.of(r) {
		return err
	}
	return o.enlist(now)
}

// Find opens the directory of a volume that was made, for mounting it. It changes nothing.
func (s *Share) Find(t Target, name, directory string) (*os.File, error) {
	if _, err := sharedvolume.New(t.Owner, name); err != nil {
		return nil, err
	}
	o, err := s.open(t)
	if err != nil {
		return nil, err
	}
	defer o.close()
	r, found, err := o.load(name)
	switch {
	case err != nil:
		return nil, explain(err)
	case !found:
		return nil, fmt.Errorf("volume %s has no record on the share: %w", name, os.ErrNotExist)
	case r.State != sharedvolume.Made:
		return nil, fmt.Errorf("volume %s is %s: %w", name, r.State, sharedvolume.ErrState)
	case r.Directory != directory:
		return nil, fmt.Errorf("volume %s has directory %q on record, not %q: %w", name, r.Directory, directory, sharedvolume.ErrState)
	}
	d, err := o.directory(r)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(d.fd), directory), nil
}

// directory opens the directory of a volume that was made. An error that is ErrState says that it is not there, is not the volume's, or cannot be told from others.
func (o *owned) directory(r record) (dir, error) {
	r, err := o.known(r)
	if err != nil {
		return none, explain(err)
	}
	d, err := o.root.open(r.Directory)
	switch {
	case isMissing(err), isOther(err):
		return none, explain(o.lost(r))
	case err != nil:
		return none, explain(err)
	}
	if err := o.recognises(d, r); err != nil {
		d.close()
		return none, explain(err)
	}
	return d, nil
}

// recognises refuses an open directory that is not the one of a volume.
func (o *owned) recognises(d dir, r record) error {
	st, err := d.stat()
	switch {
	case err != nil:
		return err
	case r.Tree != o.tree:
		return o.unsettled(r)
	case st.Ino != r.Inode:
		return fmt.Errorf("directory %q is not the one that was made for volume %s: %w", r.Directory, r.Volume, sharedvolume.ErrState)
	}
	return o.ousted(r)
}

// problem says why the directory of a volume that was made cannot be used; empty when it can. The error says that nobody can tell.
func (o *owned) problem(r record) (string, error) {
	d, err := o.directory(r)
	var p *sharedvolume.Problem
	if isRefusal(err) || errors.As(err, &p) && p.Reason == sharedvolume.ReasonNotPrepared {
		return err.Error(), nil
	}
	d.close()
	return "", err
}

// holding opens the directory that a volume's directory is in.
func (o *owned) holding(directory string) (in dir, name string, err error) {
	above, name := parent(directory)
	if above == "" {
		above = "."
	}
	in, err = o.root.open(above)
	return in, name, err
}
