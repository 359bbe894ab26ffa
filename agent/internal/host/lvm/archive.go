package lvm

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"
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
