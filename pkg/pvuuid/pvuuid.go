// Package pvuuid is the one place that knows which UUID a physical volume gets. The agent gives it, and agent and controller know by it
// whose a physical volume is that an interrupted call left behind without a group. It is pure.
package pvuuid

import (
	"crypto/sha256"
	"slices"
	"strconv"
	"strings"
)

// Disk tells one disk from another.
type Disk struct {
	WWN, Serial string
	SizeBytes   int64
}

// alphabet are the characters of LVM's identifiers that need no quoting.
const alphabet = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// Of is the UUID of the physical volume that is made for an owner on a disk under a path. It depends on nothing else, so that no other
// process gives a disk this UUID. The path is part of it because serial numbers are not always unique.
//
// The format is stable: SHA-256 over "quarry-pv-v1", owner, wwn, serial, size and path, each ended by a newline; each of its 32
// bytes, modulo 62, is one character; the groups have 6, 4, 4, 4, 4, 4 and 6.
func Of(ownerUID string, d Disk, path string) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{
		"quarry-pv-v1", ownerUID, d.WWN, d.Serial, strconv.FormatInt(d.SizeBytes, 10), path, "",
	}, "\n")))
	var b strings.Builder
	for i, c := range sum {
		switch i {
		case 6, 10, 14, 18, 22, 26:
			b.WriteByte('-')
		}
		b.WriteByte(alphabet[int(c)%len(alphabet)])
	}
	return b.String()
}

// Is says whether a UUID is what the owner's physical volume on the disk has. All names of the disk count: links come and go with
// updates of udev, and it is not known which one was used.
func Is(uuid, ownerUID string, d Disk, paths ...string) bool {
	return uuid != "" && slices.ContainsFunc(paths, func(p string) bool { return uuid == Of(ownerUID, d, p) })
}

// Kernel is the path of a device by the name that the kernel has for it, in which "!" stands for "/".
func Kernel(name string) string { return "/dev/" + strings.ReplaceAll(name, "!", "/") }
