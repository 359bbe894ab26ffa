// Package writer decides which node changes the volume group of a shared LUN, and what has to happen before the next one may. It is pure:
// decision 0038 has the protocol, and model_test.go holds it against random schedules.
package writer

import (
	"fmt"
	"slices"

	"quarry.storage/quarry/pkg/sharedlun"
)

// Record is what the Lease of a shared LUN says. Every change of it is a compare and swap.
type Record struct {
	// Epoch counts the writers. It never goes down: the group carries the highest one that changed it.
	Epoch uint64
	// Writer is the node that may change the group.
	Writer string
	// Taken is the process that sends changes to the writer; empty while every change that was ever sent is answered.
	Taken string
	// Pending are nodes, ordered, that may still have a change of an older epoch. Each has to yield or be fenced before the writer may write.
	Pending []string
	// Noted is how far the group had come when a process saw it in its turn; zero when none noted it.
	Noted Mark
}

// Mark is how far a group had come: the highest sequence number of it that was seen. The same group with a lower one is an older copy of itself, as a target shows that answers from a backup: what it says is
// free may be a volume that a node has mapped. Of a group with another UUID it says nothing.
type Mark struct {
	Group    string
	Sequence uint64
}

// MarkOf is how far a group has come by now.
func MarkOf(g sharedlun.Group) Mark { return Mark{Group: g.UUID, Sequence: g.Sequence} }

// Or returns the further one of two marks of a group, and this one if neither is of that group.
func (m Mark) Or(o Mark, group string) Mark {
	if group != "" && o.Group == group && (m.Group != group || o.Sequence > m.Sequence) {
		return o
	}
	return m
}

// Zero reports whether there never was a record, or it is lost.
func (r Record) Zero() bool { return r.Epoch == 0 }

// Equal reports whether two records say the same.
func (r Record) Equal(o Record) bool {
	return r.Epoch == o.Epoch && r.Writer == o.Writer && r.Taken == o.Taken && slices.Equal(r.Pending, o.Pending) && r.Noted == o.Noted
}

// Names reports whether a node may still have a change, and has to yield or be fenced before another one may write.
func (r Record) Names(node string) bool {
	return slices.Contains(r.Pending, node) || r.Taken != "" && r.Writer == node
}

// Older says why the group that a node reads is not as it was when it was changed last; empty when it may be.
func (m Mark) Older(node string, g sharedlun.Group) string {
	if m.Group != g.UUID || g.Sequence >= m.Sequence {
		return ""
	}
	return fmt.Sprintf("the volume group that node %s reads on the LUN is older than it was: it is at sequence number %d, and was at %d, as after the target was brought back from a backup or lost what it had "+
		"acknowledged, or where a portal leads to a replica that lags. Volumes that nodes have mapped may lie where it says that nothing is. Look which other initiators see it so: if one sees it as it was, mend the way of "+
		"node %s to the LUN. If all see it so, bring the LUN back as it was; to go on with what is there, docs/iscsi.md says how, under By hand", node, g.Sequence, m.Sequence, node)
}

// Idle returns the record for when every change was answered.
func (r Record) Idle() Record {
	r.Taken = ""
	return r
}

// next returns the record of the next epoch. Those that may still have a change of this one are added to those of before.
func (r Record) next(writer, taken string, unsure ...string) Record {
	return Record{Epoch: r.Epoch + 1, Writer: writer, Taken: taken, Pending: union(r.Pending, unsure), Noted: r.Noted}
}

// without returns the record without a node that has yielded, or is fenced.
func (r Record) without(node string) Record {
	r.Pending = slices.DeleteFunc(slices.Clone(r.Pending), func(n string) bool { return n == node })
	return r
}

func union(a, b []string) []string {
	out := slices.Concat(a, b)
	slices.Sort(out)
	return slices.DeleteFunc(slices.Compact(out), func(n string) bool { return n == "" })
}
