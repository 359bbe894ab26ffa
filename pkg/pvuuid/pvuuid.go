// Package pvuuid is the one place that knows which UUID a physical volume gets. The agent gives it, and agent and controller know by it
// whose a physical volume is that an interrupted call left behind without a group. All but Complete is pure.
package pvuuid

import (
	"crypto/rand"
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

const (
	// alphabet are the characters of LVM's identifiers that need no quoting.
	alphabet = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	// characters is the number of characters of a UUID, and stem that of those that tell the owner and the disk.
	characters, stem = 32, 20
	// stemLength is the length of a stem as text, dashes included.
	stemLength = stem + 4
)

// Stem is how the UUIDs begin of all physical volumes that are made for an owner on a disk: their first 20 characters. The path counts only
// for a disk without WWN and serial number, which nothing else tells from others. Complete adds the rest, by which two disks that stood in
// one slot, one after the other, differ.
//
// The format is stable: SHA-256 over "quarry-pv-v2", owner, wwn, serial, size and path, each ended by a newline; each of its first 20
// bytes, modulo 62, is one character; the groups have 6, 4, 4, 4 and 2.
func Stem(ownerUID string, d Disk, path string) string {
	if d.WWN != "" || d.Serial != "" {
		path = ""
	}
	return text(hash("quarry-pv-v2", ownerUID, d, path)[:stem])
}

// Complete adds twelve random characters to a stem. A whole UUID stays as it is.
func Complete(stemOrUUID string) string {
	plain := strings.ReplaceAll(stemOrUUID, "-", "")
	if len(plain) >= characters {
		return stemOrUUID
	}
	more := make([]byte, characters-len(plain))
	rand.Read(more) // It never returns an error, and ends the program where there is no randomness.
	return group(plain + letters(more))
}

// First is the UUID that agents gave the physical volume of an owner on a disk under a path before there were stems. It is recognised for
// ever.
//
// The format is stable: SHA-256 over "quarry-pv-v1", owner, wwn, serial, size and path, each ended by a newline; each of its 32
// bytes, modulo 62, is one character; the groups have 6, 4, 4, 4, 4, 4 and 6.
func First(ownerUID string, d Disk, path string) string {
	return text(hash("quarry-pv-v1", ownerUID, d, path))
}

// Is reports whether a UUID is one that the owner's physical volume on the disk may have. All names of the disk count: links come and go
// with updates of udev, and it is not known which one was used.
func Is(uuid, ownerUID string, d Disk, paths ...string) bool {
	return uuid != "" && slices.ContainsFunc(paths, func(p string) bool {
		return Fits(uuid, Stem(ownerUID, d, p)) || uuid == First(ownerUID, d, p)
	})
}

// Fits reports whether a UUID is the expected one, or begins with it if that is a stem.
func Fits(uuid, expected string) bool {
	if len(expected) == stemLength {
		return strings.HasPrefix(uuid, expected)
	}
	return expected != "" && uuid == expected
}

// Kernel is the path of a device by the name that the kernel has for it, in which "!" stands for "/".
func Kernel(name string) string { return "/dev/" + strings.ReplaceAll(name, "!", "/") }

func hash(version, ownerUID string, d Disk, path string) []byte {
	sum := sha256.Sum256([]byte(strings.Join([]string{version, ownerUID, d.WWN, d.Serial, strconv.FormatInt(d.SizeBytes, 10), path, ""}, "\n")))
	return sum[:]
}

func text(bytes []byte) string { return group(letters(bytes)) }

func letters(bytes []byte) string {
	out := make([]byte, len(bytes))
	for i, c := range bytes {
		out[i] = alphabet[int(c)%len(alphabet)]
	}
	return string(out)
}

// group puts LVM's dashes between the characters.
func group(plain string) string {
	var b strings.Builder
	for i, c := range plain {
		switch i {
		case 6, 10, 14, 18, 22, 26:
			b.WriteByte('-')
		}
		b.WriteRune(c)
	}
	return b.String()
}
