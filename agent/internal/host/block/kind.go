package block

import "strings"

// kinds map the beginning of a kernel name to a type; the first that fits wins. Whatever is not here is a disk: SCSI, NVMe,
// virtio, MMC, persistent memory and Xen disks.
// After the prefix comes a number, or anything where the driver counts otherwise.
var kinds = []struct {
	prefix, kind string
	lettered     bool
}{
	{prefix: "loop", kind: "loop"},
	{prefix: "zram", kind: "zram"},
	{prefix: "ram", kind: "ram"},
	{prefix: "dm-", kind: "dm"},
	{prefix: "md", kind: "md", lettered: true},
	{prefix: "sr", kind: "rom"},
	{prefix: "scd", kind: "rom"},
	{prefix: "pktcdvd", kind: "rom"},
	{prefix: "gdrom", kind: "rom", lettered: true},
	{prefix: "fd", kind: "floppy"},
	{prefix: "nbd", kind: "nbd"},
	{prefix: "drbd", kind: "drbd"},
	{prefix: "bcache", kind: "bcache"},
	{prefix: "ubd", kind: "ubd", lettered: true},
	{prefix: "ublkb", kind: "ublk"},
	{prefix: "ubiblock", kind: "ubiblock"},
	{prefix: "rbd", kind: "rbd"},
	{prefix: "rnbd", kind: "rnbd"},
	{prefix: "mtdblock", kind: "mtd"},
	{prefix: "zd", kind: "zvol"},
	{prefix: "etherd!", kind: "aoe", lettered: true},
	{prefix: "nullb", kind: "nullb"},
}

// kindOf tells the type of a whole device by its kernel name.
func kindOf(name string) string {
	for _, k := range kinds {
		rest, ok := strings.CutPrefix(name, k.prefix)
		if ok && rest != "" && (k.lettered || rest[0] >= '0' && rest[0] <= '9') {
			return k.kind
		}
	}
	return "disk"
}

// devName is the name of the node below /dev: the kernel writes "!" for the "/" that a file name cannot hold.
func devName(kernelName string) string {
	return strings.ReplaceAll(kernelName, "!", "/")
}
