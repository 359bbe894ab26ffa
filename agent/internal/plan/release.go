package plan

import (
	"errors"
	"fmt"
	"strings"

	"quarry.storage/quarry/pkg/refusal"
	"quarry.storage/quarry/pkg/systemid"
)

// ReduceGroup plans how the devices leave the group and become clean. A device that an interrupted call took out already, and that
// still is a physical volume of ours, is released. A device that is absent, or something else by now, is left alone with a note.
func ReduceGroup(s Snapshot, want GroupSpec, p Policy) (Plan, error) {
	group, exists, err := OwnGroup(s, want, ErrNotOurs)
	if err != nil {
		return Plan{}, err
	}
	var out Plan
	var leave []Device
	var errs []error
	for _, id := range want.Devices {
		d, ok := s.Find(id.Path)
		switch {
		case !ok:
			out.Notes = append(out.Notes, fmt.Sprintf("Device %s is absent.", id.Path))
		case exists && d.in(group):
			if err := mayLeave(group, d, id); err != nil {
				errs = append(errs, err)
				continue
			}
			if !containsDevice(leave, d) {
				leave = append(leave, d)
			}
		case d.OtherNode != "":
			errs = append(errs, fmt.Errorf("device %s is in group %s of %s: %w: %w", d.Path, d.Group, systemid.Describe(d.OtherNode), ErrOtherNode, ErrNotOurs))
		case d.OwnerUID != "" && d.OwnerUID != want.OwnerUID:
			errs = append(errs, fmt.Errorf("device %s is in group %s of the Cluster with UID %s: %w", d.Path, d.Group, d.OwnerUID, ErrNotOurs))
		default:
			out.settle(d, id, want, p)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return Plan{}, err
	}
	if len(leave) == 0 {
		return out, nil
	}
	return out.reduce(group, leave)
}

// reduce puts the steps that take devices out of the group before the steps that the plan has already.
func (p Plan) reduce(group Group, leave []Device) (Plan, error) {
	if group.Moving != nil {
		return Plan{}, fmt.Errorf("reduce group %s: %w", group.Name, group.Still())
	}
	if group.Partial {
		return Plan{}, fmt.Errorf("reduce group %s: %w; LVM changes no group that is not complete", group.Name, ErrPartial)
	}
	if len(leave) >= len(group.PVs) {
		return Plan{}, fmt.Errorf("reduce group %s by %s: %w; remove the group instead", group.Name, leave[0].Path, ErrLastDevice)
	}
	var devices []string
	var release []Step
	for _, d := range leave {
		devices = append(devices, d.Path)
		release = append(release, releaseStep(d, d.PVUUID, fmt.Sprintf("device leaves group %s", group.Name)))
	}
	steps := []Step{ReduceVG{
		Name: group.Name, GroupDevices: group.paths(), Devices: devices, Reason: "the devices are not wanted in the group any more",
	}}
	p.Steps = append(append(steps, release...), p.Steps...)
	return p, nil
}

// mayLeave refuses a device of the group that is another disk than the recorded one, or holds extents.
func mayLeave(group Group, d Device, id Identity) error {
	if err := MatchHardware(d, id); err != nil {
		return err
	}
	for _, pv := range group.PVs {
		if pv.UUID != d.PVUUID {
			continue
		}
		if used := pv.SizeBytes - pv.FreeBytes; used != 0 {
			return fmt.Errorf("device %s in group %s: %w: %d bytes are allocated", d.Path, group.Name, ErrHoldsData, used)
		}
		return nil
	}
	return fmt.Errorf("device %s carries no physical volume that group %s lists: %w", d.Path, group.Name, ErrHoldsData)
}

// RemoveGroup plans how the group goes and its devices become clean: all devices that are in it, whether listed or not, and every
// physical volume that an interrupted call for this owner left behind. It must be able to finish: a recorded device that is absent, or
// something else by now, carries nothing of ours and is left alone with a note. A disk that died, or was taken away, with the group on
// it is left behind with a note.
func RemoveGroup(s Snapshot, want GroupSpec, p Policy) (Plan, error) {
	group, exists, err := OwnGroup(s, want, ErrNotOurs)
	if err != nil {
		return Plan{}, err
	}
	var out Plan
	var gone map[string]bool
	if exists {
		if err := mayRemove(s, group, p); err != nil {
			return Plan{}, err
		}
		if group.Partial {
			gone = out.forget(group, want)
		}
		out.removeGroup(s, group)
	}
	recorded := map[string]bool{}
	for _, id := range want.Devices {
		d, ok := s.Find(id.Path)
		switch {
		case !ok && gone[id.Path]:
		case !ok:
			out.Notes = append(out.Notes, fmt.Sprintf("Device %s is absent; nothing was done to it.", id.Path))
		case recorded[d.KernelName], exists && d.in(group):
		default:
			recorded[d.KernelName] = true
			out.settle(d, id, want, p)
		}
	}
	for _, d := range s.Devices {
		if !recorded[d.KernelName] && orphanOf(d, want.OwnerUID) {
			out.Steps = append(out.Steps, releaseStep(d, d.PVUUID, "physical volume was left behind by an interrupted call"))
		}
	}
	return out, nil
}

// mayRemove refuses a group that holds more than empty thin pools of ours, and an incomplete group that holds anything at all.
func mayRemove(s Snapshot, g Group, p Policy) error {
	if len(g.Volumes) > 0 {
		return &HasVolumesError{Group: g.Name, Volumes: g.Volumes}
	}
	if g.Partial && len(g.Pools) > 0 {
		// LVM drops no device that a pool may stand on, and removing the pool would need a group that is complete.
		return &HasVolumesError{Group: g.Name, Volumes: g.poolNames()}
	}
	// Pools of ours are removed first; whatever else holds extents then is found by LVM, which removes no group with volumes.
	for _, pv := range g.PVs {
		if len(g.Pools) == 0 && pv.FreeBytes != pv.SizeBytes {
			return &HasVolumesError{Group: g.Name}
		}
	}
	if len(g.Pools) == 0 && g.FreeBytes != g.SizeBytes {
		return &HasVolumesError{Group: g.Name}
	}
	if g.Partial {
		return g.MayForget(s, p)
	}
	return nil
}

// removeGroup adds the steps that remove a group and release its devices.
func (p *Plan) removeGroup(s Snapshot, g Group) {
	for _, pool := range g.Pools {
		reason := Reason(fmt.Sprintf("the thin pool is ours, holds no volume, and goes with group %s", g.Name))
		if pool.Active {
			p.Steps = append(p.Steps, DeactivatePool{Group: g.Ref(), Name: pool.Name, Tag: TagPool, Reason: reason})
		}
		p.Steps = append(p.Steps, RemovePool{Group: g.Ref(), Name: pool.Name, Tag: TagPool, Reason: reason})
	}
	p.Steps = append(p.Steps, RemoveVG{Name: g.Name, UUID: g.UUID, GroupDevices: g.paths(), Reason: "the group holds no volume and is not wanted any more"})
	for _, pv := range g.PVs {
		if d, ok := s.Find(pv.Path); ok && pv.Path != "" {
			p.Steps = append(p.Steps, releaseStep(d, pv.UUID, fmt.Sprintf("device was in group %s", g.Name)))
		}
	}
}

// settle decides about a recorded device that is not in the group: an orphan of ours is released, a clean device needs nothing, and
// anything else is not ours to touch.
func (p *Plan) settle(d Device, id Identity, want GroupSpec, policy Policy) {
	if err := MatchHardware(d, id); err != nil {
		p.leaveAlone(err)
		return
	}
	if orphanOf(d, want.OwnerUID, id.Path) {
		p.Steps = append(p.Steps, releaseStep(d, d.PVUUID, "physical volume was left behind by an interrupted call"))
		return
	}
	if refusals := obstacles(Judge(d, policy), harmless); len(refusals) > 0 {
		p.leaveAlone(&NotCleanError{Path: d.Path, Refusals: refusals})
	}
}

func (p *Plan) leaveAlone(why error) {
	p.Notes = append(p.Notes, "Left alone: "+strings.TrimSuffix(why.Error(), ".")+".")
}

// harmless are refusals that say nothing about what stands on a device. A note about a device that is left alone omits them.
var harmless = map[string]bool{
	refusal.TooSmall:   true,
	refusal.Removable:  true,
	refusal.NoIdentity: true,
	refusal.Virtual:    true,
	refusal.Settling:   true,
}

func releaseStep(d Device, pvUUID, reason string) ReleasePV {
	return ReleasePV{Reason: Reason(reason), token: Token{device: IdentityOf(d), pvUUID: pvUUID, ground: Ownership}}
}

func containsDevice(in []Device, d Device) bool {
	for _, other := range in {
		if other.KernelName == d.KernelName {
			return true
		}
	}
	return false
}
