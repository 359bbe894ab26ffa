package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sort"
	"strings"
)

// digestVersion is the first line of what is hashed, and the prefix of the digest. It changes with the format, so that an
// approval given for one format is never taken for another.
const digestVersion = "v1"

// Digest condenses what a device is and what stands on it. It is empty when a fact that belongs to it could not be read.
//
// The format is stable: "v1:" and the SHA-256, in hex, of these lines, each "name=value" with the value quoted as in Go: wwn,
// serial, model, size, sector; one line per signature, ordered by offset, then type, with type, offset, uuid and label; pv (the
// UUID of the physical volume), content (Device.ContentDigest), partitions (how many). Names, links, mounts and holders are
// not part of it: they change while the device stays the same. A device with a wipe mark has the digest that the mark carries,
// so that an interrupted wipe can be finished under the approval that it started with.
func Digest(d Device) string {
	if len(d.Unreadable) > 0 || d.SizeBytes <= 0 {
		return ""
	}
	if d.Wipe != nil {
		return d.Wipe.Digest
	}
	if d.ContentDigest == "" && !contentMoves(d) {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "quarry-device-%s\n", digestVersion)
	fmt.Fprintf(&b, "wwn=%q\nserial=%q\nmodel=%q\n", d.WWN, d.Serial, d.Model)
	fmt.Fprintf(&b, "size=%d\nsector=%d\n", d.SizeBytes, d.LogicalSectorBytes)
	for _, s := range sortedSignatures(d.Signatures) {
		fmt.Fprintf(&b, "signature=%q %d %q %q\n", s.Type, s.Offset, s.UUID, s.Label)
	}
	fmt.Fprintf(&b, "pv=%q\ncontent=%q\npartitions=%d\n", d.PVUUID, d.ContentDigest, len(d.Partitions))
	sum := sha256.Sum256([]byte(b.String()))
	return digestVersion + ":" + hex.EncodeToString(sum[:])
}

// contentMoves is true for a device whose first and last MiB are not compared, because its user writes there at any time.
func contentMoves(d Device) bool {
	return d.PVUUID != "" || len(d.Mounts) > 0 || len(d.Holders) > 0
}

func sortedSignatures(in []Signature) []Signature {
	out := append([]Signature(nil), in...)
	sort.SliceStable(out, func(i, j int) bool {
		if out[i].Offset != out[j].Offset {
			return out[i].Offset < out[j].Offset
		}
		return out[i].Type < out[j].Type
	})
	return out
}
