// Package removal decides in which order a node that holds nothing is removed (A8): its server leaves the pool, then its workload is deleted, then the claims
// that were made for it, then the finalizer goes. Nothing is deleted before the server left. It is pure, and can be gone on with from any point: each pass
// decides from what there is.
package removal

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/gluster"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

// Look is what another member of the pool says when it is asked for one peer by its ID.
type Look int

// Looks. An error of the store is told as a 404 too (k005), so only one that says "peer not found" counts.
const (
	Unclear Look = iota
	Found
	NotFound
)

// Peer is another node of the cluster.
type Peer struct {
	ID    string
	State nodestate.State
}

// Facts is what a decision is made on.
type Facts struct {
	// Node is the one that is removed, Standing how it stands.
	Node     *v1alpha1.GlusterNode
	Standing gluster.Standing
	// Pool is what another member tells, or the node itself if there is none. Look is what it says of this one.
	Pool gluster.Pool
	Look Look
	// Others are the other nodes of the cluster.
	Others []Peer
	// Unfilled says why the record of a lost node has to stay: the successor of a brick that was moved off it may be empty. Nil when it need not.
	Unfilled *Unfilled
	// NeverRan: it is known that no server of the node ever ran.
	NeverRan bool
	// Workload and Claims say whether the workload, and claims that were made for the node, still exist. Those that a person made are not looked at.
	Workload, Claims gluster.Answer
	// Ending is what of these was asked to go already; nil when something has to be asked.
	Ending *gluster.Ending
}

// Unfilled is what the node waits for, as a condition tells it.
type Unfilled struct{ Reason, Message string }

// Step is what is done next.
type Step string

// Steps.
const (
	// Wait does nothing.
	Wait Step = "Wait"
	// RemovePeer asks the server Via to take the node out of the pool.
	RemovePeer Step = "RemovePeer"
	// RecordLeft writes that the node is no member any more.
	RecordLeft Step = "RecordLeft"
	// DeleteWorkload, DeleteClaims and DropFinalizer are what they say.
	DeleteWorkload Step = "DeleteWorkload"
	DeleteClaims   Step = "DeleteClaims"
	DropFinalizer  Step = "DropFinalizer"
)

// Decision is the one step of a pass.
type Decision struct {
	Step Step
	// Via is the ID of the peer to ask. A server does not remove itself (a146).
	Via string
	// Status, Reason and Message are those of the condition Removed.
	Status          metav1.ConditionStatus
	Reason, Message string
}

func wait(status metav1.ConditionStatus, reason, format string, args ...any) Decision {
	return Decision{Step: Wait, Status: status, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func do(step Step, reason, message string) Decision {
	return Decision{Step: step, Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

// Gone says whether a peer is no member of the pool: only a list that was read and has others or another, and lacks it, together with a clear "peer not
// found", says so. A reply to the removal itself says nothing: it may fail although the peer left, and the other way round.
func Gone(p gluster.Pool, id string, look Look) gluster.Answer {
	_, listed := p.Peer(id)
	switch {
	case listed == gluster.Yes || look == Found:
		return gluster.No
	case listed == gluster.No && len(*p.Peers) > 0 && look == NotFound:
		return gluster.Yes
	}
	return gluster.Unknown
}

// Decide chooses the next step. It asks the state first: should data be seen on the node after all, nothing more is done.
func Decide(f Facts) Decision {
	switch state := f.Standing.State(); {
	case f.Node.DeletionTimestamp.IsZero():
		return wait(metav1.ConditionUnknown, v1alpha1.ReasonStepWaits, "The node is not being removed.")
	case f.Node.Spec.External != nil:
		return do(DropFinalizer, v1alpha1.ReasonRemoving, "The server is somebody else's, and stays as it is.")
	case state != nodestate.Abandoned && f.Standing.LostRefused != "":
		return wait(metav1.ConditionFalse, v1alpha1.ReasonLostRefused, "The node is not taken for lost: %s", f.Standing.LostRefused)
	case state != nodestate.Abandoned:
		return wait(metav1.ConditionFalse, v1alpha1.ReasonStepWaits, "The node is removed once it is known to hold no data.")
	case !gluster.Left(f.Node):
		return f.leave()
	}
	return f.tearDown()
}

// leave takes the server out of the pool, and records that it left once that is sure.
func (f Facts) leave() Decision {
	id := gluster.PeerOf(f.Node)
	if f.Standing.Lost && f.Unfilled != nil {
		return wait(metav1.ConditionFalse, f.Unfilled.Reason, "The node is lost, and its record stays until the brick that was moved off it is whole elsewhere. %s", f.Unfilled.Message)
	}
	if f.Standing.Lost {
		// No server can remove one that is down (a140). It stays listed, and nobody uses its ID again.
		return do(RecordLeft, v1alpha1.ReasonLeavingPool, "The node is lost. glusterd2 goes on listing it as a peer that is down.")
	}
	if f.NeverRan {
		return do(RecordLeft, v1alpha1.ReasonLeavingPool, "The server of the node never ran.")
	}
	switch Gone(f.Pool, id, f.Look) {
	case gluster.Yes:
		return do(RecordLeft, v1alpha1.ReasonLeavingPool, "The node is no member of the pool.")
	case gluster.Unknown:
		return wait(metav1.ConditionUnknown, v1alpha1.ReasonPoolUnknown, "Nobody can say for sure whether the node is a member of the pool.")
	}
	if f.last(id) {
		return f.leaveLast()
	}
	if f.Pool.Online(id) != gluster.Yes {
		return wait(metav1.ConditionFalse, v1alpha1.ReasonPeerDown, "The server is down, and glusterd2 removes none that is. Bring it back, or set spec.lost to "+
			"the UID of the GlusterNode if it is gone for ever.")
	}
	via := f.via(id)
	if via == "" {
		return wait(metav1.ConditionFalse, v1alpha1.ReasonPeerDown, "No other server is online that could remove the node from the pool.")
	}
	d := do(RemovePeer, v1alpha1.ReasonLeavingPool, "The server leaves the pool.")
	d.Via = via
	return d
}

// last reports whether no other peer is left that will ever come back: only those of nodes count.
func (f Facts) last(id string) bool {
	if f.Pool.Peers == nil {
		return false
	}
	return !slices.ContainsFunc(*f.Pool.Peers, func(p gluster.Peer) bool {
		ours := slices.ContainsFunc(f.Others, func(o Peer) bool { return gluster.SameID(o.ID, p.ID) })
		return !gluster.SameID(p.ID, id) && (p.Online || ours)
	})
}

// leaveLast stops the last server without a removal, as none is left to ask. With it everything goes that the pool has, so there must be nothing.
func (f Facts) leaveLast() Decision {
	if f.Pool.Volumes == nil || f.Pool.Snapshots == nil {
		return wait(metav1.ConditionUnknown, v1alpha1.ReasonPoolUnknown, "The server is the last one, and does not tell its volumes and snapshots.")
	}
	if n := len(*f.Pool.Volumes) + len(*f.Pool.Snapshots); n > 0 {
		return wait(metav1.ConditionFalse, v1alpha1.ReasonVolumesExist, "The server is the last one, and the pool still has %d volumes and snapshots.", n)
	}
	return do(RecordLeft, v1alpha1.ReasonLeavingPool, "The server is the last one of the pool, and holds nothing.")
}

// via is the peer that is asked: one that stays if there is one, the first by its ID.
func (f Facts) via(id string) string {
	var staying, any []string
	for _, o := range f.Others {
		if gluster.SameID(o.ID, id) || f.Pool.Online(o.ID) != gluster.Yes {
			continue
		}
		if any = append(any, o.ID); o.State == nodestate.Online {
			staying = append(staying, o.ID)
		}
	}
	for _, list := range [][]string{staying, any} {
		if len(list) > 0 {
			return slices.MinFunc(list, strings.Compare)
		}
	}
	return ""
}

// tearDown deletes what was made for the node, one kind after the other.
func (f Facts) tearDown() Decision {
	id := gluster.PeerOf(f.Node)
	gone := Gone(f.Pool, id, f.Look)
	switch {
	case f.Standing.LostRefused != "" && gone != gluster.Yes:
		// What is on record may be the word of a person that does not count any more: the server never left, and has its bricks.
		return wait(metav1.ConditionFalse, v1alpha1.ReasonLostRefused, "The node is not taken for lost: %s Nothing of it is removed before the pool says that it left.", f.Standing.LostRefused)
	case !f.Standing.Lost && gone == gluster.No && !f.last(id):
		return f.returned(id)
	}
	switch {
	case f.Workload == gluster.Unknown:
		return wait(metav1.ConditionUnknown, v1alpha1.ReasonRemoving, "Whether the workload of the node still exists is not known.")
	case f.Ending != nil && (f.Workload == gluster.Yes || f.Claims == gluster.Yes):
		return wait(metav1.ConditionFalse, v1alpha1.ReasonRemoving, "The node left the pool. %s", f.Ending.Message())
	case f.Workload == gluster.Yes:
		return do(DeleteWorkload, v1alpha1.ReasonRemoving, "The node left the pool, and its workload is deleted."+leftovers(f.Node))
	case f.Claims == gluster.Unknown:
		return wait(metav1.ConditionUnknown, v1alpha1.ReasonRemoving, "Whether claims of the node still exist is not known.")
	case f.Claims == gluster.Yes:
		return do(DeleteClaims, v1alpha1.ReasonRemoving, "The server of the node is stopped, and its claims are deleted.")
	}
	if left := leftovers(f.Node); left != "" {
		return do(DropFinalizer, v1alpha1.ReasonRemoving, "Nothing is left of the node in Kubernetes."+left)
	}
	return do(DropFinalizer, v1alpha1.ReasonRemoving, "Nothing is left of the node.")
}

// leftovers names the disks of a node of Kubernetes that the server may have written on; empty without one. Nobody but a person cleans them.
func leftovers(n *v1alpha1.GlusterNode) string {
	var all []string
	for _, d := range n.Spec.Devices {
		if d.Allocated {
			all = append(all, fmt.Sprintf("%s of node %s", d.Path, d.Node))
		}
	}
	if len(all) == 0 {
		return ""
	}
	return fmt.Sprintf(" What glusterd2 wrote stays on %s. Clean it by hand on that node, as docs/gluster.md says, or give it to a Cluster that has it wiped (devices.wipe).", strings.Join(all, ", "))
}

// returned removes a peer once more that is in the pool again, as one is that is started with the ID of the pool (x012). Without its workload it cannot.
func (f Facts) returned(id string) Decision {
	via := f.via(id)
	if f.Pool.Online(id) == gluster.Yes && via != "" {
		d := do(RemovePeer, v1alpha1.ReasonLeavingPool, "The server is a member of the pool again, and leaves it once more.")
		d.Via = via
		return d
	}
	return wait(metav1.ConditionFalse, v1alpha1.ReasonPeerDown, "The server is a member of the pool again, and is down. Set spec.lost to the UID of the GlusterNode if it is gone for ever.")
}
