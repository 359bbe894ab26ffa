package occupant

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// exporter is a target in the kernel: it lends disks to other machines, and shows it in no other place than configfs.
type exporter struct {
	// file is where it names a disk, below configfs. "*" stands for any name.
	file []string
	// by says who exports the disk, with the two names that stand for the last two "*".
	by string
}

var exporters = []exporter{
	{[]string{"nvmet", "subsystems", "*", "namespaces", "*", "device_path"}, "the kernel's NVMe target (subsystem %s, namespace %s)"},
	{[]string{"target", "core", "*", "*", "udev_path"}, "the kernel's SCSI target (backstore %s/%s)"},
}

// exports finds the disks that a target of the kernel exports. It looks where the host has mounted configfs: where that is not mounted, nobody
// can have set up a target.
func (s *search) exports(ctx context.Context) {
	points, err := readMounts(filepath.Join(s.place("1"), "mountinfo"))
	if err != nil {
		s.fail(fmt.Errorf("targets: %w", err))
		return
	}
	for _, p := range points {
		if p.fstype != "configfs" || p.root != "/" {
			continue
		}
		root := filepath.Join(s.place("1"), "root") + p.path
		for _, e := range exporters {
			s.exported(ctx, points, root, e, e.file, nil)
		}
	}
}

// exported follows the rest of the way to the files of a target. names are those that stood for a "*" before.
func (s *search) exported(ctx context.Context, points []point, dir string, e exporter, rest, names []string) {
	if ctx.Err() != nil {
		return
	}
	switch {
	case len(rest) == 1:
		s.lent(points, filepath.Join(dir, rest[0]), fmt.Sprintf(e.by, names[len(names)-2], names[len(names)-1]))
	case rest[0] == "*":
		entries, err := os.ReadDir(dir)
		if err != nil {
			s.fail(fmt.Errorf("targets: %w", err))
			return
		}
		for _, entry := range entries {
			s.exported(ctx, points, filepath.Join(dir, entry.Name()), e, rest[1:], append(names[:len(names):len(names)], entry.Name()))
		}
	default:
		s.exported(ctx, points, filepath.Join(dir, rest[0]), e, rest[1:], names)
	}
}

// lent looks which device a file of a target names. A target may name a file, too.
func (s *search) lent(points []point, file, by string) {
	text, err := os.ReadFile(file)
	if err != nil {
		s.fail(fmt.Errorf("targets: %w", err))
		return
	}
	path := strings.TrimRight(string(text), "\n")
	if !filepath.IsAbs(path) {
		// None is set: the file is empty, or says (null).
		return
	}
	place, inDev := filepath.Join(s.place("1"), "root")+filepath.Clean(path), strings.HasPrefix(filepath.Clean(path), "/dev/")
	if inDev {
		// The links of udev are there.
		place = filepath.Join(s.dev, strings.TrimPrefix(filepath.Clean(path), "/dev/"))
	} else if behindServer(points, path) {
		return
	}
	s.at.Store(fmt.Sprintf("%s, which %s exports,", path, by))
	d, ok, err := s.number(place, inDev)
	if err != nil {
		s.fail(fmt.Errorf("%s, which %s exports: %w", path, by, err))
		return
	}
	if ok {
		s.use(d, by)
	}
}

// behindServer reports whether the way to a path leads through a filesystem that may hang.
func behindServer(points []point, path string) bool {
	for _, p := range points {
		if p.mayHang() && strings.HasPrefix(path, strings.TrimSuffix(p.path, "/")+"/") {
			return true
		}
	}
	return false
}
