// Package drain decides how a node is emptied: one brick at a time, and the next one only once the data of the last are whole elsewhere. It is pure.
//
// What glusterd2 does not do for us: it takes a replaced brick off the volume at once, and puts an empty one in its place. Whether it marks that
// one as lacking the data is not known (w033 says that nothing is to be healed, of an empty volume). It never looks whether the other copies are whole. It reads
// the volume before it takes the lock (source), so that a request which hung writes back, when it goes on, a volume of the time before. A brick that is asked
// for a second time is not refused (w024). So every request is on record before it is made, no other is made for the volume while one has no answer, and what
// was replaced counts as data of the old node until the new brick has them.
package drain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/gluster"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

// How long things are waited for.
const (
	// LostAnswer is for how long a request without an answer may still take effect. A peer that is down is noticed within 30 s, and the lock of a volume
	// that nobody holds is free; both are looked at besides.
	LostAnswer = 10 * time.Minute
	// Backoff is the time after a request that was refused, or undone; it doubles with each, up to sixteen times as long.
	Backoff = time.Minute
	// Settled is for how long nothing is seen to be healed before the new brick is looked at.
	Settled = 5 * time.Minute
	// HealAgain is the time after which a whole heal is asked for again that did not fill the brick.
	HealAgain = time.Hour
)

// Node is a GlusterNode of the cluster.
type Node struct {
	Name, Peer string
	State      nodestate.State
	External   bool
	// Condemned is when it was deleted; nodes are emptied in that order.
	Condemned time.Time
	// Move is the record of the brick that is being moved off it.
	Move *v1alpha1.GlusterMove
}

// Facts is what a decision is made on. Records of moves have to be read from the API server itself right before: two nodes must not begin at once.
type Facts struct {
	// Nodes are all of the cluster.
	Nodes []Node
	Pool  gluster.Pool
	// Restarting is a pod of a server or of etcd that is just being replaced; empty when none is. No brick begins to be moved meanwhile.
	Restarting string
	// Started is when this leader began, Now the time.
	Started, Now time.Time
}

// Action is what is done next.
type Action string

// Actions.
const (
	// Rest: the node holds nothing any more.
	Rest Action = "Rest"
	// Wait: something has to happen first.
	Wait Action = "Wait"
	// Record writes Move, and nothing else.
	Record Action = "Record"
	// Ask writes Move, then sends Move.Request to the server that owns the brick, and writes whether it answered.
	Ask Action = "Ask"
)

// Decision is the one action of a pass.
type Decision struct {
	Action Action
	// Move is the record to write.
	Move *v1alpha1.GlusterMove
	// Peer owns the brick that is to be replaced: only that server may be asked (w027, w030).
	Peer string
	// Limit are the peers on which the new brick may be.
	Limit []string
	// Status, Reason and Message are those of the condition Drained.
	Status          metav1.ConditionStatus
	Reason, Message string
	// Wake is when to look again although nothing happened; 0 when something has to.
	Wake time.Duration
}

// Decide chooses what is done to empty a node. The first rule that has something to say wins. Each makes sure of one thing:
//   - nothing is done on half of the facts,
//   - what was begun is ended first, also if the old node is down by now,
//   - one brick of the cluster is moved at a time,
//   - a server that is down is not asked: nobody else can replace its bricks (w027, x038).
func Decide(name string, f Facts) Decision {
	e := emptying{Facts: f}
	i := slices.IndexFunc(f.Nodes, func(n Node) bool { return n.Name == name })
	if i < 0 || f.Nodes[i].State != nodestate.Failed {
		return wait(metav1.ConditionUnknown, v1alpha1.ReasonStepWaits, "The node is not being emptied.")
	}
	e.node = f.Nodes[i]
	if d := e.unknown(); d != nil {
		return e.unseen(*d)
	}
	if e.node.open() {
		return e.resume(*e.node.Move)
	}
	d := e.next()
	if d.Action != Ask {
		return d
	}
	if e.Restarting != "" {
		return wait(metav1.ConditionFalse, v1alpha1.ReasonDrainWaits, "The pod %s is being replaced first.", e.Restarting)
	}
	if turn := e.turn(d.Move.Volume); turn != "" {
		return wait(metav1.ConditionFalse, v1alpha1.ReasonDrainWaits, "%s", turn)
	}
	return d
}

// DecideLost chooses what is done for a node that a person declared lost while a brick was being moved off it: the successor of that brick may be empty, and
// nothing but the record says so. What was not replaced yet is lost with the node.
func DecideLost(name string, f Facts) Decision {
	e := emptying{Facts: f}
	i := slices.IndexFunc(f.Nodes, func(n Node) bool { return n.Name == name })
	if i < 0 || !f.Nodes[i].open() {
		return Decision{Action: Rest, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonDrained, Message: "Nothing is being moved off the node."}
	}
	e.node = f.Nodes[i]
	if d := e.unknown(); d != nil {
		return e.unseen(*d)
	}
	m := *e.node.Move
	v, known := e.Pool.Volume(m.Volume)
	if known == gluster.Yes && !replaced(v, m) {
		if d := e.unanswered(m); d != nil {
			return *d
		}
		return Decision{Action: Rest, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonDrained, Message: fmt.Sprintf("The brick %s of volume %s was not replaced. It is lost with the node.", m.Path, m.Volume)}
	}
	return e.resume(m)
}

// emptying is a node that is emptied.
type emptying struct {
	Facts
	node Node
}

// open reports whether a brick of the node is being moved.
func (n Node) open() bool { return n.Move != nil && !n.Move.Whole }

func (n Node) condemned() bool { return n.State == nodestate.Failed || n.State == nodestate.Abandoned }

func wait(status metav1.ConditionStatus, reason, format string, args ...any) Decision {
	return Decision{Action: Wait, Status: status, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// unknown ends a pass whose facts are not whole.
func (e emptying) unknown() *Decision {
	missing := ""
	switch {
	case e.Pool.Peers == nil:
		missing = "its peers"
	case e.Pool.Volumes == nil:
		missing = "its volumes"
	case e.Pool.Snapshots == nil:
		missing = "its snapshots"
	case e.Pool.Devices == nil:
		missing = "its devices"
	}
	if missing != "" {
		return new(wait(metav1.ConditionUnknown, v1alpha1.ReasonPoolUnknown, "The pool did not tell %s.", missing))
	}
	for _, v := range slices.Concat(*e.Pool.Volumes, *e.Pool.Snapshots) {
		if !v.Sound() {
			return new(wait(metav1.ConditionUnknown, v1alpha1.ReasonPoolUnknown, "What the pool tells of volume %q is cut.", v.Name))
		}
	}
	if doubt := e.Pool.Doubt(); doubt != "" {
		// Bricks are not moved by a store that is of another time either.
		return new(wait(metav1.ConditionUnknown, v1alpha1.ReasonPoolUnknown, "%s", doubt))
	}
	return nil
}

// turn says which other node comes first; empty when it is this one's turn.
func (e emptying) turn(volume string) string {
	for _, n := range e.Nodes {
		if n.Name == e.node.Name || !n.open() {
			continue
		}
		// The request of a server that is down ended with it, so its record holds up no volume but its own.
		down := e.Pool.Online(n.Peer) == gluster.No && e.since(n.Move.Asked.Time) >= LostAnswer
		if !down || n.Move.Volume == volume {
			return fmt.Sprintf("A brick of node %s is being moved first.", n.Name)
		}
	}
	for _, n := range e.Nodes {
		if n.State != nodestate.Failed || n.Name == e.node.Name || !before(n, e.node) {
			continue
		}
		if (emptying{Facts: e.Facts, node: n}).next().Action == Ask {
			return fmt.Sprintf("Node %s is emptied first.", n.Name)
		}
	}
	return ""
}

// before reports whether a node is emptied before another one.
func before(a, b Node) bool {
	if c := a.Condemned.Compare(b.Condemned); c != 0 {
		return c < 0
	}
	return a.Name < b.Name
}

// since is how long ago something was, as far as this leader was there. A time in the future is now.
func (e emptying) since(t time.Time) time.Duration {
	if t.Before(e.Started) {
		t = e.Started
	}
	return max(e.Now.Sub(t), 0)
}

// next chooses the next brick, if nothing is being moved.
func (e emptying) next() Decision {
	if e.node.Peer == "" {
		return wait(metav1.ConditionUnknown, v1alpha1.ReasonPoolUnknown, "The ID of the node in the pool is not known.")
	}
	var blocks []block
	volumes := slices.Clone(*e.Pool.Volumes)
	slices.SortFunc(volumes, func(a, b gluster.Volume) int { return strings.Compare(a.Name, b.Name) })
	for _, v := range volumes {
		for s, sub := range v.Subvolumes {
			for i, b := range sub.Bricks {
				if !gluster.SameID(b.Peer, e.node.Peer) {
					continue
				}
				m := v1alpha1.GlusterMove{Brick: b.ID, Volume: v.Name, Path: b.Path, Subvolume: int32(s), Position: int32(i)} //nolint:gosec // Small.
				d, why := e.replace(v, b, m)
				if why == nil {
					return d
				}
				blocks = append(blocks, *why)
			}
		}
	}
	if len(blocks) > 0 {
		return e.blocked(blocks)
	}
	if _, holding, _ := e.Pool.Data(e.node.Peer); len(holding) > 0 {
		return wait(metav1.ConditionFalse, v1alpha1.ReasonSnapshotHolds, "Bricks of snapshots cannot be moved. The node waits until these are deleted: %s.", first(holding))
	}
	return Decision{Action: Rest, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonDrained, Message: "The node holds no brick."}
}

// block is why a brick is not moved now.
type block struct {
	status          metav1.ConditionStatus
	reason, message string
	// lasting: it does not pass by itself.
	lasting bool
}

// blocked tells what the node waits for: what passes by itself, or else what a person has to do.
func (e emptying) blocked(blocks []block) Decision {
	if e.Pool.Online(e.node.Peer) == gluster.No {
		_, holding, _ := e.Pool.Data(e.node.Peer)
		return wait(metav1.ConditionFalse, v1alpha1.ReasonPeerDown, "The server is down, and nobody else can move its bricks. It holds: %s. "+
			"Bring it back, or set spec.lost to the UID of the GlusterNode if it is gone for ever.", first(holding))
	}
	shown := blocks[0]
	for _, b := range blocks {
		if !b.lasting {
			shown = b
			break
		}
	}
	var all []string
	for _, b := range blocks {
		if !slices.Contains(all, b.message) {
			all = append(all, b.message)
		}
	}
	return wait(shown.status, shown.reason, "%s", strings.Join(all[:min(len(all), 5)], " "))
}

// first names the first ten of many.
func first(names []string) string {
	if len(names) > 10 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:10], ", "), len(names)-10)
	}
	return strings.Join(names, ", ")
}
