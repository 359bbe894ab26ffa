package share

import (
	"errors"
	"fmt"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"quarry.storage/quarry/pkg/sharedvolume"
)

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
	inode, err := marks.inode(name + renamed)
	if err != nil {
		return err
	}
	if inode != made.Ino {
		return sharedvolume.NewProblem(sharedvolume.ReasonUnstable,
			"The server gives a directory another file number when it is renamed (%d, then %d): no directory could be recognised.", made.Ino, inode)
	}
	return nil
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
