package backend

import (
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// World is what the API server says about everything that matters to one storage.
type World struct {
	// Nodes by name: those of the storage's hosts, existing or not.
	Nodes map[string]Node
	// Members of the storage, ordered by node.
	Members []*v1alpha1.Member
	// Others are the other storages of all kinds, OtherMembers their Members and those of storages that do not exist any more.
	Others       []v1alpha1.Storage
	OtherMembers []*v1alpha1.Member
	// Volumes are the PersistentVolumes of the storage by the node that they live on, ordered by name; those without a node are under "".
	Volumes map[string][]Volume
}

// StepError is why a step failed.
type StepError struct {
	// Reason of a condition.
	Reason string
	// Passing is true for an error that the next look takes in: the world moved under the decision, or somebody was busy or went away. It
	// is shown only when it happens again.
	Passing bool
	Err     error
}

// Error returns the message of the error.
func (e *StepError) Error() string { return e.Err.Error() }

// Unwrap returns the error.
func (e *StepError) Unwrap() error { return e.Err }
