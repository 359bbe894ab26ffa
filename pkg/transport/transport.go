// Package transport names the ways in which a disk is attached to its node. The agent finds them, users choose by them, and the controller
// takes some disks only on request.
package transport

import "strings"

// The transports. An agent may tell of others, and of none where the kernel does not say.
const (
	SATA   = "sata"
	SAS    = "sas"
	SCSI   = "scsi"
	NVMe   = "nvme"
	Virtio = "virtio"
	Xen    = "xen"
	MMC    = "mmc"
	NVDIMM = "nvdimm"
	USB    = "usb"
	ISCSI  = "iscsi"
	FC     = "fc"
	// Fabrics begins the names of NVMe over a network: nvme-tcp, nvme-rdma, nvme-fc, and nvme-loop, which stays on the node.
	Fabrics = "nvme-"
	NBD     = "nbd"
	RBD     = "rbd"
	RNBD    = "rnbd"
	AoE     = "aoe"
	DRBD    = "drbd"
)

// OnRequest reports whether disks with a transport are taken only by a selector that names them: what comes over a network was most likely
// put there for somebody else, and what hangs on USB is there for a while.
func OnRequest(name string) bool {
	switch name {
	case USB, ISCSI, FC, NBD, RBD, RNBD, AoE, DRBD:
		return true
	}
	return strings.HasPrefix(name, Fabrics)
}
