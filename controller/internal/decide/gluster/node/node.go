package node

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/gluster"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

// Facts is what is known of a node in one pass.
type Facts struct {
	Node     *v1alpha1.GlusterNode
	Standing gluster.Standing
	// Spec is the condition SpecValid.
	Spec metav1.Condition
	// Claims says whether all claims of the node are bound, and Workload whether its server runs and answers.
	Claims, Workload gluster.Answer
	// Says is who the server says it is; empty when it does not.
	Says string
	// Address of the server, for other members.
	Address string
	// Devices are the paths of spec.storage that the server's pod has, and Unseen those that it does not have yet. A server that is told of a path that does not exist may end (a134).
	Devices, Unseen []string
	// Disks is the condition DevicesAllocated; nil for a node without disks of a node of Kubernetes. Begun: its workload exists.
	Disks *metav1.Condition
	Begun bool
	// Barred says of devices that glusterd2 must not be told of why not. Unfit says of disks that get no bricks why not, and Unclear are those of which nobody knows whether they are there.
	Barred, Unfit map[string]Bar
	Unclear       []string
	// Forgot: the node may have lost records of disks. A device that it does not name may be one of these, and nobody looked at the disk.
	Forgot bool
	// Pool is what a member of the pool says, other than this node if there is one. Others are the IDs of the cluster's other nodes.
	Pool   gluster.Pool
	Others []string
}

// Plan is what is done in one pass, and what is told of it.
type Plan struct {
	Steps []Step
	// Joined is true once the node was seen in the pool.
	Joined bool
	// Conditions of the steps in their order, and Ready.
	Conditions []metav1.Condition
	// Message is the first thing that is wrong; empty when all is well.
	Message string
}

// Reconcile decides what is done for a node to serve. A step whose condition depends on one that is not True is Unknown, and nothing is done for it. Whatever
// changes something leaves its condition False: the next pass sees whether it helped.
func Reconcile(f Facts) Plan {
	p := Plan{Joined: f.Node.Status.Joined}
	if f.Node.Spec.External != nil {
		p.chain([]stage{{v1alpha1.ConditionSpecValid, f.specValid}, {v1alpha1.ConditionPeerOnline, f.reachable}})
		return p
	}
	stages := []stage{
		{v1alpha1.ConditionSpecValid, f.specValid},
		{v1alpha1.ConditionClaimsReady, f.claims},
		{v1alpha1.ConditionWorkloadReady, f.workload},
		{v1alpha1.ConditionPeerJoined, f.joined},
		{v1alpha1.ConditionPeerOnline, f.online},
		{v1alpha1.ConditionDevicesReady, f.devices},
	}
	p.chain(f.withDisks(stages))
	if f.quiet() {
		// That no brick comes to the node waits for nothing: glusterd2 takes it for a server that is down, too.
		p.Steps = Disable(f.Pool, gluster.PeerOf(f.Node))
	}
	return p
}

// quiet reports whether the node takes no bricks by somebody's wish.
func (f Facts) quiet() bool {
	s := f.Standing.State()
	return s == nodestate.Quiesced || s == nodestate.Failed || s == nodestate.Abandoned
}

// stage is one step on the way to a node that serves.
type stage struct {
	condition string
	decide    func(*Plan) outcome
}

// outcome is what a condition says.
type outcome struct {
	status          metav1.ConditionStatus
	reason, message string
}

func yes(reason, message string) outcome { return outcome{metav1.ConditionTrue, reason, message} }

func no(reason, format string, args ...any) outcome {
	return outcome{metav1.ConditionFalse, reason, fmt.Sprintf(format, args...)}
}

func unknown(reason, format string, args ...any) outcome {
	return outcome{metav1.ConditionUnknown, reason, fmt.Sprintf(format, args...)}
}

// chain goes through the stages until one is not done.
func (p *Plan) chain(stages []stage) {
	blocked := ""
	ready := yes(v1alpha1.ReasonReady, "The node serves.")
	for _, s := range stages {
		o := unknown(v1alpha1.ReasonStepWaits, "%s is not True yet.", blocked)
		if blocked == "" {
			if o = s.decide(p); o.status != metav1.ConditionTrue {
				blocked, ready, p.Message = s.condition, o, o.message
			}
		}
		p.add(s.condition, o)
	}
	p.add(v1alpha1.ConditionReady, ready)
}

func (p *Plan) add(condition string, o outcome) {
	p.Conditions = append(p.Conditions, metav1.Condition{Type: condition, Status: o.status, Reason: o.reason, Message: o.message})
}

func (f Facts) specValid(*Plan) outcome { return outcome{f.Spec.Status, f.Spec.Reason, f.Spec.Message} }

func (f Facts) claims(*Plan) outcome {
	switch f.Claims {
	case gluster.Yes:
		return yes(v1alpha1.ReasonClaimsReady, "All claims are bound.")
	case gluster.No:
		return no(v1alpha1.ReasonPending, "A claim of the node is not bound.")
	}
	return unknown(v1alpha1.ReasonPending, "Whether the claims of the node are bound is not known.")
}

func (f Facts) workload(*Plan) outcome {
	if f.Says != "" && !gluster.SameID(f.Says, gluster.PeerOf(f.Node)) {
		return no(v1alpha1.ReasonPeerConflict, "The server says that it is peer %s, and on record is %q. Nothing is done with it: somebody else's state is on the claim, or another server is at the address.",
			f.Says, gluster.PeerOf(f.Node))
	}
	switch f.Workload {
	case gluster.Yes:
		return yes(v1alpha1.ReasonWorkloadReady, "The server runs, and answers.")
	case gluster.No:
		out := no(v1alpha1.ReasonPending, "The server does not run, or does not answer.")
		if disks := f.unfit(nil); disks != nil {
			out.message += " " + disks.message
		}
		return out
	}
	return unknown(v1alpha1.ReasonPending, "Whether the server runs is not known.")
}

// joined has the server in the pool, under the ID that it was started with. The ID alone tells it: an address is used again.
func (f Facts) joined(p *Plan) outcome {
	id := gluster.PeerOf(f.Node)
	peer, known := f.Pool.Peer(id)
	switch {
	case known == gluster.Unknown:
		return unknown(v1alpha1.ReasonPoolUnknown, "The pool does not tell its peers.")
	case known == gluster.Yes:
		p.Joined = true
		if zone := f.zone(); peer.Zone != zone && !f.quiet() {
			p.Steps = append(p.Steps, Step{Do: SetZone, Zone: zone})
			return no(v1alpha1.ReasonStepTaken, "The zone of the node is set to %s.", zone)
		}
		return yes(v1alpha1.ReasonPeerJoined, "The node is a member of the pool.")
	case f.Node.Status.Joined:
		return no(v1alpha1.ReasonPeerMissing, "The node was a member of the pool, and is none any more. It is not joined again: delete the GlusterNode.")
	case f.quiet():
		return no(v1alpha1.ReasonStepWaits, "The node is %s, and joins the pool after that.", f.Standing.State())
	}
	if other := f.sameAddress(); other != "" {
		return no(v1alpha1.ReasonPeerConflict, "The pool has a member %s with the address %s already.", other, f.Address)
	}
	via := f.via()
	if via == "" || f.Address == "" {
		return no(v1alpha1.ReasonPending, "No member of the pool is online that could take the node in.")
	}
	p.Steps = append(p.Steps, Step{Do: Join, Via: via, Address: f.Address, Zone: f.zone()})
	return no(v1alpha1.ReasonStepTaken, "The node joins the pool.")
}

// zone is that of the spec, or the node's own. Without one glusterd2 takes the ID.
func (f Facts) zone() string {
	if f.Node.Spec.Zone != "" {
		return string(f.Node.Spec.Zone)
	}
	return f.Node.Name
}

// sameAddress is the ID of another member with the node's address.
func (f Facts) sameAddress() string {
	for _, p := range *f.Pool.Peers {
		if slices.Contains(p.Addresses, f.Address) {
			return p.ID
		}
	}
	return ""
}

// via is the member that takes the node in: one of our own that is online, the first by its ID.
func (f Facts) via() string {
	var online []string
	for _, id := range f.Others {
		if f.Pool.Online(id) == gluster.Yes {
			online = append(online, id)
		}
	}
	if len(online) == 0 {
		return ""
	}
	return slices.Min(online)
}

func (f Facts) online(*Plan) outcome {
	switch f.Pool.Online(gluster.PeerOf(f.Node)) {
	case gluster.Yes:
		return yes(v1alpha1.ReasonPeerOnline, "glusterd2 says that the node is online.")
	case gluster.No:
		return no(v1alpha1.ReasonPeerDown, "glusterd2 says that the node is down.")
	}
	return unknown(v1alpha1.ReasonPoolUnknown, "The pool does not tell whether the node is online.")
}

// reachable is all that is looked at of a server that somebody else runs (A19).
func (f Facts) reachable(*Plan) outcome {
	switch f.Workload {
	case gluster.Yes:
		return yes(v1alpha1.ReasonPeerOnline, "The server answers.")
	case gluster.No:
		return no(v1alpha1.ReasonPeerDown, "The server does not answer.")
	}
	return unknown(v1alpha1.ReasonPoolUnknown, "Whether the server answers is not known.")
}

// Candidate is a node that may speak for the pool.
type Candidate struct {
	Name    string
	Created time.Time
	// Joined: it was seen in the pool. Answers: its server does.
	Joined bool
	Answer gluster.Answer
	// Condemned nodes speak last.
	Condemned bool
}

// Awaited is the node that begins the pool, and whose server does not answer yet; empty once a node was a member, or where there is none.
func Awaited(all []Candidate) string {
	if name, _ := Speaker(all); name != "" || slices.ContainsFunc(all, func(c Candidate) bool { return c.Joined }) {
		return ""
	}
	able := slices.DeleteFunc(slices.Clone(all), func(c Candidate) bool { return c.Condemned })
	if len(able) == 0 {
		return ""
	}
	return slices.MinFunc(able, older).Name
}

// older orders nodes by when they were made.
func older(a, b Candidate) int {
	return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.Name, b.Name))
}

// Speaker chooses the node that is asked about the pool, of those whose servers answer. Once any node was a member, only members are asked: a server that is
// none knows a pool of its own. Before, the oldest node begins the pool, and no other, so that there are never two.
func Speaker(all []Candidate) (name string, begins bool) {
	all = slices.Clone(all)
	slices.SortFunc(all, older)
	joined := slices.ContainsFunc(all, func(c Candidate) bool { return c.Joined })
	last := ""
	for _, c := range all {
		switch {
		case !joined && c.Condemned:
		case !joined && c.Answer == gluster.Yes:
			return c.Name, true
		case !joined:
			return "", true
		case c.Joined && c.Answer == gluster.Yes && !c.Condemned:
			return c.Name, false
		case c.Joined && c.Answer == gluster.Yes && last == "":
			last = c.Name
		}
	}
	return last, false
}
