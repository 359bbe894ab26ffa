package lvm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// freeName makes sure that nothing below /dev has the name of a group that is about to be made: LVM refuses the name otherwise. A host that
// removes a group without udev leaves its directory there, with links to devices that are gone. Exactly that is taken away; anything else is
// somebody's, and is an error that says what it is.
func (l *LVM) freeName(group string) error {
	path := filepath.Join(l.dev, group)
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.IsDir():
		return l.taken("%s is no directory of a group (%s)", path, info.Mode().Type())
	}
	if err := l.inactive(group); err != nil {
		return err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := l.dangles(filepath.Join(path, e.Name())); err != nil {
			return err
		}
	}
	// All of it was looked at before the first link goes.
	for _, e := range entries {
		link := filepath.Join(path, e.Name())
		if err := l.dangles(link); err != nil {
			return err
		}
		if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	// A directory that somebody uses since is not empty, and stays.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return l.taken("%s was left by a group that is gone, and cannot be removed: %v", path, err)
	}
	return nil
}

// dangles refuses what is not a symbolic link to a device that is gone.
func (l *LVM) dangles(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSymlink:
		return l.taken("%s is no link to a volume (%s)", path, info.Mode().Type())
	}
	_, err = os.Stat(path)
	switch {
	case err == nil:
		return l.taken("%s leads to a device that exists", path)
	case !errors.Is(err, fs.ErrNotExist):
		return l.taken("it is not known where %s leads: %v", path, err)
	}
	return nil
}

// inactive refuses a name for which device-mapper has devices: a volume of such a group is active. Hyphens in a name are doubled there,
// and one stands between group and volume.
func (l *LVM) inactive(group string) error {
	entries, err := os.ReadDir(filepath.Join(l.dev, "mapper"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	prefix := mapped(group) + "-"
	for _, e := range entries {
		if rest, ok := strings.CutPrefix(e.Name(), prefix); ok && !strings.HasPrefix(rest, "-") {
			return l.taken("device-mapper has %s of a group of that name, which LVM does not report", e.Name())
		}
	}
	return nil
}

func (l *LVM) taken(format string, args ...any) error {
	return &Error{Kind: ErrExists, Err: fmt.Errorf("the name cannot be used: "+format, args...)}
}
