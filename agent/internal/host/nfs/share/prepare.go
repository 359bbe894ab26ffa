package share

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"quarry.storage/quarry/pkg/sharedvolume"
)

const (
	markMode = 0o700
	// leftoverAge is how old what a killed call left has to be before it is removed: nobody works on it any more.
	leftoverAge = time.Hour
	readmeText  = "Quarry keeps its records of the volumes on this share here. Without them it recognises no directory as its own.\n" +
		"Back them up and move them together with the directories; do not change them.\n"
)

// identity is what the file idFile says.
type identity struct {
	Version int    `json:"version"`
	ID      string `json:"id"`
}

// Identify returns the identity of a share that was prepared for the owner. It writes nothing.
func (s *Share) Identify(t Target) (string, error) {
	o, err := s.open(t)
	if err != nil {
		return "", err
	}
	defer o.close()
	c, known, err := o.compared()
	if err == nil && known && !c.Done {
		err = copiedProblem()
	}
	return o.id, explain(err)
}

// Prepare writes the mark of an owner and returns the identity of the share, which is made when there is none. Where an identity is
// on record already, the share has to carry it.
func (s *Share) Prepare(t Target) (string, error) {
	if err := sharedvolume.CheckOwner(t.Owner); err != nil {
		return "", err
	}
	if t.ShareID != "" || t.HasVolumes {
		// A share that lost its marks is another share. The owner's own mark may be missing: an Nfs without volumes may come to a share of another.
		if err := s.recognise(t); err != nil {
			return "", err
		}
	}
	marks, err := s.ensureDir(s.root, sharedvolume.MarkDirectory)
	if err != nil {
		return "", explainRoot(err)
	}
	defer marks.close()
	sure, err := s.furnish(marks, t.Owner)
	if err != nil {
		return "", explainRoot(err)
	}
	if !sure {
		return "", sharedvolume.NewProblem(sharedvolume.ReasonNotPrepared,
			"The share cannot be used yet: it got its identity at this moment, and its server has no hard links, so that another agent may replace it. It is read again at the next look.")
	}
	o, err := s.open(t)
	if err != nil {
		return "", err
	}
	defer o.close()
	if err := o.ready(); errors.Is(err, sharedvolume.ErrBusy) {
		// Who looks at the share is told how far it is, and comes again.
		return o.id, sharedvolume.NewProblem(sharedvolume.ReasonNotPrepared, "The share cannot be used yet: %v.", err)
	} else if err != nil {
		return "", explainRoot(err)
	}
	return o.id, explainRoot(s.tidy(marks))
}

func (s *Share) recognise(t Target) error {
	marks, err := s.root.open(sharedvolume.MarkDirectory)
	if err != nil {
		return missing(err, t)
	}
	defer marks.close()
	id, _, err := s.readID(marks)
	if err != nil {
		return missing(err, t)
	}
	if t.ShareID != "" && id != t.ShareID {
		return sharedvolume.NewProblem(sharedvolume.ReasonOtherShare,
			"The share carries the identity %s, and %s is on record: the server shows another share than before.", id, t.ShareID)
	}
	if !t.HasVolumes {
		return nil
	}
	mine, err := marks.open(volumesDir + "/" + t.Owner)
	if isMissing(err) {
		return forgotten(t)
	}
	mine.close()
	return explain(err)
}

// furnish makes what is missing below the mark directory. The owner's directory is made last: it says that all others are there. sure is false
// when the share got an identity that another agent may replace at this moment.
func (s *Share) furnish(marks dir, owner string) (sure bool, err error) {
	for _, name := range []string{temporary, indexDir, makingDir, removingDir, placesDir, volumesDir} {
		d, err := s.ensureDir(marks, name)
		if err != nil {
			return false, err
		}
		d.close()
	}
	tmp, err := marks.open(temporary)
	if err != nil {
		return false, err
	}
	defer tmp.close()
	content, err := json.Marshal(identity{Version: recordVersion, ID: uuid.NewString()})
	if err != nil {
		return false, err
	}
	sure = true
	for _, file := range []struct {
		name    string
		content []byte
	}{{readme, []byte(readmeText)}, {idFile, append(content, '\n')}} {
		if _, err := marks.lstat(file.name); !isMissing(err) {
			continue
		}
		alone, err := s.add(tmp, marks, file.name, file.content)
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return false, err
		}
		sure = sure && (alone || err != nil || file.name != idFile)
	}
	volumes, err := marks.open(volumesDir)
	if err != nil {
		return false, err
	}
	defer volumes.close()
	mine, err := s.ensureDir(volumes, owner)
	if err != nil {
		return false, err
	}
	mine.close()
	return sure, nil
}

// ensureDir makes a directory of ours and opens it.
func (s *Share) ensureDir(in dir, name string) (dir, error) {
	d, err := in.open(name)
	if !isMissing(err) {
		return d, err
	}
	if err := s.mkdir(in, name, markMode); err != nil && !errors.Is(err, unix.EEXIST) {
		return none, err
	}
	return in.open(name)
}

// readID reads the identity of the share, and a text that tells this tree of records from a copy of it.
func (s *Share) readID(marks dir) (id, tree string, err error) {
	content, err := marks.read(idFile)
	if err != nil {
		return "", "", err
	}
	var i identity
	if err := json.Unmarshal(content, &i); err != nil || i.Version != recordVersion || i.ID == "" || sharedvolume.CheckShareID(i.ID) != nil {
		return "", "", fmt.Errorf("identity of the share %s/%s: %w", sharedvolume.MarkDirectory, idFile, errDamaged)
	}
	root, rootErr := s.root.stat()
	mark, markErr := marks.stat()
	file, fileErr := marks.lstat(idFile)
	return i.ID, fmt.Sprintf("%x.%x.%x", root.Ino, mark.Ino, file.Ino), errors.Join(rootErr, markErr, fileErr)
}

// tidy removes drafts and probes that killed calls left. The age of one is told by the server's clock alone.
func (s *Share) tidy(marks dir) error {
	tmp, err := marks.open(temporary)
	if err != nil {
		return err
	}
	defer tmp.close()
	drafts, err := tmp.names(-1)
	if err != nil {
		return err
	}
	probes, err := marks.names(-1)
	if err != nil {
		return err
	}
	probes = slices.DeleteFunc(probes, func(name string) bool { return !strings.HasPrefix(name, probePrefix) })
	if len(drafts)+len(probes) == 0 {
		return nil
	}
	clock := "clock-" + uuid.NewString()
	if err := s.write(tmp, clock, nil); err != nil {
		return err
	}
	now, err := tmp.lstat(clock)
	if err != nil {
		return err
	}
	if err := s.unlink(tmp, clock); err != nil {
		return err
	}
	before := now.Mtim.Sec - int64(leftoverAge/time.Second)
	for _, name := range drafts {
		if st, err := tmp.lstat(name); err == nil && st.Mtim.Sec < before {
			if err := ignoreMissing(s.unlink(tmp, name)); err != nil {
				return err
			}
		}
	}
	return s.tidyProbes(marks, probes, before)
}

// nobody is the user that a probe is given to. Any but root does.
const nobody = 65534

// Probe tries what making a volume needs, with an empty directory of its own: making it as root, giving it to another user, renaming
// it, finding it again by its inode, removing it.
func (s *Share) Probe() error {
	marks, err := s.root.open(sharedvolume.MarkDirectory)
	if err != nil {
		return missing(err, Target{})
	}
	defer marks.close()
	name := probePrefix + uuid.NewString()
	if err := s.mkdir(marks, name, markMode); err != nil {
		return explainRoot(err)
	}
	err = s.try(marks, name)
	for _, left := range []string{name, name + renamed} {
		err = errors.Join(err, ignoreMissing(s.rmdir(marks, left)))
	}
	return explainRoot(err)
}

const renamed = "-renamed"

func (s *Share) try(marks dir, name string) error {
	d, err := marks.open(name)
	if err != nil {
		return err
	}
	defer d.close()
	made, err := d.stat()
	if err != nil {
		return err
	}
	if made.Uid != 0 {
		return squashed(fmt.Sprintf("what it makes belongs to user %d", made.Uid))
	}
	if err := s.give(d, name, nobody, nobody); err != nil {
		return err
	}
	if given, err := d.stat(); err != nil {
		return err
	} else if given.Uid != nobody || given.Gid != nobody {
		return squashed("it cannot give a directory to another user")
	}
	if err := s.move(marks, name, marks, name+renamed); err != nil {
		return err
	}
	opened, err := marks.inode(name + renamed)
	if err != nil {
		return err
	}
	listed, err := marks.entry(name + renamed)
	if err != nil {
		return err
	}
	return unstable(made.Ino, opened, listed)
}

// tidyProbes removes the probes of killed calls.
func (s *Share) tidyProbes(marks dir, names []string, before int64) error {
	for _, name := range names {
		st, err := marks.lstat(name)
		if err != nil || st.Ctim.Sec >= before || st.Mode&unix.S_IFMT != unix.S_IFDIR {
			continue
		}
		if err := ignoreMissing(s.rmdir(marks, name)); err != nil {
			return err
		}
	}
	return nil
}
