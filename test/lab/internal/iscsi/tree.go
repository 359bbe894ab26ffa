package iscsi

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"quarry.storage/quarry/test/lab/internal/spec"
)

// tree is the target's directory of configfs.
type tree struct{ root string }

func (f tree) at(name string) string { return filepath.Join(f.root, name) }

// serve brings a target to what is wanted.
func (f tree) serve(t spec.Target, initiators []string) error {
	for _, l := range t.LUNs {
		if f.says(backstoreDir(l)+"/enable", "1") {
			continue
		}
		if err := f.take(backstore(l)); err != nil {
			return err
		}
		if err := f.restore(l); err != nil {
			return err
		}
	}
	// The directory of all targets is made by hand once.
	if err := os.MkdirAll(f.at("iscsi"), 0o755); err != nil {
		return err
	}
	return f.take(served(t, initiators))
}

// take takes steps. One that is taken already does nothing.
func (f tree) take(steps []step) error {
	for _, s := range steps {
		var err error
		switch s.do {
		case makeDir:
			err = os.MkdirAll(f.at(s.path), 0o755)
		case write:
			if !f.says(s.path, s.value) {
				err = os.WriteFile(f.at(s.path), []byte(s.value), 0o600)
			}
		case makeLink:
			err = os.Symlink(f.at(s.value), f.at(s.path))
			if errors.Is(err, fs.ErrExist) {
				err = nil
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.do, err)
		}
	}
	return nil
}

// says reports whether an attribute has a value. The unit serial has words in
// front.
func (f tree) says(name, value string) bool {
	text, err := os.ReadFile(f.at(name))
	got := strings.TrimSpace(string(text))
	return err == nil && (got == value || strings.HasSuffix(got, ": "+value))
}

// drop removes targets that are not wanted, disks behind LUN numbers that are
// to have others, paths that are gone, and then the backstores that nothing
// serves any more.
func (f tree) drop(w Wish) error {
	var errs []error
	for _, dir := range f.list("iscsi/" + spec.IQNPrefix + "*") {
		i := slices.IndexFunc(w.Targets, func(t spec.Target) bool { return t.IQN() == path.Base(dir) })
		if i < 0 {
			errs = append(errs, f.dropTarget(dir))
			continue
		}
		errs = append(errs, f.dropLUNs(w.Targets[i]), f.dropPortals(w.Targets[i]))
	}
	wanted := spec.Storage{Targets: w.Targets}.LUNs()
	for _, dir := range f.list("core/iblock_0/*") {
		if f.has(dir) && !slices.ContainsFunc(wanted, func(l spec.LUN) bool { return l.Serial == path.Base(dir) }) {
			errs = append(errs, os.Remove(f.at(dir)))
		}
	}
	return errors.Join(errs...)
}

// dropTarget ends the sessions of a target and removes it.
func (f tree) dropTarget(dir string) error {
	group := dir + "/tpgt_1"
	if f.has(group) {
		if err := f.take([]step{{write, group + "/enable", "0"}}); err != nil {
			return err
		}
	}
	return f.remove(slices.Concat(
		f.list(group+"/acls/*/lun_*/lun"), f.list(group+"/acls/*/lun_*"), f.list(group+"/acls/*"),
		f.list(group+"/lun/lun_*/disk"), f.list(group+"/lun/lun_*"), f.list(group+"/np/*"), []string{group, dir}))
}

// dropLUNs takes away the disks that a target is to have no more. Its sessions
// go on.
func (f tree) dropLUNs(t spec.Target) error {
	group := groupDir(t)
	var errs []error
	for _, link := range f.list(group + "/lun/lun_*/disk") {
		to, err := os.Readlink(f.at(link))
		n := path.Base(path.Dir(link))
		if err == nil && slices.ContainsFunc(t.LUNs, func(l spec.LUN) bool { return l.Serial == path.Base(to) }) {
			continue
		}
		errs = append(errs, err, f.remove(slices.Concat(
			f.list(group+"/acls/*/"+n+"/lun"), f.list(group+"/acls/*/"+n), []string{link, path.Dir(link)})))
	}
	return errors.Join(errs...)
}

// dropPortals takes away the portals that a target is to have no more.
func (f tree) dropPortals(t spec.Target) error {
	var errs []error
	for _, np := range f.list(groupDir(t) + "/np/*") {
		address, _, _ := strings.Cut(path.Base(np), ":")
		if !slices.Contains(t.Addresses(), address) {
			errs = append(errs, f.remove([]string{np}))
		}
	}
	return errors.Join(errs...)
}

// remove removes directories and links in order.
func (f tree) remove(names []string) error {
	for _, name := range names {
		if err := os.Remove(f.at(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// list returns what fits a pattern, relative to the tree.
func (f tree) list(pattern string) []string {
	// The only error is a pattern that cannot be read.
	found, _ := filepath.Glob(f.at(pattern))
	for i := range found {
		found[i] = strings.TrimPrefix(found[i], f.root+"/")
	}
	return found
}

// has reports whether a directory is there: backstores lie beside attributes.
func (f tree) has(name string) bool {
	info, err := os.Stat(f.at(name))
	return err == nil && info.IsDir()
}
