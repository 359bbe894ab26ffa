// Package spec holds what a lab is made of as plain values: its shape, its
// addresses and its disks. It is pure; it knows nothing of files, processes or
// kernels.
package spec

import (
	"fmt"
	"regexp"
	"strings"
)

// DefaultName is the lab that commands mean when none is named.
const DefaultName = "quarry"

// PauseImage is the image of every pod's sandbox.
const PauseImage = "registry.k8s.io/pause:3.10"

// maxNodes keeps every node's host part inside one /24 of the address plan.
const maxNodes = 200

// minMemory is what a node needs to run its kubelet, containerd and a few pods,
// and minBareMemory what the kernel, udev and a test need.
const (
	minMemory     = 512 << 20
	minBareMemory = 256 << 20
)

// Lab is the shape of one lab, fixed when it is first brought up.
type Lab struct {
	Name   string  `json:"name"`
	Nodes  int     `json:"nodes"`
	Disks  DiskSet `json:"disks"`
	Memory int64   `json:"memory"`
	// Bare makes a lab without Kubernetes: its nodes have a kernel, udev and
	// disks, and take commands.
	Bare bool `json:"bare,omitempty"`
	// Shares are directories of the machine that every node sees live and
	// read-only at the same path.
	Shares []string `json:"shares,omitempty"`
	// Images are archives of images that nodes have in their container runtime
	// from the start, besides those that every lab has.
	Images []string `json:"images,omitempty"`
}

var namePattern = regexp.MustCompile(`^[a-z][a-z0-9-]{0,19}$`)

// ValidateName refuses names that could not be part of a path, a network
// namespace and a UML id.
func ValidateName(name string) error {
	if !namePattern.MatchString(name) {
		return fmt.Errorf("lab name %q: want a lower-case letter, then up to 19 letters, digits or dashes", name)
	}
	return nil
}

// Validate reports the first thing about the shape that cannot work.
func (l Lab) Validate() error {
	if err := ValidateName(l.Name); err != nil {
		return err
	}
	if l.Nodes < 1 || l.Nodes > maxNodes {
		return fmt.Errorf("nodes %d: want 1 to %d", l.Nodes, maxNodes)
	}
	if l.Bare && len(l.Images) > 0 {
		return fmt.Errorf("images %s: a bare lab has no container runtime for them", strings.Join(l.Images, ", "))
	}
	least := int64(minMemory)
	if l.Bare {
		least = minBareMemory
	}
	if l.Memory < least {
		return fmt.Errorf("memory %d bytes: a node needs at least %dM", l.Memory, least>>20)
	}
	return nil
}

// NodeNames lists the Kubernetes nodes in order.
func (l Lab) NodeNames() []string {
	names := make([]string, l.Nodes)
	for i := range names {
		names[i] = NodeName(i + 1)
	}
	return names
}

// NodeName is the name of the node with the given index: Kubernetes nodes count
// from one, the storage node has StorageIndex.
func NodeName(index int) string {
	if index == StorageIndex {
		return StorageName
	}
	return fmt.Sprintf("n%d", index)
}

// Index gives the index of a node by its name. Every lab may have a storage
// node.
func (l Lab) Index(node string) (int, error) {
	if node == StorageName {
		return StorageIndex, nil
	}
	for i, name := range l.NodeNames() {
		if name == node {
			return i + 1, nil
		}
	}
	return 0, fmt.Errorf("node %q: this lab has n1 to n%d, and %s", node, l.Nodes, StorageName)
}

// SameShape reports whether two labs would be built alike.
func (l Lab) SameShape(o Lab) bool {
	return l.Name == o.Name && l.Nodes == o.Nodes && l.Disks == o.Disks && l.Memory == o.Memory && l.Bare == o.Bare
}
