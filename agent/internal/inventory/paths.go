package inventory

import (
	"slices"
	"strings"
)

// addPaths finds disks that the node sees more than once: those of one WWN. The kernel joins the paths of some NVMe disks by itself and
// shows one device; multipath makes a device on top of the others.
func addPaths(devices []*observed) {
	byWWN, kinds := map[string][]*observed{}, map[string]*observed{}
	for _, d := range devices {
		kinds[d.KernelName] = d
		// A partition has the WWN of its disk.
		if d.Type == "disk" && unique(d.WWN) {
			byWWN[d.WWN] = append(byWWN[d.WWN], d)
		}
	}
	for _, same := range byWWN {
		for _, d := range same {
			if isLeg(d, kinds) {
				continue
			}
			for _, other := range same {
				if other != d {
					d.Paths = append(d.Paths, other.KernelName)
				}
			}
			slices.Sort(d.Paths)
		}
	}
}

// unique reports whether a WWN can tell disks apart: some firmware has none and says zero.
func unique(wwn string) bool {
	number := strings.TrimPrefix(wwn[strings.LastIndex(wwn, ".")+1:], "0x")
	return strings.Trim(number, "0") != ""
}
