// Package handover decides how the agents of the namespace that they were in before hand their nodes over to those of the namespace that they
// are in now. On each node the earlier agent ends first: the pod of the later one is scheduled there only when that is gone. It is needed until
// test/upgrade/base names a commit after decision 0037.
package handover

import "fmt"

// State is what is there of both.
type State struct {
	// Earlier is the DaemonSet of before; nil when there is none.
	Earlier *Earlier
	// Later is the DaemonSet of now; nil when there is none.
	Later *Later
	// Pods are those of the earlier agents.
	Pods []Pod
}

// Earlier is the DaemonSet that makes earlier agents.
type Earlier struct {
	// Leaving reports whether it is being deleted.
	Leaving bool
}

// Later is the DaemonSet that makes later agents.
type Later struct {
	// Observed reports whether the other fields were counted for its present spec.
	Observed bool
	// Wanted is the number of nodes that are to have an agent, Ready the number of those whose agent is ready.
	Wanted, Ready int
	// MaxUnavailable is how many nodes may be without an agent that is ready.
	MaxUnavailable int
}

// Pod is that of an earlier agent.
type Pod struct {
	// Name of the pod, and whether it is Ready, and whether it is being deleted.
	Name           string
	Ready, Leaving bool
}

// Step is what to do now. Each is safe to repeat, and to leave undone for long.
type Step struct {
	// Disown asks to delete the earlier DaemonSet and to leave its pods running: so it makes no others.
	Disown bool
	// Delete names the pods to delete.
	Delete []string
	// Done reports whether nothing is left of the earlier agents.
	Done bool
	// Why nothing is done; what is waited for.
	Why string
}

// Next returns the next step.
func Next(s State) Step {
	switch {
	case s.Earlier == nil && len(s.Pods) == 0:
		return Step{Done: true}
	// Without others these stay: volumes would be neither mounted nor unmounted.
	case s.Later == nil:
		return Step{Why: "the DaemonSet of the agents is not there: apply all of deploy/base"}
	case !s.Later.Observed || s.Later.Wanted == 0:
		return Step{Why: "the DaemonSet of the agents wants to run on no node yet"}
	case s.Earlier != nil && !s.Earlier.Leaving:
		return Step{Disown: true}
	case s.Earlier != nil:
		return Step{Why: "the earlier DaemonSet is being deleted"}
	}
	return turns(s.Later, s.Pods)
}

// turns takes the agents that serve nobody at once, and of the others as many as nodes may be without one.
func turns(later *Later, pods []Pod) Step {
	var idle, serving []string
	leaving := 0
	for _, p := range pods {
		switch {
		case p.Leaving:
			leaving++
		case p.Ready:
			serving = append(serving, p.Name)
		default:
			idle = append(idle, p.Name)
		}
	}
	// A node whose agent has just gone counts as without one until the next is ready.
	without := max(0, later.Wanted-later.Ready-len(serving))
	free := min(max(0, max(1, later.MaxUnavailable)-without), len(serving))
	out := Step{Delete: append(idle, serving[:free]...)}
	if len(out.Delete) == 0 {
		out.Why = fmt.Sprintf("%d of %d nodes have an agent that is ready, %d earlier agents are ending and %d go on meanwhile",
			later.Ready+len(serving), later.Wanted, leaving, len(serving))
	}
	return out
}
