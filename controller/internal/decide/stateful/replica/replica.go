// Package replica decides about the replicas of a StatefulCluster: which one thing is done next. It knows nothing of pods, clients or
// clocks; it is given values and a time.
//
// A replica is one copy of the data: an identity with its claims. Its pod may be made again on the same claims as often as it takes. An
// identity is given up once, which is recorded as its fate, and never comes back.
package replica

import "time"

// Phase of a replica's pod.
type Phase int

// Phases.
const (
	// Pending: not scheduled, or its containers are not made yet.
	Pending Phase = iota
	// Running: its containers were made.
	Running
	// Finished: its containers ended and will not be started again.
	Finished
	// Absent: there is no pod.
	Absent
)

// Readiness is what the kubelet says about a replica.
type Readiness int

// Readiness of a replica.
const (
	// NotReady: it says that it is not ready, or says nothing yet.
	NotReady Readiness = iota
	// Ready to serve.
	Ready
	// Unknown: nobody has told for a while.
	Unknown
)

// NodeState is how the node is that a replica runs on, or that its volumes keep it on.
type NodeState int

// Node states.
const (
	// NodeFine is also the state of a replica that may go to any node.
	NodeFine NodeState = iota
	// NodeUnready: its kubelet says that it cannot run pods.
	NodeUnready
	// NodeUnreachable: the node exists, and its kubelet does not answer.
	NodeUnreachable
	// NodeShutDown: a person put the taint out-of-service on it.
	NodeShutDown
	// NodeClosed: it takes no new pods, and the replica has none that runs there.
	NodeClosed
	// NodeGone: the node does not exist.
	NodeGone
)

// DiskState is how the disks are that a replica's claims lie on, as far as anybody can tell.
type DiskState int

// Disk states.
const (
	// DiskFine is also the state of volumes of which nothing is known.
	DiskFine DiskState = iota
	// DiskSuspended: a person maintains what holds the volumes. Nothing is given up there meanwhile.
	DiskSuspended
	// DiskFailed: what holds the volumes is reported without them, or without a device.
	DiskFailed
	// DiskLost: a person said that what holds the volumes is lost for ever.
	DiskLost
)

// With is the state of two volumes of one replica: the worse, but where a person maintains what holds one of them, nothing is given up for a failure of
// the other.
func (d DiskState) With(other DiskState) DiskState {
	if worse := max(d, other); worse != DiskFailed || min(d, other) != DiskSuspended {
		return worse
	}
	return DiskSuspended
}

// ClaimState says whether the claims of a replica are there.
type ClaimState int

// Claim states.
const (
	// NoClaims: the replicas have no claims. What they hold goes with the pod.
	NoClaims ClaimState = iota
	// ClaimsWhole: all are there.
	ClaimsWhole
	// ClaimsMissing: one is not there.
	ClaimsMissing
	// ClaimsEnding: one is being deleted.
	ClaimsEnding
)

// Fate is why an identity was given up, as it is on record; empty while it was not.
type Fate string

// Fates.
const (
	// Scaled: fewer replicas were wanted.
	Scaled Fate = "Scaled"
	// Replaced: it would not serve again.
	Replaced Fate = "Replaced"
	// Rolled: a replica of the changed template stands in its place.
	Rolled Fate = "Rolled"
)

// Replica is what was observed of one identity.
type Replica struct {
	// Name of the pod, and the Identity in it.
	Name, Identity string
	// Revision of the template that its pod was made from; empty when there is no pod.
	Revision string
	Created  time.Time
	// Fate is on record; so is whether it was ever available, and had the data: Filled. Served is on record of one that was available once and
	// never told that it had the data, where replicas tell.
	Fate           Fate
	Filled, Served bool
	Claims         ClaimState
	// GivenUp is when its fate was recorded. It is on record only if another replica served with the data then, or this one never had any.
	GivenUp time.Time
	// Terminating: its pod is being deleted.
	Terminating bool
	Phase       Phase
	Readiness   Readiness
	// ReadinessSince is when the readiness last changed.
	ReadinessSince time.Time
	// PendingSince is when its present pod was made.
	PendingSince time.Time
	// Busy: a container that runs before the others is at work, for as long as it takes.
	Busy bool
	// InSync: it says that it has the data now. Only heard when Input.Declared.
	InSync bool
	// Patchable: its pod differs from the template of the spec by what can be changed in place, if at all.
	Patchable bool
	// Placed: its pod was scheduled, or its volumes keep it on certain nodes.
	Placed bool
	Node   NodeState
	Disk   DiskState
	// Doubtful: what holds its volumes was told to have failed, and that does not count now: what is told is old, or a person maintains it. It is not given up
	// for that, and does not stand in for another one either.
	Doubtful bool
	// Tally is for how long it was seen out of reach.
	Tally
	// Steady is for how long it was seen ready. It counts where Input.MinReady does.
	Steady Steady
	// Late is for how long it was seen not ready.
	Late Late
	// Crowded is why no other node, nor its own if its disk is lost, is known to take another one: a sentence about the first such node. It is empty when one is.
	Crowded string
	// Occupied is the name of a pod that is not the replica's own, and has its name or its claims: no pod of the replica is made beside it.
	Occupied string
	// Cost of deleting it: of two that are missed alike, the one of the lower cost goes.
	Cost int
}

// OutOfReach reports whether nobody can serve with what the replica holds: its node does not answer or takes no pods, or its disks failed.
func (r Replica) OutOfReach() bool {
	return r.Node != NodeFine || r.Disk == DiskFailed || r.Phase == Running && r.Readiness == Unknown
}

// Sound reports whether its pod says nothing against its volumes: it is ready, or there is none that could be.
func (r Replica) Sound() bool {
	return r.Phase == Absent || r.Phase == Finished || r.Phase == Running && r.Readiness == Ready
}

// Input is what the decision is made on.
type Input struct {
	Now time.Time
	// Desired number of replicas.
	Desired int
	// Discard: with none wanted each replica is given up. Otherwise all stay, without pods, and come back on their claims.
	Discard bool
	// Revision of the template of the spec.
	Revision string
	// OnDelete leaves replicas of other revisions alone.
	OnDelete bool
	// Surge is how many more replicas than wanted there may be while the template changes, and Unavailable how many fewer may be available.
	// With no surge the pods are made again on their claims.
	Surge, Unavailable int
	// Partition is how many replicas keep the template that they have.
	Partition int
	// Declared: replicas tell when they have the data. Otherwise one that is available is taken to have it.
	Declared bool
	// Grace is how long a replica may be not ready, NodeGrace how long it may be out of reach, and MinReady how long it must have been seen ready
	// to be available.
	Grace, NodeGrace, MinReady time.Duration
	// Futile is how many replicas were replaced for not being ready since all were ready.
	Futile int
	// Blackout: so many nodes are unreachable at once that the network is the likelier fault. Nobody is lost for being silent then.
	Blackout bool
	// Vanished are nodes that do not exist, and that something still names.
	Vanished []string
	Replicas []Replica
	// Unrecorded is how many claims there are of which nobody knows whether they hold the data: no record says what their replica was, and it
	// has no pod.
	Unrecorded int
	// Unowned is how many pods have the labels of a replica and nobody who controls them, as after a deletion that orphans: they may run with the data.
	Unowned int
	// Standing is how many of them have not been given up on record: each stands in the place of a replica that would begin empty.
	Standing int
	// Undecided are the claims of such pods, also of those that are gone by now, that may hold the data and of which no person has said what becomes of them.
	Undecided []string
	// Blocked are names of pods that a disruption budget keeps in this pass.
	Blocked map[string]bool
	// Plan is what was shown to people about replicas that are not given up without them; nil when there is none.
	Plan *Plan
}
