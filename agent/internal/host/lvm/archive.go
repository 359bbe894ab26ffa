package lvm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"quarry.storage/quarry/agent/internal/host/lvm/newest"
)

// keepArchives is for how long the metadata of a group is kept after the group was removed.
const keepArchives = 90 * 24 * time.Hour

// archiveForm is how LVM names an archive: the group, a number, and one at random.
var archiveForm = regexp.MustCompile(`^(.+)_\d{5,}-\d+\.vg$`)

// prune removes old archives of groups that were removed. LVM itself bounds them for each group that there is, and looks at no other. It keeps one
// backup for each group, and removes it with the group: a group with a backup may come back, as one does whose disks are elsewhere.
func prune(dir string, now time.Time) error {
	entries, err := os.ReadDir(filepath.Join(dir, "archive"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, e := range entries {
		name := archiveForm.FindStringSubmatch(e.Name())
		if name == nil {
			continue
		}
		info, err := e.Info()
		if err != nil || now.Sub(info.ModTime()) < keepArchives {
			continue
		}
		if _, err := os.Lstat(filepath.Join(dir, "backup", name[1])); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		errs = append(errs, os.Remove(filepath.Join(dir, "archive", e.Name())))
	}
	return errors.Join(errs...)
}

// Forget forgets which state of a group is the newest. Who removes a group does so before and after: a disk of it that was away may tell of it later as it was,
// and is cleaned then, also if somebody was killed in between.
func (l *LVM) Forget(uuid string) error { return l.newest.Forget(uuid) }

// tellEarlier notes the state of each reported group of ours, and says of one that lacks a device, and of which a newer state was noted before the report,
// that it is an earlier one. Of a group with all its devices LVM reports the newest state that there is: if that is an earlier one, a person put it back.
func (l *LVM) tellEarlier(vgs []VG, pvs []PV, noted map[string]newest.State, errNoted error) {
	for i, g := range vgs {
		if !slices.ContainsFunc(g.Tags, func(tag string) bool { return strings.HasPrefix(tag, ourTags) }) {
			continue
		}
		lacks := slices.ContainsFunc(pvs, func(p PV) bool { return p.VGUUID == g.UUID && p.Missing })
		was := noted[g.UUID]
		var err error
		switch {
		case lacks && errNoted != nil:
			err = errNoted
		case lacks && was.Broken != "":
			err = errors.New(was.Broken)
		case lacks && g.Change < was.Change:
			vgs[i].Earlier = fmt.Sprintf("the disks that are there know it as of its change %d, and this node saw its change %d: a disk that is away knows what was changed since. "+
				"Bring it back. If it is lost for good, remove the file %s, as \"A disk that is away knows more\" in docs/disks.md says", g.Change, was.Change, l.newest.File(g.UUID))
			continue
		default:
			err = l.newest.Note(g.UUID, was, newest.State{Name: g.Name, Change: g.Change, Lacked: lacks})
		}
		switch {
		case err == nil:
		case lacks:
			vgs[i].Earlier = fmt.Sprintf("a disk of it is missing, and whether that one knows more than the others is not known: %v", err)
		case was.Lacked:
			// It has just forgotten a device. What that device tells, if it comes back alone, would not be known for older.
			vgs[i].Earlier = fmt.Sprintf("it lacks no disk any more, and that cannot be noted on this node: %v", err)
		}
	}
}
