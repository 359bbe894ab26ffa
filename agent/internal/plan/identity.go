package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sort"
	"strings"

	"quarry.storage/quarry/pkg/pvuuid"
	"quarry.storage/quarry/pkg/systemid"
)

// Match compares a device with the identity that a decision was made on: wwn and serial when either side has one, the size,
// and the digest of the content. The error names what differs.
func Match(d Device, id Identity) error {
	diffs := hardwareDifferences(d, id)
	switch digest := Digest(d); {
	case id.Digest == "":
		diffs = append(diffs, "the request carries no digest")
	case digest == "":
		diffs = append(diffs, strings.TrimSuffix("its digest cannot be computed, a fact is unreadable: "+strings.Join(d.Unreadable, "; "), ": "))
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
	return append(out, pvuuid.Kernel(d.KernelName))
}

// stem is how the UUID begins of a physical volume that is made on a device for an owner.
func stem(ownerUID string, id Identity) string { return pvuuid.Stem(ownerUID, id.disk(), id.Path) }

func (id Identity) disk() pvuuid.Disk {
	return pvuuid.Disk{WWN: id.WWN, Serial: id.Serial, SizeBytes: id.SizeBytes}
}

// orphanOf reports whether the device carries a physical volume that was made for the owner on this very device and is in no
// group. Any name of the device counts, and the recorded ones in also: links come and go with updates of udev.
func orphanOf(d Device, ownerUID string, also ...string) bool {
	if d.Group != "" || d.OwnerUID != "" || len(d.Unreadable) > 0 {
		return false
	}
	return pvuuid.Is(d.PVUUID, ownerUID, pvuuid.Disk{WWN: d.WWN, Serial: d.Serial, SizeBytes: d.SizeBytes}, append(paths(d), also...)...)
}

// digestVersion is the first line of what is hashed, and the prefix of the digest. It changes with the format, so that an
// approval given for one format is never taken for another.
const digestVersion = "v1"

// Digest condenses what a device is and what stands on it. It is empty when a fact that belongs to it could not be read.
//
// The format, which an approval has to outlive: "v1:" and the SHA-256, in hex, of these lines, each "name=value" with the value quoted as in Go: wwn,
// serial, model, size, sector; one line per signature, ordered by offset, then type, with type, offset, uuid and label; group
// (Device.PVGroup; no line when it is empty), pv (the UUID of the physical volume), content (Device.ContentDigest, empty while somebody uses the device), labels
// (Device.LabelDigest; no line when it is empty, or while somebody uses the device), partitions (how many). Names
// and links are not part of it: they change while the device stays the same. A device with a wipe mark has the digest that the mark
// carries, so that an interrupted wipe can be finished under the approval that it started with; but not if there is anything on the device by
// now that was not there then.
func Digest(d Device) string {
	if len(d.Unreadable) > 0 || d.SizeBytes <= 0 {
		return ""
	}
	if d.Wipe != nil && len(d.Wipe.Later) == 0 {
		return d.Wipe.Digest
	}
	content := content(d)
	if content == "" && !contentMoves(d) {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "quarry-device-%s\n", digestVersion)
	fmt.Fprintf(&b, "wwn=%q\nserial=%q\nmodel=%q\n", d.WWN, d.Serial, d.Model)
	fmt.Fprintf(&b, "size=%d\nsector=%d\n", d.SizeBytes, d.LogicalSectorBytes)
	for _, s := range sortedSignatures(d.Signatures) {
		fmt.Fprintf(&b, "signature=%q %d %q %q\n", s.Type, s.Offset, s.UUID, s.Label)
	}
	if d.PVGroup != "" {
		fmt.Fprintf(&b, "group=%q\n", d.PVGroup)
	}
	fmt.Fprintf(&b, "pv=%q\ncontent=%q\n", d.PVUUID, content)
	if d.LabelDigest != "" && !contentMoves(d) {
		fmt.Fprintf(&b, "labels=%q\n", d.LabelDigest)
	}
	fmt.Fprintf(&b, "partitions=%d\n", len(d.Partitions))
	sum := sha256.Sum256([]byte(b.String()))
	return digestVersion + ":" + hex.EncodeToString(sum[:])
}

// content is the part of the digest that tells of the first and the last MiB; empty when these are not compared.
func content(d Device) string {
	if contentMoves(d) {
		return ""
	}
	return d.ContentDigest
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

// Access says whose node a group is, by the LVM system ID in its metadata.
type Access int

// The zero value is a group that names no node: earlier agents made such ones, and any node may change them.
const (
	// AccessNone: the group names no node.
	AccessNone Access = iota
	// AccessOwn: the group names this node.
	AccessOwn
	// AccessOther: the group names another node. It is shown, and nothing else: LVM changes nothing in it here.
	AccessOther
)

// Usable reports whether this node may use the group.
func (g Group) Usable() bool { return g.Access != AccessOther }

// in reports whether the device belongs to the group. A group of another node may have the same name and owner.
func (d Device) in(g Group) bool {
	return d.Group == g.Name && d.OwnerUID == g.OwnerUID && (d.OtherNode == "") == g.Usable()
}

// Here refuses, with ErrOtherNode, a name that only groups of other nodes have.
func (s Snapshot) Here(name string) error {
	other := ""
	for _, g := range s.Groups {
		switch {
		case g.Name != name:
		case g.Usable():
			return nil
		default:
			other = g.SystemID
		}
	}
	if other == "" {
		return nil
	}
	return fmt.Errorf("group %s is that of %s: %w", name, systemid.Describe(other), ErrOtherNode)
}

// Identity says which device a decision was made on.
type Identity struct {
	Path, WWN, Serial string
	SizeBytes         int64
	// Digest of what was seen on it; empty when the caller knows the device from its records only.
	Digest string
}

// Looked is a device of an observation, with what a look at that device alone found right after. The look opened it exclusively, and looked for users at that moment; it is nil where the device
// could not be opened exclusively. The error says that the two did not see the same.
func Looked(seen Device, look *Device, p Policy) (Device, error) {
	if look == nil {
		// Who uses it in other ways is left out: a sentence that names users would be taken for all of them.
		seen.Use, seen.Users = Used, nil
		return seen, nil
	}
	if err := same(seen, *look); err != nil {
		return Device{}, err
	}
	settles := seen.Use == Untested && Promising(seen, p)
	seen.Holders, seen.Partitions, seen.Suspended, seen.ReadOnly = look.Holders, look.Partitions, look.Suspended, look.ReadOnly
	seen.Unreadable = slices.Clone(seen.Unreadable)
	for _, u := range look.Unreadable {
		if !slices.Contains(seen.Unreadable, u) {
			seen.Unreadable = append(seen.Unreadable, u)
		}
	}
	switch {
	case look.Use == Used:
		seen.Use, seen.Users = Used, look.Users
	case !settles:
		seen.Use, seen.Users = Unused, nil
	}
	return seen, nil
}

// same compares the device behind an open file with the one that an observation saw under the path.
func same(seen, look Device) error {
	diffs := hardwareDifferences(look, IdentityOf(seen))
	if look.KernelName != seen.KernelName {
		diffs = append(diffs, fmt.Sprintf("the path leads to %s, not to %s", look.KernelName, seen.KernelName))
	}
	if was, is := Digest(seen), Digest(look); was != "" && is != "" && was != is {
		diffs = append(diffs, "what is on it changed while it was looked at")
	}
	return mismatch(seen, diffs)
}
