package backend

import "quarry.storage/quarry/pkg/nodestate"

// Facts are what the member machine is fed about one host, whatever the backend.
type Facts struct {
	// Up is true while the host answers, and what it reports is current.
	Up bool
	// TooEarly is true while nobody can say: the controller or the agent has just started.
	TooEarly bool
	// Missing is true when nothing of ours runs on the host.
	Missing bool
	// Data is what the host itself reports about data on it. Volumes of the API server count besides.
	Data nodestate.Data
	// Recorded is true while the host reports what the record of its member names. A word that it is lost does not count then.
	Recorded bool
	// Reason and Problem say why the host is not up; empty when it is.
	Reason, Problem string
	// Holding names what of the storage is on the host, ordered.
	Holding []string
}

// Kind sorts findings.
type Kind int

// Kinds of findings, from good to bad.
const (
	// Well: nothing to say, or nothing that anybody must act on.
	Well Kind = iota
	// Busy: work is under way.
	Busy
	// Waiting: somebody must approve.
	Waiting
	// Bad: something is wrong with the host.
	Bad
)

// Finding is what there is to say about a host.
type Finding struct {
	Kind Kind
	// Reason of a condition.
	Reason string
	// Message for a person; may be set when all is well.
	Message string
}

// IsZero reports whether there is nothing to say.
func (f Finding) IsZero() bool { return f == Finding{} }
