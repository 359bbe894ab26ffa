package share

import (
	"fmt"
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
		return "", goneNote(r), nil
	}
	if err := o.undivided(r); err != nil {
		return "", "", err
	}
	in, name, err := o.holding(r.Directory)
	if err != nil {
		return "", "", err
	}
	defer in.close()
	for try := 1; try <= maxArchives; try++ {
		to := o.archiveName(name, try)
		if _, err := in.lstat(to); err == nil {
			continue
		} else if !isMissing(err) {
			return "", "", err
		}
		if r, err = o.archiveAs(r, in, name, to); isTaken(err) {
			continue
		}
		if err != nil {
			return "", "", err
		}
		return r.Archive, "", nil
	}
	return "", "", fmt.Errorf("no free name for an archive of directory %q: %w", r.Directory, sharedvolume.ErrState)
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
