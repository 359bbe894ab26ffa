package spec

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

const (
	// StorageName is the name of the storage node: a small node without a
	// kubelet that serves storage to the others.
	StorageName = "storage"
	// StorageIndex is its place in the address plan. Kubernetes nodes count
	// from one.
	StorageIndex = 0
	// ExportDir is the directory that has all exports.
	ExportDir = "/export"
)

// minStorageMemory is what the kernel, udev and the NFS server need.
const minStorageMemory = 256 << 20

// minStorageDisk is the smallest useful disk of the storage node.
const minStorageDisk = 64 << 20

// Storage is the shape of the storage node and what it serves.
type Storage struct {
	Memory int64 `json:"memory"`
	// Disk is the size of the disk that has the exports.
	Disk    int64    `json:"disk"`
	Exports []Export `json:"exports"`
	// Targets are served over iSCSI.
	Targets []Target `json:"targets,omitempty"`
}

// Export is a directory that the storage node serves over NFS.
type Export struct {
	Name    string `json:"name"`
	Options string `json:"options"`
	// ID is the export's own file system number. With it, clients take two
	// exports for two file systems, with mount options of their own, even if
	// both are on one disk.
	ID int `json:"id"`
}

// DefaultExportOptions let root of every node do what it wants.
const DefaultExportOptions = "rw,no_root_squash,sync"

// NewStorage gives a storage node with the three exports that every test may
// expect.
func NewStorage(memory, disk int64) Storage {
	return Storage{Memory: memory, Disk: disk, Exports: []Export{
		{Name: "data", Options: DefaultExportOptions, ID: 1},
		{Name: "squash", Options: "rw,root_squash,sync", ID: 2},
		{Name: "readonly", Options: "ro,no_root_squash,sync", ID: 3},
	}}
}

// Validate reports the first thing about the shape that cannot work.
func (s Storage) Validate() error {
	if s.Memory < minStorageMemory {
		return fmt.Errorf("memory %d bytes: the storage node needs at least %dM", s.Memory, minStorageMemory>>20)
	}
	if s.Disk < minStorageDisk {
		return fmt.Errorf("disk %d bytes: the storage node's needs at least %dM", s.Disk, minStorageDisk>>20)
	}
	return nil
}

// SameShape reports whether two storage nodes would be built alike.
func (s Storage) SameShape(o Storage) bool { return s.Memory == o.Memory && s.Disk == o.Disk }

var (
	exportNamePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)
	// The format of exports(5) takes words in parentheses.
	exportOptionsPattern = regexp.MustCompile(`^[a-z_0-9]+(=[^\s,()#"\\]+)?(,[a-z_0-9]+(=[^\s,()#"\\]+)?)*$`)
)

// WithExport gives the storage node with one more export, or with new options
// for one that it has.
func (s Storage) WithExport(name, options string) (Storage, error) {
	if !exportNamePattern.MatchString(name) {
		return s, fmt.Errorf("export %q: want up to 63 lower-case letters, digits and dashes, with no dash in front", name)
	}
	if !exportOptionsPattern.MatchString(options) {
		return s, fmt.Errorf("options %q of export %s: want words with commas between them, for example %s", options, name, DefaultExportOptions)
	}
	if strings.Contains(","+options, ",fsid=") {
		return s, fmt.Errorf("options %q of export %s: the lab chooses fsid itself", options, name)
	}
	s.Exports = slices.Clone(s.Exports)
	last := 0
	for i, e := range s.Exports {
		if e.Name == name {
			s.Exports[i].Options = options
			return s, nil
		}
		last = max(last, e.ID)
	}
	s.Exports = append(s.Exports, Export{Name: name, Options: options, ID: last + 1})
	return s, nil
}

// Path is where the export is, on the storage node and for clients.
func (e Export) Path() string { return ExportDir + "/" + e.Name }

// Line is the export in the format of exports(5).
func (e Export) Line() string {
	return fmt.Sprintf("%s *(%s,no_subtree_check,fsid=%d)", e.Path(), e.Options, e.ID)
}
