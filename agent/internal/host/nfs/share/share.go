// Package share makes, finds and removes the directories of volumes below the root of one share, which somebody else has mounted and
// opened. It reaches everything by file descriptor from that root on, follows no symbolic link and enters no other filesystem. What is
// ours is written in records below ".quarry" at the root, out of reach of every pod. It knows nothing of mounts, servers and the wire,
// and it remembers nothing between calls.
//
// A record names the directory of a volume and its inode. A directory is made below ".quarry" first, so that its inode is on record
// before anybody sees it, and is then renamed to its place. Only the directory with the recorded inode is the volume's: whatever else
// stands at the place, now or later, is never used, renamed or removed.
package share

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/pkg/sharedvolume"
)

// Share is the open root of a share, for a few calls: what a client of NFS keeps in its cache outlives changes that others make, and
// nothing in here can tell.
type Share struct {
	root dir
	now  func() time.Time
	// hook, if set, is asked before and after every change; its error replaces the change's. Tests die in it.
	hook func(effect string, done bool) error
	// placing lets one directory at a time find its place. It saves two volumes of one agent that want the same place from a race;
	// two agents are kept apart by the inodes on record.
	placing *sync.Mutex
	// plain renames as NFS does, which cannot refuse to replace. For tests.
	plain bool
}

// Config is what a Share is made of.
type Config struct {
	// Now is the clock; time.Now when nil.
	Now func() time.Time
	// Hook, if set, is called before and after every change of the share, for tests.
	Hook func(effect string, done bool) error
	// Placing is held while a directory finds its place. All that work on the same share should have the same.
	Placing *sync.Mutex
}

// New makes a Share of an open directory, which it closes in the end.
func New(root int, cfg Config) *Share {
	s := &Share{root: dir{root}, now: cfg.Now, hook: cfg.Hook, placing: cfg.Placing}
	if s.placing == nil {
		s.placing = &sync.Mutex{}
	}
	if s.now == nil {
		s.now = time.Now
	}
	return s
}

// Close closes the root.
func (s *Share) Close() { s.root.close() }

// Usage tells how full the share is.
func (s *Share) Usage() (sharedvolume.Usage, error) {
	var st unix.Statfs_t
	if err := retry(func() error { return unix.Fstatfs(s.root.fd, &st) }); err != nil {
		return sharedvolume.Usage{}, explain(fmt.Errorf("size of the share: %w", err))
	}
	// The fragment size counts; the block size is what the server likes to transfer.
	unit := cmp.Or(st.Frsize, st.Bsize)
	return sharedvolume.Usage{
		Total: int64(st.Blocks) * unit, Used: int64(st.Blocks-st.Bfree) * unit, Free: int64(st.Bavail) * unit,
	}, nil
}

// Target says whose volumes are meant, and on which share they have to be.
type Target struct {
	// Owner is the UID of the Nfs.
	Owner string
	// ShareID is the identity that the share must have; empty when any does.
	ShareID string
	// HasVolumes is true when volumes of the owner are known elsewhere: then its records are not begun anew.
	HasVolumes bool
}

// Names below the mark directory.
const (
	idFile      = "share.json"
	volumesDir  = "volumes"
	indexDir    = "index"
	makingDir   = "making"
	removingDir = sharedvolume.RemovingDirectory
	temporary   = "tmp"
	readme      = "README"
	probePrefix = "probe-"
)

// owned are the marks of one owner on a share, open for one call.
type owned struct {
	*Share
	owner string
	id    string
	// tree tells this tree of records from a copy of it: inodes are compared only where they were recorded in the same tree. What was
	// copied is recognised anew, as copied.go says.
	tree                                            string
	marks, volumes, index, making, removing, tmpDir dir
	// places is open once the records are known to be compared with the share.
	places dir
}

func (o *owned) close() {
	for _, d := range []dir{o.marks, o.volumes, o.index, o.making, o.removing, o.tmpDir, o.places} {
		d.close()
	}
}

// open finds the marks of an owner. Their absence is never taken for an owner without volumes.
func (s *Share) open(t Target) (*owned, error) {
	if err := sharedvolume.CheckOwner(t.Owner); err != nil {
		return nil, err
	}
	o := &owned{Share: s, owner: t.Owner, marks: none, volumes: none, index: none, making: none, removing: none, tmpDir: none, places: none}
	if err := o.find(t); err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

func (o *owned) find(t Target) error {
	var err error
	if o.marks, err = o.root.open(sharedvolume.MarkDirectory); err != nil {
		return missing(err, t)
	}
	if o.id, o.tree, err = o.readID(o.marks); err != nil {
		return missing(err, t)
	}
	if t.ShareID != "" && t.ShareID != o.id {
		return sharedvolume.NewProblem(sharedvolume.ReasonOtherShare,
			"The share carries the identity %s, and %s is on record: the server shows another share than before.", o.id, t.ShareID)
	}
	for _, part := range []struct {
		to  *dir
		rel string
	}{
		{&o.volumes, volumesDir + "/" + t.Owner}, {&o.index, indexDir}, {&o.making, makingDir}, {&o.removing, removingDir}, {&o.tmpDir, temporary},
	} {
		if *part.to, err = o.marks.open(part.rel); err != nil {
			return incomplete(err, part.rel, t)
		}
	}
	return nil
}

// missing tells a share without marks from one that cannot be read.
func missing(err error, t Target) error {
	switch {
	case !isMissing(err):
		return explain(err)
	case t.ShareID != "":
		return sharedvolume.NewProblem(sharedvolume.ReasonOtherShare,
			"The share has no complete %s directory, and it had one with the identity %s: the server shows another directory than before, for example because its disk is not mounted.",
			sharedvolume.MarkDirectory, t.ShareID)
	}
	return sharedvolume.NewProblem(sharedvolume.ReasonNotPrepared, "The share carries no mark of owner %s.", t.Owner)
}

// incomplete tells a share that has its identity and lacks a part of the records.
func incomplete(err error, part string, t Target) error {
	switch {
	case !isMissing(err):
		return explain(err)
	case t.HasVolumes && part == volumesDir+"/"+t.Owner:
		return forgotten(t)
	}
	return sharedvolume.NewProblem(sharedvolume.ReasonNotPrepared, "The share carries its identity and no directory %s/%s.", sharedvolume.MarkDirectory, part)
}

// forgotten refuses an owner whose records are gone, and who has volumes.
func forgotten(t Target) error {
	return sharedvolume.NewProblem(sharedvolume.ReasonNotPrepared,
		"The share has no records of this Nfs any more, and PersistentVolumes name volumes in them. They are not begun anew: restore %[1]s from a backup of the share. "+
			"To give the volumes up, make the directory %[1]s/%[2]s/%[3]s, empty.", sharedvolume.MarkDirectory, volumesDir, t.Owner)
}

// List reads the records of an owner in the order of names, from the one behind after on. next is the last name, when there are more. Until checkUntil, and for one
// record at least, it looks whether the directories of volumes that were made can be used, and says so in each record, as of a record that cannot be read; it ends
// there. With no time it looks at none, and a record that cannot be read is an error.
func (s *Share) List(t Target, after string, limit int, checkUntil time.Time) (list []sharedvolume.Directory, next string, err error) {
	o, err := s.open(t)
	if err != nil {
		return nil, "", err
	}
	defer o.close()
	check := !checkUntil.IsZero()
	names, err := o.recorded(check)
	if err != nil {
		return nil, "", err
	}
	behind, found := slices.BinarySearch(names, after)
	if found {
		behind++
	}
	for _, name := range names[behind:] {
		if late := check && s.now().After(checkUntil); len(list) == limit || late && len(list) > 0 {
			return list, list[len(list)-1].Name, nil
		}
		d, found, err := o.listed(name, check)
		if err != nil {
			return nil, "", err
		}
		if found {
			list = append(list, d)
		}
	}
	return list, "", nil
}

// listed returns the record of a volume, and with check why its directory cannot be used.
func (o *owned) listed(name string, check bool) (d sharedvolume.Directory, found bool, err error) {
	r, found, err := o.load(name)
	err = explain(err)
	switch {
	case check && isRefusal(err):
		return sharedvolume.Directory{ID: sharedvolume.ID{Owner: o.owner, Name: name}, State: sharedvolume.Made, ShareID: o.id, Problem: err.Error()}, true, nil
	case err != nil || !found:
		return d, false, err
	}
	d = o.public(r)
	if check && r.State == sharedvolume.Made {
		d.Problem, err = o.problem(r)
	}
	return d, true, err
}

// recorded returns the names of all volumes on record, ordered. What is no record is an error, unless it is to be left out.
func (o *owned) recorded(leaveOut bool) (out []string, err error) {
	names, err := o.volumes.names(-1)
	if err != nil {
		return nil, explain(err)
	}
	for _, file := range names {
		name, ok := strings.CutSuffix(file, suffix)
		if !ok && !leaveOut {
			return nil, fmt.Errorf("%.300q is no record of a volume: %w", file, sharedvolume.ErrState)
		}
		if ok {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out, nil
}

// known returns a record that was compared with the share. One of another tree is of a directory that was not there then.
func (o *owned) known(r record) (record, error) {
	if r.Tree == o.tree {
		return r, nil
	}
	c, _, err := o.compared()
	if err != nil {
		return r, err
	}
	if !c.Done {
		return r, copiedProblem()
	}
	if o.places.fd < 0 {
		if o.places, err = o.marks.open(placesDir); err != nil {
			return r, err
		}
	}
	// The comparison may have come to its end since the record was read.
	now, found, err := o.load(r.Volume)
	if err == nil && (!found || now.State != r.State) {
		err = fmt.Errorf("volume %s changed meanwhile: %w", r.Volume, sharedvolume.ErrBusy)
	}
	return now, err
}

// onceMore is what a person does to have all records compared.
const onceMore = "remove " + sharedvolume.MarkDirectory + "/" + comparedFile + " to let all records be compared once more"

// unsettled says why the directory at the place of a volume is not taken for the volume's. A place decides only while the records are
// compared: what comes there later may be anybody's.
func (o *owned) unsettled(r record) error {
	if r.State == sharedvolume.Removing {
		return fmt.Errorf("the share was copied while volume %s was being removed, and it is not known whether %q is the directory that was made for it: "+
			"remove it if it is, and move it away until the volume is gone if not: %w", r.Volume, r.Directory, sharedvolume.ErrState)
	}
	if _, err := o.settled(r); err != nil {
		return err
	}
	return fmt.Errorf("the share was copied, and directory %q of volume %s was gone when the records were compared with it, or was put back later. "+
		"What is there is left alone. If it is the volume's, %s; if not, move it away: %w", r.Directory, r.Volume, onceMore, sharedvolume.ErrState)
}
