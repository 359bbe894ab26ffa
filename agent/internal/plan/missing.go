package plan

import (
	"fmt"
	"slices"
	"strings"

	"quarry.storage/quarry/pkg/pvuuid"
	"quarry.storage/quarry/pkg/refusal"
)

// ReduceMissing makes a group forget the physical volumes that are missing. LVM refuses when one of them holds
// extents of a volume.
type ReduceMissing struct {
	Name string
	// GroupDevices are the devices of the group that are present.
	GroupDevices []string
	Reason
}

// Touches the devices of the group that are present.
func (s ReduceMissing) Touches() []string { return s.GroupDevices }

func (s ReduceMissing) String() string { return "drop the missing devices of group " + s.Name }

// RestorePV makes a group take a physical volume of its own back that was away while the group was changed. What is on the device stays:
// nobody else could write where volumes have extents on it.
type RestorePV struct {
	// Group is the name of the group, Device the path of the device that is back.
	Group, Device string
	// GroupDevices are the devices of the group that are present, the one that is back among them.
	GroupDevices []string
	Reason
}

// Touches the devices of the group that are present.
func (s RestorePV) Touches() []string { return s.GroupDevices }

func (s RestorePV) String() string {
	return fmt.Sprintf("take %s back into group %s", s.Device, s.Group)
}

// Restore plans how a group takes back the devices that it was changed without. Only a device that carries the very physical volume and can
// be read is taken back. A move of extents that was cut off can be finished only then.
func Restore(s Snapshot, g Group) []Step {
	var out []Step
	for _, pv := range g.PVs {
		d, ok := s.Find(pv.Path)
		if !pv.Returned || !ok || d.PVUUID != pv.UUID || len(d.Unreadable) > 0 {
			continue
		}
		out = append(out, RestorePV{
			Group: g.Name, Device: d.Path, GroupDevices: g.paths(),
			Reason: "the device was away while the group was changed, and is back",
		})
	}
	return out
}

// Lost are the names of the volumes and thin pools that have extents on a missing physical volume, ordered.
func (g Group) Lost() []string {
	var out []string
	for _, v := range g.LogicalVolumes {
		if v.Health == HealthPartial {
			out = append(out, v.Name)
		}
	}
	for _, p := range g.Pools {
		if p.Health == HealthPartial {
			out = append(out, p.Name)
		}
	}
	slices.Sort(out)
	return out
}

// Stale is the group with a volume or thin pool that leads to a disk that dropped off.
func (g Group) Stale(name string) Group {
	g.LogicalVolumes, g.Pools = slices.Clone(g.LogicalVolumes), slices.Clone(g.Pools)
	for i := range g.LogicalVolumes {
		g.LogicalVolumes[i].Stale = g.LogicalVolumes[i].Stale || g.LogicalVolumes[i].Name == name
	}
	for i := range g.Pools {
		g.Pools[i].Stale = g.Pools[i].Stale || g.Pools[i].Name == name
	}
	return g
}

// IsStale reports whether a volume of the group, or the thin pool that it is in, leads to a disk that dropped off.
func (g Group) IsStale(v Volume) bool {
	p, _ := g.Pool(v.Pool)
	return v.Stale || p.Stale
}

// AllStale are the names of the volumes and thin pools that lead to a disk that dropped off, ordered.
func (g Group) AllStale() []string {
	var out []string
	for _, v := range g.LogicalVolumes {
		if v.Stale {
			out = append(out, v.Name)
		}
	}
	for _, p := range g.Pools {
		if p.Stale {
			out = append(out, p.Name)
		}
	}
	slices.Sort(out)
	return out
}

// Unused reports whether the volume was made empty, and nobody was ever shown it.
func (v Volume) Unused() bool { return v.ID != "" && v.New && !v.Snapshot }

// missing are the physical volumes of the group that no device carries.
func (g Group) missing() []PV {
	var out []PV
	for _, pv := range g.PVs {
		if pv.Path == "" {
			out = append(out, pv)
		}
	}
	return out
}

func (g Group) poolNames() []string {
	var out []string
	for _, p := range g.Pools {
		out = append(out, p.Name)
	}
	return out
}

// MayForget refuses to give up on a missing device unless it is certain that no device of the node is it. A disk that cannot be read,
// or that udev still looks at, may be the missing one. So may a device whose label stands twice on the node: LVM is not given those.
func (g Group) MayForget(s Snapshot, p Policy) error {
	gone := g.missing()
	if len(gone) == 0 || len(gone) == len(g.PVs) {
		return fmt.Errorf("forget what is missing of group %s: %w; which one is not known", g.Name, ErrPartial)
	}
	for _, pv := range g.PVs {
		if pv.Returned {
			return fmt.Errorf("forget what is missing of group %s: %w; device %s is back and is being taken into it again", g.Name, ErrPartial, pv.Path)
		}
	}
	for _, d := range s.Devices {
		if slices.ContainsFunc(gone, func(pv PV) bool { return d.PVUUID == pv.UUID }) {
			return fmt.Errorf("forget what is missing of group %s: %w, but device %s carries its label; LVM does not take it for the device", g.Name, ErrPartial, d.Path)
		}
		if mayCarryPV(d, p) {
			return fmt.Errorf("forget what is missing of group %s: %w, and device %s, which cannot be read, may be it: heal it, or take it out of the node",
				g.Name, ErrPartial, d.Path)
		}
	}
	return nil
}

// mayCarryPV reports whether a device could be a physical volume of ours that we cannot see.
func mayCarryPV(d Device, p Policy) bool {
	switch {
	case d.PVUUID != "", d.IscsiLUN, virtual(d, p) != "", partition(d, p) != "", removable(d, p) != "":
		return false
	case d.SizeBytes == 0 && d.Type != "disk":
		// A virtual device with nothing behind it. A disk loses its size when it dies.
		return false
	case describe(d, refusal.LVM, "") != "":
		return true
	}
	read := d.HeadTailZero || d.ContentDigest != "" || len(d.Signatures) > 0
	return len(d.Unreadable) > 0 && !read
}

// Hiding returns the paths of the devices that may carry a part of a group of ours that is not among the reported ones, in the order of the
// devices: a device that cannot be read, and one that names a group that is not reported. Groups are made on whole disks only.
func Hiding(s Snapshot, p Policy) []string {
	var out []string
	for _, d := range s.Devices {
		reported := slices.ContainsFunc(s.Groups, func(g Group) bool {
			return slices.ContainsFunc(g.PVs, func(pv PV) bool { return pv.Path == d.Path || d.PVUUID != "" && pv.UUID == d.PVUUID })
		})
		refusals := Judge(d, p)
		has := func(reason string) bool {
			return slices.ContainsFunc(refusals, func(r Refusal) bool { return r.Reason == reason })
		}
		unread := has(refusal.Unreadable) && !has(refusal.Virtual) && !has(refusal.Partition) && !has(refusal.Removable)
		if unread || d.OwnerUID != "" && d.Group != "" && !reported {
			out = append(out, d.Path)
		}
	}
	return out
}

// UnknownGroup is a volume group that LVM could not report. What is known of it stands in LVM's metadata on its devices. Its devices are
// unreadable.
type UnknownGroup struct {
	// Name, UUID and OwnerUID as the metadata says; all empty when it cannot be read: nobody can tell then which group it is, and whose.
	Name, UUID, OwnerUID string
	// Devices that belong to it, by their stable paths, ordered.
	Devices []string
	// Reason says why LVM could not report it.
	Reason string
}

// String names the group and its devices, and says why it is unknown.
func (u UnknownGroup) String() string {
	name := "a volume group whose metadata cannot be read"
	if u.Name != "" {
		name = fmt.Sprintf("volume group %s (UUID %s)", u.Name, u.UUID)
	}
	return fmt.Sprintf("%s on %s: %s", name, strings.Join(u.Devices, ", "), u.Reason)
}

// Sure refuses, with ErrUnsure, to conclude that the seen groups of that name are all that the node has of the name, while an unknown one may
// be another. Where a group of the name is seen, it takes an unknown one of the same name to be unsure; where none is, one of the same
// owner, or of nobody knows whom, may be it: an administrator may have renamed it.
func (s Snapshot) Sure(name, ownerUID string) error {
	seen := slices.ContainsFunc(s.Groups, func(g Group) bool { return g.Name == name && g.Usable() })
	for _, u := range s.UnknownGroups {
		if u.Name == name || !seen && (u.OwnerUID == "" || u.OwnerUID == ownerUID) {
			return fmt.Errorf("group %s: %w: LVM cannot report %s", name, ErrUnsure, u)
		}
	}
	return nil
}

// Nowhere refuses, with ErrUnsure, to conclude that no group of a name on the node has what the seen ones lack: it is Sure, and one of which nobody
// can tell the name may be another, too. An empty owner stands for any.
func (s Snapshot) Nowhere(name, ownerUID string) error {
	for _, u := range s.UnknownGroups {
		if u.Name == "" && (ownerUID == "" || u.OwnerUID == "" || u.OwnerUID == ownerUID) {
			return fmt.Errorf("group %s: %w: LVM cannot report %s", name, ErrUnsure, u)
		}
	}
	return s.Sure(name, ownerUID)
}

// Absent refuses, with ErrUnsure, to conclude from a snapshot without a group of that name that the node has none: one that is unknown, or one
// on a device that cannot be read, may be it. It is nil where a group of the name is seen.
func (s Snapshot) Absent(name, ownerUID string, p Policy) error {
	if err := s.Sure(name, ownerUID); err != nil {
		return err
	}
	if slices.ContainsFunc(s.Groups, func(g Group) bool { return g.Name == name }) {
		return nil
	}
	if err := s.SeesAll(p); err != nil {
		return fmt.Errorf("group %s: %w", name, err)
	}
	return nil
}

// Unknown says which groups are unknown, and why; empty when none is.
func (s Snapshot) Unknown() string {
	var parts []string
	for _, u := range s.UnknownGroups {
		parts = append(parts, u.String())
	}
	return strings.Join(parts, "; ")
}

// SeesAll refuses, with ErrUnsure, to conclude that the node has no other group than those that are seen: a device may carry a part of one
// that is not seen.
func (s Snapshot) SeesAll(p Policy) error {
	for _, d := range s.Devices {
		if mayHidePV(d, p) {
			return fmt.Errorf("%w: device %s cannot be read and may be in one (%s); heal it, or take it out of the node",
				ErrUnsure, d.Path, strings.Join(d.Unreadable, "; "))
		}
	}
	return nil
}

// mayHidePV reports whether a device may be a physical volume of a group of ours that is not seen. That of a device whose label can be read
// is not seen either while another device has the same label, or LVM does not take it. A device that names its group, and the LUN of an Iscsi, hide no other one.
func mayHidePV(d Device, p Policy) bool {
	if virtual(d, p) != "" || partition(d, p) != "" || removable(d, p) != "" || d.Group != "" || d.IscsiLUN {
		return false
	}
	return d.PVUUID != "" && len(d.Unreadable) > 0 || mayCarryPV(d, p)
}

// forget adds the step that makes the group forget the missing devices. It notes what they are, by the records of the caller where
// those know it, and returns the paths of these records.
func (p *Plan) forget(g Group, want GroupSpec) map[string]bool {
	known := map[string]bool{}
	for _, pv := range g.missing() {
		what := fmt.Sprintf("The device with physical volume %s (%d bytes)", pv.UUID, pv.SizeBytes)
		for _, id := range want.Devices {
			if pvuuid.Is(pv.UUID, want.OwnerUID, id.disk(), id.Path) {
				what = fmt.Sprintf("Device %s (wwn %q, serial %q, %d bytes)", id.Path, id.WWN, id.Serial, id.SizeBytes)
				known[id.Path] = true
			}
		}
		p.Notes = append(p.Notes, fmt.Sprintf("%s was missing from group %s and is left behind as it is.", what, g.Name))
	}
	p.Steps = append(p.Steps, ReduceMissing{
		Name: g.Name, GroupDevices: g.paths(), Reason: "the group holds no volume and is removed, and devices of it are missing",
	})
	return known
}
