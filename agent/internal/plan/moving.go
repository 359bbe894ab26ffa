package plan

import (
	"fmt"
	"slices"
	"strings"
)

// SliceBytes is how much one step moves at most. The group waits for a step; between two of them others have their turn.
const SliceBytes = 256 << 20

// Moving is a move of so many bytes off the physical volume with a UUID; that is empty when it is not known.
type Moving struct {
	FromUUID string
	Bytes    int64
}

// MovingFrom is the path of the device that extents are moved off; empty if nothing is moved, or the device is missing or not known.
func (g Group) MovingFrom() string {
	i := slices.IndexFunc(g.PVs, func(pv PV) bool { return g.Moving != nil && pv.UUID == g.Moving.FromUUID })
	if i < 0 {
		return ""
	}
	return g.PVs[i].Path
}

// MoveLeft says why the agent leaves a move alone, and what a person does; empty if nothing is moved, or the agent ends the move by itself.
func (g Group) MoveLeft() string {
	const byHand = "look at what lies where, then finish it by hand with pvmove, or take it back with pvmove --abort (docs/disks.md)"
	from := g.MovingFrom()
	switch {
	case g.Moving == nil:
		return ""
	case g.Partial && g.Moving.FromUUID != "" && from == "":
		return "the device that they are moved off is missing; once it is back the move is finished. If it is gone for ever, LVM can neither finish " +
			"the move nor take it back: copy what can be read, and make the group anew (docs/disks.md)"
	case g.Partial:
		return "a device of the group is missing; the move is finished once it is back or, if the move has nothing on it, once the group has forgotten it"
	case from == "":
		return "LVM does not say off which device, so the agent leaves the move alone: " + byHand
	case len(g.AllStale()) > 0:
		return fmt.Sprintf("the move off %s waits until whoever has %s open ends: they lead to a disk that dropped off",
			from, strings.Join(g.AllStale(), ", "))
	case g.Moving.Bytes > SliceBytes:
		return fmt.Sprintf("the move of %d bytes off %s is larger than any that the agent begins, so that a person began it, and it is left alone: %s",
			g.Moving.Bytes, from, byHand)
	}
	return ""
}

// Still refuses what LVM may refuse, or may do wrong, while extents are being moved or a move was cut off. The error is ErrMoving, and says how
// the move ends.
func (g Group) Still() error {
	if g.Moving == nil {
		return nil
	}
	ends := "the agent finishes that by itself, within minutes at most"
	if why := g.MoveLeft(); why != "" {
		ends = why
	}
	return fmt.Errorf("%w: %s", ErrMoving, ends)
}
