package backend

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

// Phase sums up for a person. Nothing may read it back.
func (s Summary) Phase() v1alpha1.Phase {
	members, worst := s.Profile.Members != nil, s.worst()
	serves := s.Whole.inService() || s.Class.Exists && !members
	switch {
	case s.Deleting:
		return v1alpha1.PhaseDeleting
	case s.Whole.Failing,
		s.Class.Conflict != "",
		s.Class.Failed != "" && !s.Class.Exists,
		worst == Bad && !serves && !s.moving(),
		s.has(metav1.ConditionFalse) && !s.Class.Exists && !members:
		return v1alpha1.PhaseFailed
	case worst >= Waiting && serves, s.Class.Exists && (s.has(metav1.ConditionFalse) || s.has(metav1.ConditionUnknown)):
		return v1alpha1.PhaseWarning
	case !s.Class.Exists:
		return v1alpha1.PhaseCreating
	}
	return s.served(worst)
}

// inService reports whether volumes can be made, or could when that was known last.
func (w Whole) inService() bool { return w.Serves || w.Served }

// served returns the phase of a storage that has its StorageClass and no host that is bad.
func (s Summary) served(worst Kind) v1alpha1.Phase {
	switch {
	case s.Driver.Failed != "" || s.warned():
		return v1alpha1.PhaseWarning
	case !s.Driver.Ready:
		return v1alpha1.PhaseCreating
	case worst != Well:
		return v1alpha1.PhaseUpdating
	}
	return v1alpha1.PhaseRunning
}

// worst returns the worst finding of a host that is not gone.
func (s Summary) worst() Kind {
	worst := Well
	if s.NoHost != "" {
		worst = Bad
	}
	for _, h := range s.Hosts {
		if !h.Removed {
			worst = max(worst, h.Finding().Kind)
		}
	}
	return worst
}

// has reports whether a fact of the whole has a status. While one is unknown, as until the agents have connected, nothing has failed yet.
func (s Summary) has(status metav1.ConditionStatus) bool {
	for _, c := range s.Whole.Facts {
		if c.Status == status {
			return true
		}
	}
	return false
}

// moving reports whether any host is being worked on, or waits for a person.
func (s Summary) moving() bool {
	for _, h := range s.Hosts {
		if k := h.Finding().Kind; !h.Removed && (k == Busy || k == Waiting) {
			return true
		}
	}
	return false
}

// warned reports whether something is wrong that does not keep volumes from being served.
func (s Summary) warned() bool {
	if len(s.Unknown) > 0 || len(s.Whole.Notes) > 0 || s.Failure != "" || s.Trouble != "" || s.Class.Failed != "" {
		return true
	}
	for _, c := range s.Whole.Warnings {
		if c.Status == metav1.ConditionFalse {
			return true
		}
	}
	return false
}

// Message says what there is to say about the storage and its hosts, one line each.
func (s Summary) Message() string {
	var lines []string
	for _, line := range []string{s.Blocked, s.Failure, s.Class.Conflict, s.Class.Failed, s.Trouble, s.NoHost, s.unknown()} {
		if line != "" {
			lines = append(lines, line)
		}
	}
	lines = append(lines, s.Whole.Notes...)
	// What is wrong comes before the plan that may end it.
	lines = append(lines, s.found(func(k Kind) bool { return k == Bad })...)
	if s.Plan != nil && !s.Plan.Approved {
		lines = append(lines, s.planApproved().Message)
	}
	if s.Driver.Failed != "" && !s.Deleting {
		lines = append(lines, s.Driver.Failed)
	}
	for _, c := range slices.Concat(s.Whole.Facts, s.Whole.Warnings, s.Whole.Risks) {
		if c.Status != metav1.ConditionTrue {
			lines = append(lines, c.Message)
		}
	}
	return Text(append(lines, s.found(func(k Kind) bool { return k != Bad })...))
}

// found are the findings of the hosts of some kinds, each with its host.
func (s Summary) found(of func(Kind) bool) []string {
	var lines []string
	for _, h := range s.Hosts {
		if f := h.Finding(); f.Message != "" && !h.Removed && of(f.Kind) {
			lines = append(lines, h.Node+": "+f.Message)
		}
	}
	return lines
}

// Problems returns the first problems of members.
func (s Summary) Problems() []v1alpha1.Problem {
	var out []v1alpha1.Problem
	for _, h := range s.Hosts {
		f := h.Finding()
		if f.Kind != Bad || h.Removed {
			continue
		}
		if out = append(out, v1alpha1.Problem{Node: h.Node, Reason: f.Reason, Message: Cut(f.Message, 256)}); len(out) == v1alpha1.MaxProblems {
			break
		}
	}
	return out
}

// States counts the members by state; nil for a backend without members.
func (s Summary) States() *v1alpha1.MemberStates {
	if s.Profile.Members == nil {
		return nil
	}
	out := &v1alpha1.MemberStates{}
	for _, h := range s.Hosts {
		if h.Object == nil || h.Removed {
			continue
		}
		if h.Leaving.Active {
			out.Leaving++
		}
		switch h.State {
		case nodestate.Online:
			out.Online++
		case nodestate.Offline:
			out.Offline++
		case nodestate.Quiesced:
			out.Quiesced++
		case nodestate.Failed:
			out.Failed++
		case nodestate.Abandoned:
			out.Abandoned++
		}
	}
	return out
}

// Capacity returns the sum over the members that report, or what the backend says about the whole.
func (s Summary) Capacity() v1alpha1.Space {
	if s.Whole.Capacity != nil {
		return *s.Whole.Capacity
	}
	var size, free int64
	for _, h := range s.Hosts {
		if h.Decided.Reports && !h.Removed {
			size, free = size+h.Decided.Size, free+h.Decided.Free
		}
	}
	return SpaceOf(size, free)
}

// SpaceOf returns a size and what of it is free. Free is rounded down to a whole percent, and is 0 only when nothing is free: so it does
// not change with every write, and never promises too much. It is a whole number of MiB where it can be one, for a person to read.
func SpaceOf(size, free int64) v1alpha1.Space {
	const mib = 1 << 20
	if percent := size / 100; percent > 0 && free < size && free >= percent {
		free = free / percent * percent
		if free > mib {
			free = free / mib * mib
		}
	}
	return MeasuredSpace(size, size-free, free)
}

// MeasuredSpace returns a size, and what of it is used and free, as somebody measured them. What is neither used nor free is kept back, as ext4 does for root.
func MeasuredSpace(size, used, free int64) v1alpha1.Space {
	return v1alpha1.Space{Total: quantity(size), Used: quantity(used), Free: quantity(free)}
}

func quantity(n int64) *resource.Quantity { return resource.NewQuantity(n, resource.BinarySI) }
