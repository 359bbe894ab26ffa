// Package node is the lab's side inside a node: it runs as the first process of
// a user-mode Linux kernel, puts a writable layer over the machine's files,
// and starts udev, containerd and the kubelet, or what serves storage. It runs
// nowhere else.
package node

import (
	"quarry.storage/quarry/test/lab/internal/spec"
	"quarry.storage/quarry/test/lab/internal/state"
)

// Config is all a node has to know; the machine writes it, the node reads it.
type Config struct {
	Name         string `json:"name"`
	Lab          string `json:"lab"`
	IP           string `json:"ip"`
	ManagementIP string `json:"managementIP"`
	PodCIDR      string `json:"podCIDR"`
	Peers        []Peer `json:"peers"`
	// Path is where containerd and the Kubernetes programs are.
	Path []string `json:"path"`
	// Modules is the directory of the kernel's modules, by release.
	Modules string `json:"modules"`
	// PKI is the directory of the certificates and kubeconfigs.
	PKI string `json:"pki"`
	// Shares are directories of the machine to show live and read-only at the
	// same path.
	Shares []string `json:"shares"`
	// Logs is the directory of the machine that takes the node's logs.
	Logs string `json:"logs"`
	// Images are image archives every node has from the start.
	Images []Image `json:"images"`
	// SCSI are the SCSI disks to attach at boot; the kernel's command line has
	// the others.
	SCSI []SCSIDisk `json:"scsi"`
	// Bare is a node without containerd and kubelet.
	Bare bool `json:"bare,omitempty"`
	// Storage makes this the storage node: it serves storage and has no
	// kubelet.
	Storage *spec.Storage `json:"storage,omitempty"`
}

// Peer is another node and the pods behind it.
type Peer struct {
	IP      string `json:"ip"`
	PodCIDR string `json:"podCIDR"`
}

// Image is an image archive and the name it has in the container runtime.
type Image struct {
	Name    string `json:"name"`
	Archive string `json:"archive"`
}

// SCSIDisk is an image file shown as a SCSI disk.
type SCSIDisk struct {
	Image  string `json:"image"`
	Serial string `json:"serial"`
}

// Load reads a node's configuration.
func Load(path string) (Config, error) {
	var c Config
	err := state.ReadJSON(path, &c)
	return c, err
}
