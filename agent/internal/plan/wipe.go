package plan

import (
	"fmt"
	"slices"

	"quarry.storage/quarry/pkg/refusal"
)

// Wipe plans how one device becomes clean. The caller's consent is its description of the device, digest included, and covers what
// stands on it. It does not cover a device that is in use, that is ours, or that would be refused for what it is.
func Wipe(s Snapshot, id Identity, p Policy) (Plan, error) {
	d, ok := s.Find(id.Path)
	if !ok {
		return Plan{}, fmt.Errorf("device %s: %w", id.Path, ErrNotFound)
	}
	if err := MatchHardware(d, id); err != nil {
		return Plan{}, err
	}
	refusals := Judge(d, p)
	if Promising(d, p) && d.Use != Used {
		return Plan{Notes: []string{fmt.Sprintf("Device %s is clean already.", d.Path)}}, nil
	}
	if stay := unwipeable(s, d, refusals); len(stay) > 0 {
		return Plan{}, &NotCleanError{Path: d.Path, Refusals: stay}
	}
	if err := Match(d, id); err != nil {
		return Plan{}, err
	}
	device := id
	device.Path = d.Path
	return Plan{Steps: []Step{WipeDevice{
		Reason: "the caller described the device and asks for its wipe",
		token:  Token{device: device, ground: Consent},
	}}}, nil
}

// Wipeable reports whether Wipe would make the device clean: something speaks against it, and all that does is what is written on it, by
// somebody who does not use it now.
func Wipeable(s Snapshot, d Device, p Policy) bool {
	refusals := Judge(d, p)
	return Digest(d) != "" && !Promising(d, p) && len(unwipeable(s, d, refusals)) == 0
}

// unwipeable are the refusals that no consent overrules. Swap space is wiped when it is not in use, and so is a physical volume
// when no device of its group is.
func unwipeable(s Snapshot, d Device, refusals []Refusal) []Refusal {
	var out []Refusal
	for _, r := range refusals {
		switch r.Reason {
		case refusal.Swap:
			if !slices.Contains(d.Mounts, swapMount) {
				continue
			}
		case refusal.LVM:
			if !groupInUse(s, d.Group) {
				continue
			}
			r.Message = fmt.Sprintf("The device is a physical volume of the LVM group %q, which is in use.", d.Group)
		default:
			if wipeable[r.Reason] {
				continue
			}
		}
		out = append(out, r)
	}
	return out
}

func groupInUse(s Snapshot, group string) bool {
	return group != "" && slices.ContainsFunc(s.Devices, func(d Device) bool {
		return d.Group == group && (len(d.Holders) > 0 || len(d.Mounts) > 0)
	})
}
