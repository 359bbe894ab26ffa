package volume

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"quarry.storage/quarry/agent/internal/plan"
)

// tailPrefix begins the names of tails.
const tailPrefix = "tail-"

// tailName is the name of the tail of a volume. It is as long for every volume.
func tailName(v plan.Volume) string {
	sum := sha256.Sum256([]byte(v.Name))
	return tailPrefix + hex.EncodeToString(sum[:10])
}

// tail finds what a volume grows by while that is zeroed.
func (g group) tail(v plan.Volume) (plan.Volume, bool) {
	for _, t := range g.LogicalVolumes {
		if t.TailOf != "" && t.TailOf == v.ID {
			return t, true
		}
	}
	return plan.Volume{}, false
}

// orphaned reports whether a volume is the tail of one that is gone.
func (g group) orphaned(t plan.Volume) bool {
	if t.TailOf == "" {
		return false
	}
	for _, v := range g.LogicalVolumes {
		if v.ID == t.TailOf {
			return false
		}
	}
	return true
}

// growZeroed plans a larger size of a linear volume, of which nobody ever sees what others wrote. LVM shows extents as soon as a volume has
// them, so they are zeroed before: as a volume of their own, the tail, which goes right before the volume grows over exactly its extents.
// A death in between leaves free extents, and the growing begins anew.
func (g group) growZeroed(v plan.Volume, size int64, reason string) (Plan, error) {
	if err := g.whole(); err != nil {
		return Plan{}, err
	}
	t, exists := g.tail(v)
	switch {
	case !exists:
		return g.createTail(v, size)
	case t.ToZero():
		return Plan{Volume: v, Unfinished: fmt.Errorf("volume %s grows: %w", v.Name, progress(t))}, nil
	case extentBytes(t, g.ExtentBytes) != t.SizeBytes:
		return Plan{}, fmt.Errorf("volume %s grows, and where %s lies %w: LVM does not say it", v.Name, t.Name, plan.ErrUntold)
	}
	over := t.Extents
	grown := min(size, v.SizeBytes+t.SizeBytes)
	out := Plan{Volume: v, Plan: does(g.removeTail(t, "it is zeroed, and the volume grows over its extents"))}
	out.Steps = append(out.Steps, ExtendLV{Group: g.Ref(), Name: v.Name, SizeBytes: grown, Over: over, Reason: plan.Reason(reason)})
	if out.Volume.SizeBytes = grown; grown < size {
		// More is wanted by now than when the tail was made.
		out.Unfinished = fmt.Errorf("volume %s has %d bytes and grows to %d: %w", v.Name, grown, size, plan.ErrUnzeroed)
	}
	return out, nil
}

// createTail makes what a volume is to grow by.
func (g group) createTail(v plan.Volume, size int64) (Plan, error) {
	more := size - v.SizeBytes
	if more > g.FreeBytes {
		return Plan{}, fmt.Errorf("%d bytes more for volume %s in group %s, which has %d of %d bytes free: %w",
			more, v.Name, g.Name, g.FreeBytes, g.SizeBytes, plan.ErrNoRoom)
	}
	t := plan.Volume{Name: tailName(v), SizeBytes: more, Unzeroed: true, TailOf: v.ID, Active: true}
	step := CreateLV{
		Group: g.Ref(), Name: t.Name, Tags: []string{plan.TagTail, plan.TagTailOf + v.ID, unzeroedTag(t)}, SizeBytes: more,
		Reason: plan.Reason(fmt.Sprintf("volume %s grows, and what it grows by has to be zeroed", v.Name)),
	}
	return Plan{Volume: t, Plan: does(step), Unfinished: fmt.Errorf("volume %s grows: %w", v.Name, progress(t))}, nil
}

// withoutTail is what a volume needs that has its size: a tail is left over when less is wanted than before.
func (g group) withoutTail(v plan.Volume) Plan {
	t, exists := g.tail(v)
	if !exists || t.Open || g.Partial {
		return Plan{Volume: v}
	}
	return Plan{Volume: v, Plan: does(g.removeTail(t, "the volume is as large as it is wanted"))}
}

func (g group) removeTail(t plan.Volume, reason plan.Reason) plan.Step {
	return RemoveLV{Group: g.Ref(), Name: t.Name, Tag: ownTag(t), Reason: reason}
}

// Orphans plans to remove the tails of a group whose volumes are gone, unless something has them open.
func Orphans(s plan.Snapshot, groupUUID string) plan.Plan {
	var out plan.Plan
	for _, g := range s.Groups {
		if g.UUID != groupUUID || g.Partial || !g.Usable() {
			continue
		}
		for _, t := range g.LogicalVolumes {
			if at := (group{g}); at.orphaned(t) && !t.Open {
				out.Steps = append(out.Steps, at.removeTail(t, "the volume that was to grow by it is gone"))
			}
		}
	}
	return out
}

// extentBytes is how much of a volume LVM says where it lies.
func extentBytes(v plan.Volume, extent int64) int64 {
	var sum int64
	for _, e := range v.Extents {
		sum += e.Count * extent
	}
	return sum
}
