package plan

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
)

// Match compares a device with the identity that a decision was made on: wwn and serial when either side has one, the size,
// and the digest of the content. The error names what differs.
func Match(d Device, id Identity) error {
	diffs := hardwareDifferences(d, id)
	switch digest := Digest(d); {
	case id.Digest == "":
		diffs = append(diffs, "the request carries no digest")
	case digest == "":
		diffs = append(diffs, "its digest cannot be computed, a fact is unreadable")
	case digest != id.Digest:
		diffs = append(diffs, fmt.Sprintf("digest is %s, not %s", digest, id.Digest))
	}
	return mismatch(d, diffs)
}

// MatchHardware compares wwn, serial and size only. It is for devices whose ownership is written on them.
func MatchHardware(d Device, id Identity) error { return mismatch(d, hardwareDifferences(d, id)) }

func mismatch(d Device, diffs []string) error {
	if len(diffs) == 0 {
		return nil
	}
	return &MismatchError{Path: d.Path, Differences: diffs}
}

func hardwareDifferences(d Device, id Identity) []string {
	var diffs []string
	if d.WWN != id.WWN {
		diffs = append(diffs, fmt.Sprintf("wwn is %q, not %q", d.WWN, id.WWN))
	}
	if d.Serial != id.Serial {
		diffs = append(diffs, fmt.Sprintf("serial is %q, not %q", d.Serial, id.Serial))
	}
	if d.SizeBytes != id.SizeBytes {
		diffs = append(diffs, fmt.Sprintf("size is %d bytes, not %d", d.SizeBytes, id.SizeBytes))
	}
	return diffs
}

// IdentityOf describes a device as a caller would who decided on it now.
func IdentityOf(d Device) Identity {
	return Identity{Path: d.Path, WWN: d.WWN, Serial: d.Serial, SizeBytes: d.SizeBytes, Digest: Digest(d)}
}

// Find returns the device with that path, which may be any of its links.
func (s Snapshot) Find(path string) (Device, bool) {
	for _, d := range s.Devices {
		for _, p := range paths(d) {
			if p == path {
				return d, true
			}
		}
	}
	return Device{}, false
}

// paths are all names of a device, the stable one first.
func paths(d Device) []string {
	out := append([]string{d.Path}, d.Links...)
	return append(out, "/dev/"+strings.ReplaceAll(d.KernelName, "!", "/"))
}

func (s Snapshot) group(name string) (Group, bool) {
	for _, g := range s.Groups {
		if g.Name == name {
			return g, true
		}
	}
	return Group{}, false
}

// pvAlphabet are the characters of LVM's identifiers that need no quoting.
const pvAlphabet = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// PVUUID is the UUID of the physical volume that is made on a device for an owner. It depends on nothing else, so that a
// physical volume which an interrupted call left behind without a group is recognised as the owner's: no other process gives a
// device this UUID. The path is part of it because serial numbers are not always unique.
//
// The format is stable: SHA-256 over "quarry-pv-v1", owner, wwn, serial, size and path, each ended by a newline; each of its 32
// bytes, modulo 62, is one character; the groups have 6, 4, 4, 4, 4, 4 and 6.
func PVUUID(ownerUID string, id Identity) string {
	text := strings.Join([]string{
		"quarry-pv-v1", ownerUID, id.WWN, id.Serial, strconv.FormatInt(id.SizeBytes, 10), id.Path, "",
	}, "\n")
	sum := sha256.Sum256([]byte(text))
	var b strings.Builder
	for i, c := range sum {
		switch i {
		case 6, 10, 14, 18, 22, 26:
			b.WriteByte('-')
		}
		b.WriteByte(pvAlphabet[int(c)%len(pvAlphabet)])
	}
	return b.String()
}

// orphanOf says whether the device carries a physical volume that was made for the owner on this very device and is in no
// group. Any name of the device counts, and the recorded ones in also: links come and go with updates of udev.
func orphanOf(d Device, ownerUID string, also ...string) bool {
	if d.PVUUID == "" || d.Group != "" || d.OwnerUID != "" || len(d.Unreadable) > 0 {
		return false
	}
	for _, p := range append(paths(d), also...) {
		if d.PVUUID == PVUUID(ownerUID, Identity{Path: p, WWN: d.WWN, Serial: d.Serial, SizeBytes: d.SizeBytes}) {
			return true
		}
	}
	return false
}
