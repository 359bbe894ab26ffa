package block

import (
	"path/filepath"
	"strings"
)

// idPreference orders the beginnings of names below /dev/disk/by-id; what is not here comes after them. A name that the
// hardware was born with comes before one that is made of model and serial number.
var idPreference = []string{
	"wwn-", "nvme-eui.", "nvme-uuid.", "nvme-nvme.", "scsi-3", "scsi-", "nvme-", "ata-", "virtio-", "mmc-", "usb-",
}

// idExcluded are names that follow what is written on the device, or what is built of it, rather than the device.
var idExcluded = []string{"dm-", "lvm-", "md-", "bcache-"}

// best picks the stable path of a device among its links, else its node.
func best(links []string, dev, node string) string {
	byID, byPath := filepath.Join(dev, "disk", "by-id")+"/", filepath.Join(dev, "disk", "by-path")+"/"
	found, rank := "", len(idPreference)+1
	for _, l := range links {
		name, ok := strings.CutPrefix(l, byID)
		if !ok || hasPrefix(name, idExcluded) >= 0 {
			continue
		}
		r := hasPrefix(name, idPreference)
		if r < 0 {
			r = len(idPreference)
		}
		if r < rank {
			found, rank = l, r
		}
	}
	if found != "" {
		return found
	}
	for _, l := range links {
		if strings.HasPrefix(l, byPath) {
			return l
		}
	}
	return node
}

// hasPrefix is the index of the first prefix that the name has, or -1.
func hasPrefix(name string, prefixes []string) int {
	for i, p := range prefixes {
		if strings.HasPrefix(name, p) {
			return i
		}
	}
	return -1
}
