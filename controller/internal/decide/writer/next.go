package writer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"quarry.storage/quarry/pkg/quarry"
)

// Facts are what a process knows when it decides.
type Facts struct {
	// Self is the process.
	Self string
	// Stale is true when the record is another process's and did not change for longer than a process that works leaves it.
	Stale bool
	// Unanswered is the node that this process sent a change to which has no answer: it may still be made, whoever the record says is the writer by now. Empty when every
	// change was answered, or its node is pending in a record that this process wrote since.
	Unanswered string
	// Late is true when a write of the record by this process had no answer and nobody wrote the record since: it may still arrive, and say that the process is done, or
	// that another node is the writer.
	Late bool
	// Members are all nodes that may be the writer or may have been it, in the order in which they are taken when none was.
	Members []string
	// Up are those whose agents answer, have their key and are not being removed: they may become the writer.
	Up map[string]bool
	// Failed are those that could not read the LUN for this process, or were refused, not long ago: an agent may answer and have lost its way to the LUN. Another one
	// is the writer as long as there is one. Nothing else follows from it: what such a node may still have under way is settled as that of any other.
	Failed map[string]bool
	// Fenced are those of whom their Members say that their keys were taken off, and that they were not booted since. That alone proves nothing: the
	// Members may come from a backup, and the target may have lost its keys.
	Fenced map[string]bool
	// KeysRead is true when the writer told this process the keys on the LUN. Doubts are then why the fence of a node does not count; see Doubt.
	KeysRead bool
	Doubts   map[string]string
	// Runs are those that are fenced, answer all the same or may do so yet, and can still write: without keys only a person's word says that a node is off.
	Runs map[string]bool
	// Promised are those that said, to this process, that they refuse every epoch older than this one. One that is newer than the record's says that the
	// record is old.
	Promised map[string]uint64
	// Silent are pending nodes that did not answer this process, with what went wrong.
	Silent map[string]string
	// Read is true when the writer told this process the group's epoch.
	Read bool
	// GroupEpoch is the group's epoch, and WriterPromised the one that the writer has promised.
	GroupEpoch, WriterPromised uint64
	// Older says why the group that was read is not the one that was changed last; empty when it may be. See Mark.Older.
	Older string
}

// Action is the next thing to do. Exactly one of its fields is set.
type Action struct {
	// Write is the record to write, if nobody wrote another one meanwhile.
	Write *Record
	// Promise is the node to ask to yield to the record's epoch.
	Promise string
	// Read is the node to ask for the group.
	Read string
	// Keys is the node to ask for the keys on the LUN.
	Keys string
	// TakeOver is the node to send the change that writes the record's epoch into the group.
	TakeOver string
	// MayChange is true when changes may be sent to the writer.
	MayChange bool
	// Wait says why nothing can be done now.
	Wait string
}

// Next returns what has to be done before changes may be sent to the writer.
func Next(r Record, f Facts) Action {
	switch {
	case r.Zero():
		return f.begin()
	case r.Taken == f.Self:
		return f.own(r)
	case r.Taken != "" && !f.Stale:
		return Action{Wait: fmt.Sprintf("%s is changing the volume group", r.Taken)}
	case r.Taken != "":
		// Nobody knows whether the last change that the process sent was made, or still is.
		return f.change(r, r.Writer)
	case f.Unanswered != "":
		// The record says that every change was answered, and this process knows better, whoever wrote that. The writer of the record may be another one since, of
		// whom nothing has to be known.
		return f.change(r)
	case f.Stays(r.Writer):
		r.Taken = f.Self
		return Action{Write: &r}
	}
	// Every change of this epoch was answered, and a node starts none by itself: nobody has to wait for a node that is away, or has lost the LUN.
	return f.change(r)
}

// begin makes the first record. There may have been one: then any member may have been the writer.
func (f Facts) begin() Action {
	return f.change(Record{}, f.Members...)
}

// change gives the group to a node that answers, in a new epoch. unsure are nodes that may still have a change, beside the one that did not answer this process.
func (f Facts) change(r Record, unsure ...string) Action {
	writer := f.pick(r.Writer)
	if writer == "" {
		return Action{Wait: "no node that may write to the LUN answers"}
	}
	next := r.next(writer, f.Self, append(unsure, f.Unanswered)...)
	return Action{Write: &next}
}

// pick chooses a writer: the one of before if it may be, so that the group does not wander without need. One that failed comes behind all others.
func (f Facts) pick(before string) string {
	found := ""
	for _, m := range append([]string{before}, f.Members...) {
		switch {
		case !f.Up[m]:
		case !f.Failed[m]:
			return m
		default:
			found = cmp.Or(found, m)
		}
	}
	return found
}

// Stays reports whether a writer goes on being it: it may be, and did not fail, or no other one is better.
func (f Facts) Stays(writer string) bool { return writer != "" && f.pick(writer) == writer }

// own goes on with a record that this process has taken.
func (f Facts) own(r Record) Action {
	if f.Unanswered != "" {
		return f.change(r)
	}
	if newest := f.newest(); newest > r.Epoch {
		// The record comes from a backup, or is a new one in place of one that was lost. Any member may have been a writer since.
		r.Epoch = newest
		return f.change(r, f.Members...)
	}
	if f.Late {
		// Written anew, the record has another version, over which the late write is refused. Only then may anything be sent.
		return Action{Write: &r}
	}
	if len(r.Pending) > 0 {
		return f.settle(r)
	}
	switch {
	case !f.Stays(r.Writer):
		return f.change(r)
	case !f.Read:
		return Action{Read: r.Writer}
	case f.Older != "":
		return Action{Wait: f.Older}
	case f.GroupEpoch < r.Epoch:
		return Action{TakeOver: r.Writer}
	}
	return Action{MayChange: true}
}

// settle waits for the nodes that may still have a change: each has to yield, or its fence has to be seen on the LUN.
func (f Facts) settle(r Record) Action {
	for _, node := range r.Pending {
		if f.Promised[node] == r.Epoch || f.Fenced[node] && f.KeysRead && f.Doubts[node] == "" && !f.Runs[node] {
			next := r.without(node)
			return Action{Write: &next}
		}
	}
	fenced := slices.ContainsFunc(r.Pending, func(n string) bool { return f.Fenced[n] })
	switch {
	case !f.Stays(r.Writer):
		// Through it the keys are read by which a fence, and the word of a node that was booted, are judged.
		return f.change(r)
	case fenced && !f.KeysRead:
		return Action{Keys: r.Writer}
	}
	for _, node := range r.Pending {
		if f.Silent[node] == "" {
			return Action{Promise: node}
		}
	}
	return Action{Wait: f.silence(r.Pending)}
}

// newest is the highest epoch that anybody told of.
func (f Facts) newest() uint64 {
	newest := uint64(0)
	if f.Read {
		newest = max(f.GroupEpoch, f.WriterPromised)
	}
	for _, promised := range f.Promised {
		newest = max(newest, promised)
	}
	return newest
}

// silence names the nodes that are waited for, and what to do.
func (f Facts) silence(nodes []string) string {
	said := make([]string, 0, len(nodes))
	for _, n := range nodes {
		why := f.Silent[n]
		if f.Fenced[n] && f.Doubts[n] != "" {
			why += "; its fence does not count: " + f.Doubts[n]
		}
		said = append(said, fmt.Sprintf("%s (%s)", n, why))
	}
	slices.Sort(said)
	return fmt.Sprintf("a change of the volume group may still run on %s: it goes on when the node answers, or is fenced (taint it with %s once it is off)",
		strings.Join(said, ", "), quarry.TaintOutOfService)
}
