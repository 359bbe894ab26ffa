package template

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

// fixed decides for a number of nodes. What is free has no part in it, so nodes are made even while others are away.
func (t Template) fixed(want int) Decision {
	have := len(t.GetNodes())
	switch {
	case have < want:
		return t.create(want-have, v1alpha1.ReasonNodesMissing, "There are %d nodes, and %d are wanted.", have, want)
	case have > want:
		return t.remove(v1alpha1.ReasonNodesSurplus, fmt.Sprintf("There are %d nodes, and %d are wanted.", have, want))
	}
	return t.sized()
}

// bounded decides for bounds of the number and of the free space: the floor first, then the ceiling of the number, then the space. Nothing is done on half of
// the facts: a node that is away or silent may come back with its space at any time.
func (t Template) bounded() Decision {
	nodes := t.GetNodes()
	for _, n := range nodes {
		if n.away() {
			return say(v1alpha1.ReasonSizingFrozen, "Nothing is done about the number of nodes while node %s is %s.", n.Name, n.State)
		}
	}
	free, err := t.GetFreeSpace()
	if err != nil {
		return say(v1alpha1.ReasonSizingFrozen, "Nothing is done about the number of nodes: %v.", err)
	}
	b := t.bounds()
	switch have := len(nodes); {
	case have < b.min:
		return t.create(b.min-have, v1alpha1.ReasonNodesMissing, "There are %d nodes, and at least %d are wanted.", have, b.min)
	case have > b.max:
		return t.remove(v1alpha1.ReasonNodesSurplus, fmt.Sprintf("There are %d nodes, and at most %d are wanted.", have, b.max))
	case free < b.freeMin:
		return t.grow(free, b)
	case free > b.freeMax:
		return t.shrink(free, b)
	}
	return t.sized()
}

// bounds are those of the threshold. Where it gives an upper one only, nodes are made up to it.
type bounds struct {
	min, max         int
	freeMin, freeMax uint64
	// spaceAlone is true where freeMin is freeStorageMax, which nodes are made up to.
	spaceAlone bool
}

func (t Template) bounds() bounds {
	h := t.Threshold
	b := bounds{max: maxNodes, freeMax: math.MaxUint64}
	if h.MinNodes != nil {
		b.min = int(*h.MinNodes)
	}
	if h.MaxNodes != nil {
		b.max = int(*h.MaxNodes)
	}
	if h.FreeStorageMin != nil {
		b.freeMin = size(*h.FreeStorageMin)
	}
	if h.FreeStorageMax != nil {
		b.freeMax = size(*h.FreeStorageMax)
	}
	if h.MinNodes == nil && h.FreeStorageMin == nil {
		if h.FreeStorageMax == nil {
			b.min = b.max
		} else {
			b.freeMin, b.spaceAlone = b.freeMax, true
		}
	}
	return b
}

// size is a quantity in bytes, rounded up; the API bounds it.
func size(q resource.Quantity) uint64 { return uint64(max(q.Value(), 0)) } //nolint:gosec // Not negative.

// grow makes as many nodes as bring what is free to the floor, and no more than there may be.
func (t Template) grow(free uint64, b bounds) Decision {
	short := b.freeMin - free
	need := (short-1)/t.Capacity + 1
	have := len(t.GetNodes())
	room := uint64(max(b.max-have, 0)) //nolint:gosec // Not negative.
	what := fmt.Sprintf("%s is free, and at least %s is wanted", Text(free), Text(b.freeMin))
	if room == 0 {
		d := say(v1alpha1.ReasonCannotGrow, "Cannot meet freeStorageMin: %s, and there are %d nodes, which is the most.", what, have)
		if b.spaceAlone {
			d = t.sized()
		}
		return d
	}
	// One pass makes a bounded number, and the next one sees what they brought.
	return t.create(int(min(need, room, maxCreate)), v1alpha1.ReasonSpaceShort, "%s.", what) //nolint:gosec // At most maxCreate.
}

// maxNodes is how many nodes a template has at most, whatever its threshold says. The API takes no higher number.
const maxNodes = 1000

// maxCreate is how many nodes one pass makes because of the space.
const maxCreate = 16

// shrink removes a node if what is left free without it is not below the floor: growth would bring it back at once.
func (t Template) shrink(free uint64, b bounds) Decision {
	what := fmt.Sprintf("%s is free, and at most %s is wanted", Text(free), Text(b.freeMax))
	nodes := t.GetNodes()
	if len(nodes) <= b.min {
		return t.kept("%s. There are %d nodes, which is the least.", what, len(nodes))
	}
	if pending := firstPending(nodes); pending != "" {
		return say(v1alpha1.ReasonSizingWaits, "%s. Node %s is still being made.", what, pending)
	}
	// The data of a node go to others and take free space there, and a little more than here (w020), so all of its space is lost, not only what is free on it.
	victim := t.victim()
	lost := add(max(t.Capacity, victim.Space.Total), sub(victim.Space.Total, victim.Space.Free)/moveOverhead)
	if left := sub(free, lost); left < b.freeMin {
		return t.kept("%s. Without node %s only %s would be left, which is too little.", what, victim.Name, Text(left))
	}
	return t.remove(v1alpha1.ReasonSpaceAmple, what+".")
}

// moveOverhead is what part of a brick it may take more than its size where it is moved to.
const moveOverhead = 32

// kept says why more is kept than wanted. That is the size that the template has for good.
func (t Template) kept(format string, args ...any) Decision {
	d := say(v1alpha1.ReasonCannotShrink, format, args...)
	d.Sized = true
	return d
}

func firstPending(nodes []Node) string {
	for _, n := range nodes {
		if !n.Joined {
			return n.Name
		}
	}
	return ""
}

func (t Template) create(n int, reason, format string, args ...any) Decision {
	d := say(reason, format, args...)
	d.Create = n
	d.Message += fmt.Sprintf(" %d are made.", n)
	return d
}

// remove deletes one node, if none is condemned and none is away. What it holds is moved first; that takes time, and meanwhile the node does not count.
func (t Template) remove(reason, what string) Decision {
	if t.Condemned != "" {
		return say(v1alpha1.ReasonSizingWaits, "%s Node %s is being removed first.", what, t.Condemned)
	}
	for _, n := range t.Nodes {
		switch {
		case n.condemned():
			return say(v1alpha1.ReasonSizingWaits, "%s Node %s is being removed first.", what, n.Name)
		case n.away():
			return say(v1alpha1.ReasonSizingFrozen, "%s No node is removed while node %s is %s.", what, n.Name, n.State)
		}
	}
	d := say(reason, "%s", what)
	d.Remove = t.victim().Name
	d.Message += " Node " + d.Remove + " is emptied and removed."
	return d
}

// victim is the node that goes first: one that never served, an empty one, the one with the least in use, the youngest, and then by name.
func (t Template) victim() Node {
	return slices.MinFunc(t.GetNodes(), func(a, b Node) int {
		if c := order(a.Joined, b.Joined); c != 0 {
			return c
		}
		if c := order(a.Data != nodestate.DataAbsent, b.Data != nodestate.DataAbsent); c != 0 {
			return c
		}
		if c := compareUsed(a, b); c != 0 {
			return c
		}
		if c := b.Created.Compare(a.Created); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
}

// order puts false first.
func order(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// compareUsed puts the one with less in use first, and one that does not say it last.
func compareUsed(a, b Node) int {
	used := func(n Node) uint64 {
		if n.Space == nil {
			return math.MaxUint64
		}
		return sub(n.Space.Total, n.Space.Free)
	}
	switch x, y := used(a), used(b); {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

func (t Template) sized() Decision {
	if pending := firstPending(t.GetNodes()); pending != "" {
		return say(v1alpha1.ReasonSizingWaits, "Node %s is being made.", pending)
	}
	for _, n := range t.Nodes {
		if n.condemned() {
			return say(v1alpha1.ReasonSizingWaits, "Node %s is being removed.", n.Name)
		}
	}
	return Decision{Sized: true, Reason: v1alpha1.ReasonTemplateSized, Message: fmt.Sprintf("There are %d nodes, as wanted.", len(t.GetNodes()))}
}

// Text is a number of bytes for a person.
func Text(n uint64) string {
	if n > math.MaxInt64 {
		return "8Ei or more"
	}
	return resource.NewQuantity(int64(n), resource.BinarySI).String() //nolint:gosec // Compared above.
}
