package san

import (
	"context"
	"time"

	"quarry.storage/quarry/pkg/sharedlun"
)

// failedFor is how long a process would rather have another writer than a node that could not read the LUN, or was refused. After that it may be one again: whether
// its way to the LUN is back tells only a call.
const failedFor = time.Minute

// blame remembers that the writer could not do what it was asked for: its agent may answer and have lost the LUN, or its key. What ended with the caller's own time
// says nothing about the node. The caller has the turn.
func (t *Turn) blame(ctx context.Context) {
	if ctx.Err() != nil {
		return
	}
	if t.memory.failed == nil {
		t.memory.failed = map[string]time.Time{}
	}
	t.memory.failed[t.record.Writer] = t.san.cfg.Now()
	t.remember()
}

// remember tells the facts who failed not long ago.
func (t *Turn) remember() {
	t.facts.Failed = map[string]bool{}
	for node, at := range t.memory.failed {
		if since := t.san.cfg.Now().Sub(at); since < failedFor && since >= 0 {
			t.facts.Failed[node] = true
		}
	}
}

// Failed reports whether a node could not read the LUN not long ago, or was refused, when it was the writer.
func (t *Turn) Failed(node string) bool { return t.facts.Failed[node] }

// replaced reports whether another writer is tried after an error: the one that there is failed, and a better one is there. Each gets one try in a turn.
func (t *Turn) replaced() bool {
	t.tries++
	return t.memory.unanswered == "" && t.tries < len(t.members) && t.facts.Failed[t.record.Writer] && !t.facts.Stays(t.record.Writer)
}

// probe finds out whether the writer refused a change for what the change is, or could make none at all: it asks for what holds already, for which the writer
// reads the group and proves that it has its key, as for every change, and writes nothing.
func (t *Turn) probe(ctx context.Context) {
	if ctx.Err() != nil {
		return
	}
	group, err := t.san.cfg.Nodes.Change(ctx, t.record.Writer, t.ref, t.mandate(), t.Group.Sequence, sharedlun.Change{TakeOver: true})
	switch {
	case err == nil:
		t.Group = group
		t.note(group)
	case !answered(err):
		t.memory.unanswered = t.record.Writer
		t.blame(ctx)
	default:
		t.blame(ctx)
	}
}
