// Package replica decides about the replicas of a StatefulCluster: which one thing is done next. It knows nothing of pods, clients or
// clocks; it is given values and a time.
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
	// NodeUnreachable: the node exists, and its kubelet does not answer.
	NodeUnreachable
	// NodeGone: the node does not exist.
	NodeGone
)

// Replica is what was observed of one replica.
type Replica struct {
	// Name of the pod, and the Identity in it.
	Name, Identity string
	// Revision of the template that it was made from.
	Revision string
	Created  time.Time
	// Terminating: its pod is being deleted.
	Terminating bool
	Phase       Phase
	Readiness   Readiness
	// ReadinessSince is when the readiness last changed.
	ReadinessSince time.Time
	Node           NodeState
	// NodeSince is when the node became so.
	NodeSince time.Time
}

// Input is what the decision is made on.
type Input struct {
	Now time.Time
	// Desired number of replicas.
	Desired int
	// Revision of the template of the spec.
	Revision string
	// OnDelete leaves replicas of other revisions alone.
	OnDelete bool
	// Grace is how long a replica may be not ready, NodeGrace how long its node may be unreachable, and MinReady how long it must have
	// been ready to be available.
	Grace, NodeGrace, MinReady time.Duration
	// Futile is how many replicas were replaced for not being ready since all were ready.
	Futile int
	// Blackout: so many nodes are unreachable at once that the network is the likelier fault. Nobody is lost for being silent then.
	Blackout bool
	Replicas []Replica
	// Reserved are identities whose claims were made and whose pod was not.
	Reserved []string
}

// Health of a replica. They are ordered from the one that is missed least to the one that is missed most.
type Health int

// Healths.
const (
	// Lost: its node is gone, or was unreachable for too long. It will not come back.
	Lost Health = iota
	// Ended: its pod has finished.
	Ended
	// Unhealthy: it has not been ready for too long.
	Unhealthy
	// Waiting: it is pending.
	Waiting
	// Starting: it runs and is not ready, which it may be for a while.
	Starting
	// Young: it is ready, and not long enough to count.
	Young
	// Available: it has been ready for long enough.
	Available
)

// maxDoublings bounds how much longer a replica is waited for when replacing others did not help.
const maxDoublings = 4

// patience is how long a replica may be not ready.
func (in Input) patience() time.Duration { return in.Grace << min(max(in.Futile, 0), maxDoublings) }

// Health judges a replica, and tells when the judgement changes though nothing happens; zero when it does not.
func (in Input) Health(r Replica) (h Health, change time.Duration) {
	switch r.Node {
	case NodeGone:
		return Lost, 0
	case NodeUnreachable:
		return in.silent(healthWithoutNode(r), r.NodeSince)
	}
	if r.Phase == Running && r.Readiness == Unknown {
		return in.silent(Starting, r.ReadinessSince)
	}
	return in.healthOnNode(r)
}

// silent judges a replica of which nothing has been heard since a time.
func (in Input) silent(h Health, since time.Time) (Health, time.Duration) {
	if in.Blackout {
		return h, 0
	}
	if left := left(in.Now, since, in.NodeGrace); left > 0 {
		return h, left
	}
	return Lost, 0
}

// healthWithoutNode is what to think of a replica while its node may come back: what its pod says about being ready is outdated.
func healthWithoutNode(r Replica) Health {
	switch r.Phase {
	case Finished:
		return Ended
	case Pending:
		return Waiting
	default:
		return Starting
	}
}

func (in Input) healthOnNode(r Replica) (h Health, change time.Duration) {
	if r.Phase == Finished {
		return Ended, 0
	}
	if r.Phase == Pending {
		return Waiting, 0
	}
	switch r.Readiness {
	case Ready:
		if left := left(in.Now, r.ReadinessSince, in.MinReady); left > 0 {
			return Young, left
		}
		return Available, 0
	default:
		if left := left(in.Now, r.ReadinessSince, in.patience()); left > 0 {
			return Starting, left
		}
		return Unhealthy, 0
	}
}

// left is how much of a span that began at a time is left; not positive when none is.
func left(now, since time.Time, span time.Duration) time.Duration { return since.Add(span).Sub(now) }

// soonest of two spans of which zero means never.
func soonest(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
