package plan

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"quarry.storage/quarry/pkg/quarry"
	"quarry.storage/quarry/pkg/refusal"
	"quarry.storage/quarry/pkg/systemid"
)

// GroupSpec is the group that a caller wants, or wants to be rid of, with its devices.
type GroupSpec struct {
	Name, OwnerUID string
	// UUID of the group that is meant; empty for the group of that name, whichever it is.
	UUID    string
	Devices []Identity
}

// groupName are the names that LVM takes, without those that could be read as an option or a path.
var groupName = regexp.MustCompile(`^[A-Za-z0-9_+][A-Za-z0-9_+.-]{0,126}$`)

// CheckGroupName refuses, with ErrInvalid, what cannot be the name of a group.
func CheckGroupName(name string) error {
	if !groupName.MatchString(name) {
		return fmt.Errorf("group name %q: %w", name, ErrInvalid)
	}
	return nil
}

// EnsureGroup plans how the group comes to hold the wanted devices. It judges all devices before the first step: when one of them
// cannot be taken, the plan is empty and the error names every device that cannot.
//
// It makes no group while one of that name may be on the node unseen, and none of devices with sectors of different sizes.
//
// It accepts three kinds of devices: those that are in the group already, physical volumes that an interrupted call for this very
// owner left behind without a group (see PVUUID), and clean devices that are still as described.
func EnsureGroup(s Snapshot, want GroupSpec, p Policy) (Plan, error) {
	group, exists, err := OwnGroup(s, want, ErrAlreadyExists)
	if err == nil && !exists && want.UUID != "" {
		err = fmt.Errorf("group %s with UUID %s is not on this node, and none is made in its place: %w", want.Name, want.UUID, ErrOtherGroup)
	}
	if err != nil {
		return Plan{}, err
	}
	devices, err := wanted(s, want)
	if err != nil {
		return Plan{}, err
	}
	var steps []Step
	var join []Token
	var errs []error
	for i, d := range devices {
		id := want.Devices[i]
		if exists && d.in(group) {
			errs = append(errs, MatchHardware(d, id))
			continue
		}
		token, prepare, err := admit(d, id, want.OwnerUID, p)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		steps = append(steps, prepare...)
		join = append(join, token)
	}
	if len(join) > 0 {
		errs = append(errs, sameSectors(s, group, devices))
	}
	if err := errors.Join(errs...); err != nil {
		return Plan{}, err
	}
	if !exists && len(join) > 0 {
		if err := s.SeesAll(p); err != nil {
			return Plan{}, fmt.Errorf("make group %s: %w", want.Name, err)
		}
	}
	return growGroup(want, group, exists, steps, join)
}

// sameSectors refuses devices that differ, from one another or from those of the group, in the size of a logical sector. LVM makes no group of
// them, and says so only after they became physical volumes; a filesystem would not survive being moved from one to another.
func sameSectors(s Snapshot, g Group, devices []Device) error {
	for _, pv := range g.PVs {
		if d, ok := s.Find(pv.Path); ok && pv.Path != "" {
			devices = append(devices, d)
		}
	}
	last := devices[len(devices)-1]
	for _, d := range devices {
		if d.LogicalSectorBytes != last.LogicalSectorBytes {
			return fmt.Errorf("%w: %s has logical sectors of %d bytes, %s of %d; choose disks of one kind for a Cluster, with devices.paths or devices.model",
				ErrSectorSizes, d.Path, d.LogicalSectorBytes, last.Path, last.LogicalSectorBytes)
		}
	}
	return nil
}

// growGroup appends the step that makes or extends the group, when there is something to add.
func growGroup(want GroupSpec, group Group, exists bool, steps []Step, join []Token) (Plan, error) {
	var devices []string
	for _, t := range join {
		devices = append(devices, t.device.Path)
	}
	switch {
	case len(join) == 0:
		return Plan{}, nil
	case !exists:
		reason := Reason(fmt.Sprintf("group %s does not exist", want.Name))
		tags := []string{quarry.TagCluster + want.OwnerUID}
		steps = append(steps, CreateVG{Name: want.Name, Tags: tags, Devices: devices, Reason: reason, tokens: join})
	case group.Moving != nil:
		return Plan{}, fmt.Errorf("extend group %s: %w", want.Name, group.Still())
	case group.Partial:
		return Plan{}, fmt.Errorf("extend group %s: %w; a group that is not complete does not grow", want.Name, ErrPartial)
	default:
		reason := Reason(fmt.Sprintf("%d wanted devices are not in group %s", len(join), want.Name))
		steps = append(steps, ExtendVG{Name: want.Name, GroupDevices: group.paths(), Devices: devices, Reason: reason, tokens: join})
	}
	return Plan{Steps: steps}, nil
}

// admit returns what permits a wanted device to join the group, and the steps that it needs before: none for an orphan of the owner, else a
// CreatePV.
func admit(d Device, id Identity, ownerUID string, p Policy) (Token, []Step, error) {
	if err := MatchHardware(d, id); err != nil {
		return Token{}, nil, err
	}
	refusals := Judge(d, p)
	device := id
	device.Path = d.Path
	if orphanOf(d, ownerUID, id.Path) {
		refusals = obstacles(refusals, map[string]bool{refusal.LVM: true})
		if len(refusals) == 0 {
			return Token{device: device, pvUUID: d.PVUUID, ground: Ownership}, nil, nil
		}
	}
	if len(refusals) > 0 {
		return Token{}, nil, &NotCleanError{Path: d.Path, Refusals: refusals}
	}
	if err := Match(d, id); err != nil {
		return Token{}, nil, err
	}
	uuid := stem(ownerUID, device)
	return Token{device: device, pvUUID: uuid, ground: Ownership}, []Step{CreatePV{
		Stem:   uuid,
		Reason: "device is clean and wanted in the group",
		token:  Token{device: device, ground: Clean},
	}}, nil
}

// OwnGroup finds the group of that name that this node may use. It refuses, with the given error, a group of another owner, one of another node when the node has none of its own, and a name that stands twice on
// the node; with ErrUnsure, a group that may be one of those that are unknown; with
// ErrOtherGroup, one that has another UUID than is meant.
func OwnGroup(s Snapshot, want GroupSpec, taken error) (Group, bool, error) {
	if slices.Contains(s.ForeignGroups, want.Name) {
		return Group{}, false, fmt.Errorf("group %s carries no tag of ours: %w", want.Name, taken)
	}
	var found []Group
	other := ""
	for _, g := range s.Groups {
		if g.Name != want.Name {
			continue
		}
		if !g.Usable() {
			other = g.SystemID
			continue
		}
		if g.OwnerUID != want.OwnerUID {
			return Group{}, false, fmt.Errorf("group %s is owned by the Cluster with UID %s: %w", g.Name, g.OwnerUID, taken)
		}
		found = append(found, g)
	}
	if err := s.Sure(want.Name, want.OwnerUID); err != nil {
		return Group{}, false, err
	}
	switch {
	case len(found) == 0 && other != "":
		return Group{}, false, fmt.Errorf("group %s is that of %s: %w: %w", want.Name, systemid.Describe(other), ErrOtherNode, taken)
	case len(found) == 0:
		return Group{}, false, nil
	case len(found) == 1:
		return found[0], true, found[0].meant(want.UUID)
	}
	return Group{}, false, fmt.Errorf("the node has %d groups of the name %s: %w; they serve what they hold, and nothing else is done until the "+
		"disks of one are taken out of the node", len(found), want.Name, taken)
}

// meant refuses, with ErrOtherGroup, a group that has another UUID than a caller means; an empty one means any.
func (g Group) meant(uuid string) error {
	if uuid == "" || uuid == g.UUID {
		return nil
	}
	return fmt.Errorf("group %s has UUID %s, not %s: %w", g.Name, g.UUID, uuid, ErrOtherGroup)
}

// wanted finds the devices of a request, in the order of the request.
func wanted(s Snapshot, want GroupSpec) ([]Device, error) {
	var out []Device
	var errs []error
	seen := map[string]string{}
	for _, id := range want.Devices {
		d, ok := s.Find(id.Path)
		if !ok {
			errs = append(errs, fmt.Errorf("device %s: %w", id.Path, ErrNotFound))
			continue
		}
		if first, twice := seen[d.KernelName]; twice {
			errs = append(errs, fmt.Errorf("%s and %s are the same device: %w", first, id.Path, ErrInvalid))
			continue
		}
		seen[d.KernelName] = id.Path
		out = append(out, d)
	}
	return out, errors.Join(errs...)
}

// Ref is what the steps on volumes need to know about their group.
func (g Group) Ref() GroupRef {
	return GroupRef{Name: g.Name, Tag: quarry.TagCluster + g.OwnerUID, Devices: g.paths()}
}

// paths are the devices of the group that are present.
func (g Group) paths() []string {
	var out []string
	for _, pv := range g.PVs {
		if pv.Path != "" {
			out = append(out, pv.Path)
		}
	}
	return out
}
