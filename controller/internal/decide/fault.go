package decide

import "fmt"

// FaultKind says what the caller of an agent can do about an error.
type FaultKind int

// Kinds of faults. The zero value is an error nobody expected.
const (
	// FaultInternal: the agent could not do it; retry with backoff and show the message.
	FaultInternal FaultKind = iota
	// FaultInvalid: the request itself is wrong.
	FaultInvalid
	// FaultNotFound: a device is not there now: observe and decide again.
	FaultNotFound
	// FaultConflict: the name of the group is taken by another owner.
	FaultConflict
	// FaultPrecondition: the world is another than the decision was made on, or data is in the way.
	FaultPrecondition
	// FaultDenied: a group or device belongs to another owner, or the certificate was not accepted.
	FaultDenied
	// FaultBusy: another call works on the same thing; retry.
	FaultBusy
	// FaultUnavailable: the agent does not answer; retry with backoff.
	FaultUnavailable
	// FaultNoRoom: there is not enough room; choose another node, or wait for room.
	FaultNoRoom
	// FaultRange: the size is over a limit.
	FaultRange
)

// Fault is the error of a call to an agent.
type Fault struct {
	Kind FaultKind
	// Node and Call say where it happened.
	Node, Call string
	// Reason names why in one CamelCase word, where the agent gives one; empty otherwise.
	Reason string
	// Message of the agent.
	Message string
}

// Error says what went wrong where. Without a node it was asked of none.
func (f *Fault) Error() string {
	if f.Node == "" {
		return f.Call + ": " + f.Message
	}
	return fmt.Sprintf("%s on node %s: %s", f.Call, f.Node, f.Message)
}
