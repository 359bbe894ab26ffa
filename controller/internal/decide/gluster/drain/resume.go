package drain

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/gluster"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

// resume goes on with a move that is on record.
func (e emptying) resume(m v1alpha1.GlusterMove) Decision {
	v, known := e.Pool.Volume(m.Volume)
	if known == gluster.No {
		m.Whole = true
		return record(m, "Volume %s was deleted.", m.Volume)
	}
	if d := e.unanswered(m); d != nil && !replaced(v, m) {
		return *d
	}
	if !replaced(v, m) {
		return e.again(v, m)
	}
	b, ok := v.At(int(m.Subvolume), int(m.Position))
	if !ok {
		return wait(metav1.ConditionUnknown, v1alpha1.ReasonPoolUnknown, "Volume %s has no brick where one was replaced.", v.Name)
	}
	if !gluster.SameID(b.ID, m.Successor) {
		m.Successor, m.HealAsked, m.CleanSince = b.ID, nil, nil
		if m.Request == v1alpha1.GlusterReplaceBrick {
			// The volume itself is the answer, whatever else was said.
			m.Answered, m.Failure = true, ""
		}
		return record(m, "The brick %s of volume %s was replaced by %s.", m.Path, v.Name, b.Path)
	}
	if d := e.unanswered(m); d != nil {
		return *d
	}
	return e.fill(v, b, m)
}

// replaced reports whether the old brick is not in the volume any more.
func replaced(v gluster.Volume, m v1alpha1.GlusterMove) bool {
	for _, b := range v.Bricks() {
		if gluster.SameID(b.ID, m.Brick) {
			return false
		}
	}
	return true
}

func record(m v1alpha1.GlusterMove, format string, args ...any) Decision {
	return Decision{
		Action: Record, Move: &m, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonBrickMoving, Message: fmt.Sprintf(format, args...),
	}
}

// unanswered waits for a request that had no answer, or failed halfway: it may still take effect (x044, k023), and until then no other is made.
func (e emptying) unanswered(m v1alpha1.GlusterMove) *Decision {
	if m.Answered || m.Request == "" {
		return nil
	}
	left := LostAnswer - e.since(m.Asked.Time)
	if left <= 0 {
		return nil
	}
	d := wait(metav1.ConditionUnknown, v1alpha1.ReasonAnswerLost, "glusterd2 gave no answer to %s of volume %s, and may still do it. It is looked up, and asked again after %s.",
		m.Request, m.Volume, LostAnswer)
	if m.Failure != "" {
		d = wait(metav1.ConditionUnknown, v1alpha1.ReasonRequestFailed, "glusterd2 was asked for %s of volume %s, and failed: %s. The request may have taken effect even so. It is looked up, and asked again at %s.",
			m.Request, m.Volume, m.Failure, e.at(left))
	}
	d.Wake = left
	return &d
}

// at is the time after a while, as text.
func (e emptying) at(left time.Duration) string { return e.Now.Add(left).UTC().Format(time.RFC3339) }

// again asks once more for a brick that is still in its place.
func (e emptying) again(v gluster.Volume, m v1alpha1.GlusterMove) Decision {
	if m.Successor != "" {
		return wait(metav1.ConditionFalse, v1alpha1.ReasonBrickReturned, "The brick %s is in volume %s again after it was replaced: its data are old. "+
			"Nothing more is moved off the node. A person has to compare the copies, and to replace the brick by hand.", m.Path, v.Name)
	}
	for s, sub := range v.Subvolumes {
		for i, b := range sub.Bricks {
			if !gluster.SameID(b.ID, m.Brick) {
				continue
			}
			next := m
			next.Subvolume, next.Position, next.Path = int32(s), int32(i), b.Path //nolint:gosec // Small.
			d, why := e.replace(v, b, next)
			if why != nil {
				return e.blocked([]block{*why})
			}
			return d
		}
	}
	return wait(metav1.ConditionUnknown, v1alpha1.ReasonPoolUnknown, "What the pool tells of volume %s contradicts itself.", v.Name)
}

// fill has the new brick filled, and waits for it. That nothing is left to heal is no proof by itself: a new brick may not be marked as lacking anything, so a heal
// of the whole volume is asked for, nothing may be left to heal for a while, and as much has to be on it as on the others.
func (e emptying) fill(v gluster.Volume, b gluster.Brick, m v1alpha1.GlusterMove) Decision {
	if why := e.filling(v); why != nil {
		return disturbed(m, why.wait())
	}
	switch {
	case v.SelfHeal == gluster.Unknown:
		return disturbed(m, unsure("Whether volume %s heals itself is not known.", v.Name).wait())
	case v.SelfHeal == gluster.No:
		next := m
		next.CleanSince = nil
		d := e.ask(next, v1alpha1.GlusterEnableSelfHeal, "Volume %s gets its healing enabled again.", v.Name)
		if d.Action == Wait {
			return disturbed(m, d)
		}
		return d
	case m.HealAsked == nil:
		return e.heal(v, m)
	}
	if why := healed(v); why != nil {
		return disturbed(m, why.wait())
	}
	if m.CleanSince == nil || m.CleanSince.After(e.Now) {
		m.CleanSince = &metav1.Time{Time: e.Now}
		return record(m, "Nothing is left to heal in volume %s.", v.Name)
	}
	if left := Settled - e.since(m.CleanSince.Time); left > 0 {
		d := wait(metav1.ConditionFalse, v1alpha1.ReasonHealing, "Nothing is left to heal in volume %s. It stays so for %s before the new brick counts.", v.Name, Settled)
		d.Wake = left
		return d
	}
	full, why := filled(v.Subvolumes[m.Subvolume], b)
	if full == gluster.Yes {
		m.Whole = true
		return record(m, "The brick %s of volume %s was moved, and its data are whole elsewhere.", m.Path, v.Name)
	}
	if full == gluster.No && e.since(m.HealAsked.Time) >= HealAgain {
		m.CleanSince = nil
		return e.heal(v, m)
	}
	d := wait(metav1.ConditionFalse, v1alpha1.ReasonHealing, "Nothing is left to heal in volume %s, and the new brick %s does not count yet: %s.", v.Name, b.Path, why)
	d.Wake = time.Minute
	return d
}

func (e emptying) heal(v gluster.Volume, m v1alpha1.GlusterMove) Decision {
	d := e.ask(m, v1alpha1.GlusterHealVolume, "All data of volume %s are looked at, and copied to the new brick.", v.Name)
	if d.Reason == v1alpha1.ReasonBrickMoving {
		d.Reason = v1alpha1.ReasonHealing
	}
	return d
}

// filling says why data cannot be copied now. The old node has no part in it, and maintenance of another does not matter as long as its brick runs.
func (e emptying) filling(v gluster.Volume) *block {
	calm := e
	calm.Nodes = nil
	for _, n := range e.Nodes {
		if n.State == nodestate.Quiesced {
			n.State = nodestate.Online
		}
		calm.Nodes = append(calm.Nodes, n)
	}
	return calm.serving(v)
}

// disturbed waits, and the time in which nothing was left to heal begins anew.
func disturbed(m v1alpha1.GlusterMove, d Decision) Decision {
	if m.CleanSince != nil {
		m.CleanSince = nil
		d.Action, d.Move = Record, &m
	}
	return d
}

// unseen waits for a pool that does not tell all. Nobody saw meanwhile that nothing was left to heal, so that the time in which it was does not count.
func (e emptying) unseen(d Decision) Decision {
	if !e.node.open() {
		return d
	}
	return disturbed(*e.node.Move, d)
}

// filled reports whether a new brick has as much as the others of its subvolume. Filesystems of different sizes differ by what they need themselves.
func filled(sub gluster.Subvolume, b gluster.Brick) (gluster.Answer, string) {
	if b.Arbiter {
		return gluster.Yes, ""
	}
	if b.Size == nil {
		return gluster.Unknown, "how much is on it is not known"
	}
	var most, capacity uint64
	for _, other := range sub.Bricks {
		switch {
		case other.Arbiter || gluster.SameID(other.ID, b.ID):
			continue
		case other.Size == nil:
			return gluster.Unknown, "how much is on the others is not known"
		}
		most, capacity = max(most, other.Size.Used), max(capacity, other.Size.Capacity)
	}
	if tolerance := capacity/50 + 64<<20; b.Size.Used+tolerance < most {
		return gluster.No, fmt.Sprintf("%d bytes are on it, and %d on another one", b.Size.Used, most)
	}
	return gluster.Yes, ""
}
