package backendtest

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Actions of steps that no real backend has.
const (
	// ActionMove moves the volumes of a host to another one.
	ActionMove = "MoveVolumes"
	// ActionShare changes what belongs to no host.
	ActionShare = "ChangeShare"
)

// Step is one change of the model.
type Step struct {
	// Owner is the UID of the storage.
	Owner types.UID
	// On is the host; empty for a step of the whole, which runs on the host Through.
	On, Through string
	// Does is the action, What what it is done to.
	Does, What string
	// Dirty is true for a step that destroys what somebody else wrote.
	Dirty bool
	// NotYet is true for a step that cannot run yet.
	NotYet bool
	// For is what the step guards; empty for one that guards nothing.
	For string
	// Why is the reason that is shown.
	Why string
}

// Host returns the host that the step happens on.
func (s Step) Host() string { return s.On }

// Via returns the host that a step of the whole runs on.
func (s Step) Via() string { return s.Through }

// Action returns what the step does.
func (s Step) Action() string { return s.Does }

// Destroys reports whether the step destroys what somebody else wrote.
func (s Step) Destroys() bool { return s.Dirty }

// Vouches implements backend.Step.
func (s Step) Vouches() bool { return false }

// Later reports whether the step cannot run yet.
func (s Step) Later() bool { return s.NotYet }

// Guards names what the step guards.
func (s Step) Guards() string { return s.For }

// Digest identifies the step. When it becomes possible it still is the same step.
func (s Step) Digest() string {
	return backend.Digest([]string{string(s.Owner), s.On, s.Through, s.Does, s.What})
}

// API returns the step as it is shown.
func (s Step) API() v1alpha1.PlanStep {
	why := s.Why
	if why == "" {
		why = "The test wants " + s.What + "."
	}
	out := v1alpha1.PlanStep{Host: s.On, Action: s.Does, Later: s.NotYet, Reason: why, Digest: s.Digest()}
	if s.Dirty {
		out.Devices = []string{s.What}
	}
	return out
}

// String describes the step as the log does.
func (s Step) String() string {
	where := s.On
	if where == "" {
		where = "whole via " + s.Through
	}
	return fmt.Sprintf("%s: %s %s", where, s.Does, s.What)
}
