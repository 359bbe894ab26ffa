package share

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"quarry.storage/quarry/pkg/sharedvolume"
)

const (
	archivePrefix = "archived-"
	dateForm      = "20060102T150405Z"
	maxName       = 255
	// maxArchives bounds the search for a free name among archives of the same second.
	maxArchives = 100
)

// archive renames the directory of a volume beside its old place. The new name is on record before the rename, so that a repeated call
// knows whether it happened.
func (o *owned) archive(r record) (as, note string, err error) {
	if done, err := o.archived(r); err != nil || done {
		return r.Archive, "", err
	}
	there, err := o.movable(r)
	if err != nil {
		return "", "", err
	}
	if !there {
		if as, err = o.elsewhere(r); err == nil && as == "" {
			note, err = goneNote(r.Directory), o.inSight(r)
		}
		return as, note, err
	}
	if err := o.undivided(r); err != nil {
		return "", "", err
	}
	as, err = o.beside(r)
	return as, "", err
}

// beside renames the directory of a volume to the first name of an archive that is free.
func (o *owned) beside(r record) (as string, err error) {
	in, name, err := o.holding(r.Directory)
	if err != nil {
		return "", err
	}
	defer in.close()
	for try := 0; try <= maxArchives; try++ {
		to := o.archiveName(name, try)
		if try == 0 {
			// The name that another call began with is taken first, so that both agents go for one name.
			if _, to = parent(r.Archive); r.State != sharedvolume.Removing {
				continue
			}
		}
		if _, err := in.lstat(to); err == nil {
			continue
		} else if !isMissing(err) {
			return "", err
		}
		if r, err = o.archiveAs(r, in, name, to); isTaken(err) {
			continue
		}
		if err != nil {
			return "", err
		}
		return r.Archive, nil
	}
	return "", fmt.Errorf("no free name for an archive of directory %q: %w", r.Directory, sharedvolume.ErrState)
}

// archived reports whether an interrupted call renamed the directory already. In a copy of the share a directory that is not at its place any
// more is where it was about to be moved.
func (o *owned) archived(r record) (bool, error) {
	if r.State != sharedvolume.Removing {
		return false, nil
	}
	inode, err := o.root.inode(r.Archive)
	if isMissing(err) || isOther(err) {
		return false, nil
	}
	return err == nil && (r.Tree != o.tree || inode == r.Inode), err
}

// elsewhere returns the archive of another agent that began at the same moment with another name. The directory is known by its inode.
func (o *owned) elsewhere(r record) (as string, err error) {
	if r.State != sharedvolume.Removing || r.Tree != o.tree {
		return "", nil
	}
	if kept, err := o.keeps(r); err != nil || !kept {
		return "", err
	}
	in, _, err := o.holding(r.Directory)
	if err != nil {
		if isMissing(err) || isOther(err) {
			err = nil
		}
		return "", err
	}
	defer in.close()
	found, err := in.search("the archive", func(l listed) bool { return l.inode == r.Inode && strings.HasPrefix(l.name, archivePrefix) })
	if err != nil {
		return "", ignoreMissing(err)
	}
	if inode, err := in.inode(found.name); err != nil || inode != r.Inode {
		return "", err
	}
	above, _ := parent(r.Directory)
	return strings.TrimPrefix(above+"/"+found.name, "/"), nil
}

// archiveName is "archived-<name>-<date>", cut to the length of a name; from the second try on it has a number.
func (o *owned) archiveName(name string, try int) string {
	tail := "-" + o.now().UTC().Format(dateForm)
	if try > 1 {
		tail += fmt.Sprintf("-%d", try)
	}
	if room := maxName - len(archivePrefix) - len(tail); len(name) > room {
		for name = name[:room]; !utf8.ValidString(name); {
			name = name[:len(name)-1]
		}
	}
	return archivePrefix + name + tail
}

func (o *owned) archiveAs(r record, in dir, name, to string) (record, error) {
	as := to
	if above, _ := parent(r.Directory); above != "" {
		as = above + "/" + to
	}
	r, err := o.begin(r, sharedvolume.Archive, as)
	if err == nil {
		err = o.stays(r, in, name)
	}
	if err == nil {
		err = o.move(in, name, in, to)
	}
	if err != nil {
		return r, err
	}
	return r, o.moved(r, in, name, in, to)
}
