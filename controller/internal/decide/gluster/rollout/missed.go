package rollout

import (
	"fmt"
	"strings"
	"time"

	"quarry.storage/quarry/controller/internal/decide/gluster"
	"quarry.storage/quarry/controller/internal/decide/gluster/drain"
	"quarry.storage/quarry/pkg/nodestate"
)

// missed says why no pod at all can be missed now, and when to look again: something does not run, is not known, or is not whole.
func (f Facts) missed() (why string, wake time.Duration) {
	if why, wake := f.runs(); why != "" {
		return why, wake
	}
	for _, n := range f.Nodes {
		switch {
		case n.Moving:
			return fmt.Sprintf("A brick is being moved off node %s.", n.Name), 0
		case n.Condemned:
			return fmt.Sprintf("Node %s is being removed.", n.Name), 0
		case n.State != nodestate.Online && n.State != nodestate.Quiesced:
			return fmt.Sprintf("Node %s is not online.", n.Name), 0
		case n.Answers != gluster.Yes:
			return fmt.Sprintf("The server of node %s does not answer.", n.Name), 0
		case f.Pool.Online(n.Peer) != gluster.Yes:
			return fmt.Sprintf("glusterd2 does not say that node %s is online.", n.Name), 0
		}
	}
	if f.Pool.Volumes == nil {
		return "The pool does not tell its volumes.", 0
	}
	if doubt := f.Pool.Doubt(); doubt != "" {
		return doubt, 0
	}
	for _, v := range *f.Pool.Volumes {
		if lack := drain.Lacks(f.Pool, v); lack != nil {
			return lack.Message, 0
		}
	}
	return "", 0
}

// runs says which pod does not run, or not for long enough.
func (f Facts) runs() (why string, wake time.Duration) {
	for _, p := range f.Pods {
		switch {
		case p.Missing:
			return fmt.Sprintf("The pod %s is not there.", p.Name), 0
		case !p.Ended.IsZero():
			return fmt.Sprintf("The pod %s was asked to end, and another one has to take its place.", p.Name), 0
		case p.Ready.IsZero():
			return fmt.Sprintf("The pod %s is not ready.", p.Name), 0
		}
	}
	for _, p := range f.Pods {
		if left := Settled - max(f.Now.Sub(p.Ready), 0); left > 0 {
			return fmt.Sprintf("The pod %s has to be ready for %s.", p.Name, Settled), left
		}
	}
	return "", 0
}

// stays says why a pod is not replaced because of its machine, which is known.
func (p Pod) stays() string {
	switch p.Machine.Takes {
	case gluster.Yes:
		return ""
	case gluster.No:
		return fmt.Sprintf("The machine of the pod %s takes no pods: another one might not start. %s.", p.Name, p.Machine.Why)
	}
	return fmt.Sprintf("Whether the machine of the pod %s takes pods is not known: %s.", p.Name, strings.TrimRight(p.Machine.Why, "."))
}

// spared says why this very pod cannot be missed, even if all is well, whatever its machine is.
func (f Facts) spared(p Pod) string {
	if !p.Claims {
		return fmt.Sprintf("A claim of the pod %s, or of the one in its place, is not there or was deleted: its data would go with the pod, or no other one would start.", p.Name)
	}
	own := ""
	for _, n := range f.Nodes {
		switch {
		case n.Name == p.Node:
			own = n.Peer
		case n.State == nodestate.Quiesced:
			return fmt.Sprintf("Node %s is under maintenance.", n.Name)
		}
	}
	if p.Node == "" {
		return ""
	}
	for _, v := range *f.Pool.Volumes {
		if v.Started && alone(v, own) {
			return fmt.Sprintf("Volume %s cannot do without node %s: part of its data have no other copy. Delete the pod %s yourself when nobody uses the volume.", v.Name, p.Node, p.Name)
		}
	}
	return ""
}

// alone reports whether a volume has data that nobody can read or write while a server is away.
func alone(v gluster.Volume, peer string) bool {
	for _, s := range v.Subvolumes {
		here, elsewhere := 0, 0
		for _, b := range s.Bricks {
			switch {
			case gluster.SameID(b.Peer, peer):
				here++
			case !b.Arbiter:
				elsewhere++
			}
		}
		if here > 1 || here == 1 && (s.Kind != gluster.Replicate || elsewhere == 0) {
			return true
		}
	}
	return false
}
