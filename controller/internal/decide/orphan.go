package decide

import (
	"crypto/sha256"
	"strconv"
	"strings"
)

// Orphan says whether a device carries a physical volume that was made for the owner on this very device and is in no group: a
// call for the owner was interrupted there. Agents recognise it by the UUID that they gave it, and so does this function.
func (d Device) Orphan(ownerUID string) bool {
	if d.PVUUID == "" || d.VolumeGroup != "" || d.OwnerUID != "" || d.Digest == "" {
		return false
	}
	paths := append([]string{d.Path}, d.Links...)
	for _, p := range append(paths, "/dev/"+d.KernelName) {
		if d.PVUUID == pvUUID(ownerUID, d, p) {
			return true
		}
	}
	return false
}

// pvUUID is the UUID that agents give the physical volume of a device under a path: SHA-256 over "quarry-pv-v1", owner, wwn,
// serial, size and path, each ended by a newline; each byte modulo 62 is one character; the groups have 6, 4, 4, 4, 4, 4 and 6.
func pvUUID(ownerUID string, d Device, path string) string {
	const alphabet = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
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
