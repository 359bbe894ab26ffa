package volume

import (
	"fmt"
	"strconv"

	"quarry.storage/quarry/agent/internal/plan"
)

// Zero says what of a linear volume reads as zero before the volume is shown.
type Zero int

// What is zeroed. The zero value is what callers mean who do not know of it: nothing.
const (
	// ZeroNothing shows what others wrote.
	ZeroNothing Zero = iota
	// ZeroAll zeroes the volume, and everything that it grows by.
	ZeroAll
	// ZeroRaw is for a volume with a filesystem: it is not zeroed, and never shown raw for that. It zeroes what a volume grows by that may
	// be shown raw.
	ZeroRaw
)

const (
	// slice bounds what is written in one step, and so how long a volume waits for its turn.
	slice = 2 * giga
	// marks bounds how often it is written down how far a volume is zeroed.
	marks = 32
)

// zeroes reports whether what a volume grows by is zeroed first. A thin volume reads as zero where nothing was written.
func zeroes(v plan.Volume, want Zero) bool {
	return v.Pool == "" && (want == ZeroAll || want == ZeroRaw && !v.FilesystemOnly)
}

// progress says how far a volume is zeroed; nil when nothing is left to do.
func progress(v plan.Volume) error {
	if !v.ToZero() {
		return nil
	}
	return fmt.Errorf("volume %s: %d of %d bytes are zeroed: %w", v.Name, v.ZeroedBytes, v.SizeBytes, plan.ErrUnzeroed)
}

// Showable refuses a volume that must not be shown yet, not any more, or not in this way.
func Showable(v plan.Volume, raw bool) error {
	if err := removing(v); err != nil {
		return err
	}
	if raw && v.FilesystemOnly {
		return fmt.Errorf("volume %s: %w; a raw block device needs a volume that is made as one", v.Name, plan.ErrFilesystemOnly)
	}
	return progress(v)
}

// unzeroedTag is the tag that says how far a volume is zeroed.
func unzeroedTag(v plan.Volume) string {
	return plan.TagUnzeroed + strconv.FormatInt(v.ZeroedBytes, 10)
}

// ownTag is the tag by which LVM knows a volume or a tail of ours.
func ownTag(v plan.Volume) string {
	if v.TailOf != "" {
		return plan.TagTailOf + v.TailOf
	}
	return plan.TagVolume + v.ID
}

// Unzeroed are the volumes of a group that have to be zeroed, and can be. This node zeroes nothing in a group of another one: device-mapper does
// not ask LVM whose a group is.
func Unzeroed(g plan.Group) []plan.Volume {
	var out []plan.Volume
	if !g.Usable() {
		return nil
	}
	for _, v := range g.LogicalVolumes {
		if v.ToZero() && v.Health != plan.HealthPartial && !(group{g}).orphaned(v) {
			out = append(out, v)
		}
	}
	return out
}

// Prepare plans what has to be so before more of a volume is zeroed: it writes down that everything up to a byte has been, and makes its device
// exist. The volume is as it is afterwards. There is none when it is gone, is used, needs no zeroes any more, or has another UUID; the UUID of
// the first call is empty.
func Prepare(s plan.Snapshot, groupUUID, name, uuid string, upTo int64) (Plan, bool) {
	g, v, ok := unzeroed(s, groupUUID, name)
	if !ok || uuid != "" && v.UUID != uuid {
		return Plan{}, false
	}
	out := Plan{GroupUUID: groupUUID}
	if upTo > v.ZeroedBytes {
		step := MarkZeroed{Group: g.Ref(), Name: v.Name, Tag: ownTag(v), Was: unzeroedTag(v), Reason: "everything before that reads as zero"}
		v.ZeroedBytes = upTo
		if v.Unzeroed = upTo < v.SizeBytes; v.Unzeroed {
			step.Now = unzeroedTag(v)
		} else {
			v.ZeroedBytes = 0
		}
		out.Steps = append(out.Steps, step)
	}
	if v.Unzeroed && !v.Active {
		v.Active = true
		out.Steps = append(out.Steps, ActivateLV{Group: g.Ref(), Name: v.Name, Tag: ownTag(v), Reason: "the volume has to be zeroed"})
	}
	out.Volume = v
	return out, true
}

// ZeroNext plans the next slice of a volume that was prepared, from a byte on. It needs nothing once it is time to write down how far that is:
// a few times per volume, for what was zeroed since is zeroed again after a death.
func ZeroNext(g plan.Group, v plan.Volume, from int64) plan.Plan {
	to := min(from+slice, v.ZeroedBytes+max(slice, v.SizeBytes/marks), v.SizeBytes)
	if from >= to {
		return plan.Plan{}
	}
	return does(ZeroLV{
		Group: g.Name, GroupUUID: g.UUID, Name: v.Name, UUID: v.UUID, From: from, To: to, Reason: "nobody reads what another wrote",
	})
}

// unzeroed finds a volume that has to be zeroed.
func unzeroed(s plan.Snapshot, groupUUID, name string) (group, plan.Volume, bool) {
	for _, g := range s.Groups {
		if g.UUID != groupUUID {
			continue
		}
		for _, v := range Unzeroed(g) {
			if v.Name == name && v.UUID != "" {
				return group{g}, v, true
			}
		}
	}
	return group{}, plan.Volume{}, false
}

// Awaits reports whether the volume of an id, or what it grows by, is still to be zeroed.
func Awaits(s plan.Snapshot, id string) bool {
	for _, g := range s.Groups {
		for _, v := range Unzeroed(g) {
			if v.ID == id || v.TailOf == id {
				return true
			}
		}
	}
	return false
}
