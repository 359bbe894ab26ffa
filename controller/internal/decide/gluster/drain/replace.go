package drain

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/gluster"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

// replace asks for the brick to be replaced, or for what has to be before, or says why not now.
func (e emptying) replace(v gluster.Volume, b gluster.Brick, m v1alpha1.GlusterMove) (Decision, *block) {
	if why := e.movable(v, m); why != nil {
		return Decision{}, why
	}
	if e.Pool.Online(e.node.Peer) != gluster.Yes {
		return Decision{}, no(v1alpha1.ReasonPeerDown, "The server that owns the brick of volume %s is down.", v.Name)
	}
	if why := e.serving(v); why != nil {
		return Decision{}, why
	}
	switch v.SelfHeal {
	case gluster.Unknown:
		return Decision{}, unsure("Whether volume %s heals itself is not known.", v.Name)
	case gluster.No:
		return e.ask(m, v1alpha1.GlusterEnableSelfHeal, "Volume %s gets its healing enabled, before a brick is moved.", v.Name), nil
	}
	if why := healed(v); why != nil {
		return Decision{}, why
	}
	if why := copied(v, m, b); why != nil {
		return Decision{}, why
	}
	limit, why := e.room(v, b)
	if why != nil {
		return Decision{}, why
	}
	d := e.ask(m, v1alpha1.GlusterReplaceBrick, "The brick %s of volume %s is moved to another node.", m.Path, v.Name)
	d.Peer, d.Limit = b.Peer, limit
	return d, nil
}

// ask records a request, and has it made. One that was answered before and is needed again, as it was refused or undone, is made after a pause.
func (e emptying) ask(m v1alpha1.GlusterMove, request v1alpha1.GlusterRequest, format string, args ...any) Decision {
	repeated := int32(0)
	if m.Request == request {
		if left := Backoff<<min(max(m.Repeated, 0), 4) - e.since(m.Asked.Time); m.Answered && left > 0 {
			d := wait(metav1.ConditionFalse, v1alpha1.ReasonBrickMoving, "glusterd2 was asked for %s of volume %s, and it was not done. It is asked again.", request, m.Volume)
			if m.Failure != "" {
				d = wait(metav1.ConditionFalse, v1alpha1.ReasonRequestFailed, "glusterd2 was asked for %s of volume %s, and did nothing: %s. It is asked again at %s.", request, m.Volume, m.Failure, e.at(left))
			}
			d.Wake = left
			return d
		}
		repeated = min(max(m.Repeated, 0)+1, 1000)
	}
	m.Request, m.Asked, m.Answered, m.Failure, m.Repeated = request, metav1.Time{Time: e.Now}, false, "", repeated
	return Decision{
		Action: Ask, Move: &m, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonBrickMoving, Message: fmt.Sprintf(format, args...),
	}
}

// Answered is the record after an answer to the request that it has: the request took effect, or was refused and will not any more.
func Answered(m v1alpha1.GlusterMove, done bool) v1alpha1.GlusterMove {
	m.Answered = true
	if done && m.Request == v1alpha1.GlusterHealVolume {
		m.HealAsked = new(m.Asked)
		m.CleanSince = nil
	}
	return m
}

// wait waits until it is no reason any more.
func (b *block) wait() Decision { return wait(b.status, b.reason, "%s", b.message) }

func no(reason, format string, args ...any) *block {
	return &block{status: metav1.ConditionFalse, reason: reason, message: fmt.Sprintf(format, args...)}
}

func unsure(format string, args ...any) *block {
	return &block{status: metav1.ConditionUnknown, reason: v1alpha1.ReasonPoolUnknown, message: fmt.Sprintf(format, args...)}
}

func lasting(b *block) *block {
	b.lasting = true
	return b
}

// movable says why a brick is never moved: there is no other copy to make it from.
func (e emptying) movable(v gluster.Volume, m v1alpha1.GlusterMove) *block {
	sub := v.Subvolumes[m.Subvolume]
	data := 0
	for _, b := range sub.Bricks {
		if !b.Arbiter {
			data++
		}
	}
	if sub.Kind == gluster.Replicate && data >= 2 || sub.Kind == gluster.Disperse && data >= 3 {
		return nil
	}
	return lasting(no(v1alpha1.ReasonDistributeOnly, "Volume %s has one copy of its data, which is never moved: copy the data and delete the volume.", v.Name))
}

// serving says why a volume is not whole right now. It is asked of every brick: the one that is replaced is lost at once, and the others have to be there.
func (e emptying) serving(v gluster.Volume) *block {
	if !v.Started {
		return lasting(no(v1alpha1.ReasonVolumeStopped, "Volume %s is not started, so nothing would be copied: start it.", v.Name))
	}
	for _, b := range v.Bricks() {
		switch b.Online {
		case gluster.Unknown:
			return unsure("Whether all bricks of volume %s run is not known.", v.Name)
		case gluster.No:
			return no(v1alpha1.ReasonBrickDown, "The brick %s of volume %s does not run.", b.Path, v.Name)
		}
		switch e.Pool.Online(b.Peer) {
		case gluster.Unknown:
			return unsure("Whether all servers of volume %s are online is not known.", v.Name)
		case gluster.No:
			return no(v1alpha1.ReasonBrickDown, "A server with a brick of volume %s is not online.", v.Name)
		}
		for _, n := range e.Nodes {
			if gluster.SameID(n.Peer, b.Peer) && n.State == nodestate.Quiesced {
				return no(v1alpha1.ReasonDrainWaits, "Node %s, which has a brick of volume %s, is under maintenance.", n.Name, v.Name)
			}
		}
	}
	return nil
}

// healed says what is left to be healed in a volume. To be told, glusterd2 takes the volume's lock, so that nobody else holds it (w045).
func healed(v gluster.Volume) *block {
	switch {
	case v.Heal == nil:
		return unsure("What is left to be healed in volume %s is not known.", v.Name)
	case v.Heal.SplitBrain > 0:
		return lasting(no(v1alpha1.ReasonSplitBrain, "Volume %s has %d files whose copies contradict each other. Choose one of each.", v.Name, v.Heal.SplitBrain))
	case v.Heal.Pending > 0:
		return no(v1alpha1.ReasonHealing, "Volume %s has %d files to heal.", v.Name, v.Heal.Pending)
	}
	return nil
}

// copied says why the other bricks may not have all that a brick has. That nothing is left to heal proves nothing of a brick that nobody marked as lacking the data: one that a person
// replaced, or the successor of one whose node was lost before it was full.
func copied(v gluster.Volume, m v1alpha1.GlusterMove, b gluster.Brick) *block {
	sub := v.Subvolumes[m.Subvolume]
	for _, other := range sub.Bricks {
		if gluster.SameID(other.ID, b.ID) {
			continue
		}
		if why := complete(v, sub, other); why != nil {
			return why
		}
	}
	return nil
}

// room returns the peers on which the new brick may be, or says why there is none. glusterd2 leaves out every zone that has a brick of the volume (w036), and
// devices that are disabled; among the rest it chooses. Peers of nodes that are condemned must have no device enabled by then.
func (e emptying) room(v gluster.Volume, b gluster.Brick) ([]string, *block) {
	used := map[string]bool{}
	for _, one := range v.Bricks() {
		peer, _ := e.Pool.Peer(one.Peer)
		used[peer.Zone] = true
	}
	if why := e.closed(); why != nil {
		return nil, why
	}
	if b.Size == nil || b.Size.Capacity == 0 {
		return nil, unsure("The size of the brick %s of volume %s is not known.", b.Path, v.Name)
	}
	// The filesystem is smaller than what it lies on, and metadata of a thin pool come on top (w020).
	need := b.Size.Capacity + b.Size.Capacity/16
	var zones, fit []string
	for _, n := range e.Nodes {
		if !e.takes(n, used) {
			continue
		}
		for _, d := range *e.Pool.Devices {
			if !d.Enabled || !gluster.SameID(d.Peer, n.Peer) {
				continue
			}
			if zones = append(zones, n.Peer); d.Free >= need && (d.Total == 0 || d.Free <= d.Total) {
				fit = append(fit, n.Peer)
			}
		}
	}
	switch {
	case len(zones) == 0:
		return nil, lasting(no(v1alpha1.ReasonReplacementZoneMissing, "Every zone with a device that is enabled has a brick of volume %s already: add a node in another zone.", v.Name))
	case len(fit) == 0:
		return nil, lasting(no(v1alpha1.ReasonReplacementTooSmall, "No device in another zone has room for a brick of volume %s: add a node there.", v.Name))
	}
	slices.Sort(fit)
	return slices.Compact(fit), nil
}

// takes reports whether a node of ours may get a brick: it serves, stays, and is in a zone that has none of the volume.
func (e emptying) takes(n Node, used map[string]bool) bool {
	peer, known := e.Pool.Peer(n.Peer)
	return known == gluster.Yes && peer.Online && n.State == nodestate.Online && !n.External && !used[peer.Zone]
}

// closed says which node that takes no bricks still has a device enabled.
func (e emptying) closed() *block {
	for _, n := range e.Nodes {
		if !n.condemned() && n.State != nodestate.Quiesced {
			continue
		}
		for _, d := range *e.Pool.Devices {
			if d.Enabled && gluster.SameID(d.Peer, n.Peer) {
				return no(v1alpha1.ReasonDrainWaits, "Device %s of node %s has to be disabled first.", d.Path, n.Name)
			}
		}
	}
	return nil
}
