package lvm

import (
	"fmt"
	"slices"
	"strings"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/disk"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func bad(reason, message string) backend.Finding {
	return backend.Finding{Kind: backend.Bad, Reason: reason, Message: message}
}

// partial is the group that lacks a disk.
func (h host) partial() backend.Finding {
	for _, g := range h.groups {
		if g.Partial {
			return bad(v1alpha1.ReasonPartial, fmt.Sprintf(
				"a disk of volume group %s is missing; nothing is changed on it until the disk is back", g.Name))
		}
	}
	return backend.Finding{}
}

// shadowed is the group of a member that was declared lost and has come back under the name that the host's own group has, or is to
// have: agents know groups by name and tag, and would change the wrong one.
func (h host) shadowed() backend.Finding {
	var names []string
	for _, g := range h.groups {
		names = append(names, g.Name)
	}
	if len(names) == 0 {
		names = []string{h.view.own.spec.Group}
	}
	for _, g := range h.lostGroups {
		if slices.Contains(names, g.Name) {
			return bad(v1alpha1.ReasonVolumeGroupConflict, fmt.Sprintf(
				"volume group %s of a member that was declared lost is back on this host; nothing is changed here until its disks are taken out",
				call(g.Name, g.UUID)))
		}
	}
	return backend.Finding{}
}

// unserved is the host that has nothing and gets nothing, where every device is listed with what speaks against it, and the host that
// does not get what the spec names.
func (h host) unserved(c disk.Choice, steps int) backend.Finding {
	if len(h.groups) == 0 && steps == 0 {
		return empty(c)
	}
	if len(c.Problems) > 0 {
		return bad(c.Problems[0].Reason, join(c.Problems))
	}
	return backend.Finding{}
}

func empty(c disk.Choice) backend.Finding {
	refused := append(append([]disk.Refused{}, c.Problems...), c.Refused...)
	if len(refused) == 0 {
		return bad(v1alpha1.ReasonNoCleanDevice, "no device is chosen by spec.devices")
	}
	reason := refused[0].Reason
	for _, r := range refused {
		if r.Reason != reason || r.Reason == v1alpha1.ReasonDeviceRefused {
			reason = v1alpha1.ReasonNoCleanDevice
		}
	}
	return bad(reason, "no clean device: "+join(refused))
}

func join(refused []disk.Refused) string {
	parts := make([]string, 0, len(refused))
	for _, r := range refused {
		parts = append(parts, r.String())
	}
	return strings.Join(parts, "; ")
}
