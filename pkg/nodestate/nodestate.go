// Package nodestate computes the state of a member, a node that holds a part of the data of some backend, from four flags.
// It is the same machine for every backend. Backends differ in who reports the flags and in what follows from a state. The
// package is pure: it knows no clients, no clocks and no backends.
//
// A flag to be destroyed outranks one to be quiesced, which outranks whether the member is up:
//
//	shouldDestroy  hasData   -> failed
//	shouldDestroy  no data   -> abandoned
//	shouldQuiesce            -> quiesced
//	isUp                     -> online
//	otherwise                -> offline
package nodestate

import "errors"

// State is one of the five states of a member.
type State string

// States.
const (
	// Online serves and takes new volumes.
	Online State = "online"
	// Offline is unreachable.
	Offline State = "offline"
	// Quiesced is under maintenance or leaving: it takes no new volumes, and is not declared failed for being away.
	Quiesced State = "quiesced"
	// Failed is to be destroyed and still holds data: nothing on it is deleted.
	Failed State = "failed"
	// Abandoned is to be destroyed and holds no data: it may be torn down.
	Abandoned State = "abandoned"
)

// Flags are what the state is computed from. Each writer has a method of its own: an observer cannot write wishes, the operator cannot
// write observations, and nobody takes ShouldDestroy back.
type Flags struct {
	isUp, hasData, shouldQuiesce, shouldDestroy bool
}

// Of returns flags as they were recorded.
func Of(isUp, hasData, shouldQuiesce, shouldDestroy bool) Flags {
	return Flags{isUp, hasData, shouldQuiesce, shouldDestroy}
}

// IsUp reports whether the member is reachable. Observed.
func (f Flags) IsUp() bool { return f.isUp }

// HasData reports whether the member holds data, or whether that is not known. Observed.
func (f Flags) HasData() bool { return f.hasData }

// ShouldQuiesce reports whether somebody asked for maintenance, or the member is leaving.
func (f Flags) ShouldQuiesce() bool { return f.shouldQuiesce }

// ShouldDestroy reports whether the member is to be destroyed. It never goes back.
func (f Flags) ShouldDestroy() bool { return f.shouldDestroy }

// ErrLatched means that ShouldDestroy was to be taken back.
var ErrLatched = errors.New("shouldDestroy never goes back")

// Observe returns the flags with what an observer saw.
func (f Flags) Observe(isUp bool, data Data) Flags {
	f.isUp, f.hasData = isUp, data.Counts()
	return f
}

// Wish returns the flags as the operator wants them. Taking ShouldDestroy back is refused: then the flags stay as they were.
func (f Flags) Wish(shouldQuiesce, shouldDestroy bool) (Flags, error) {
	if f.shouldDestroy && !shouldDestroy {
		return f, ErrLatched
	}
	f.shouldQuiesce, f.shouldDestroy = shouldQuiesce, shouldDestroy
	return f, nil
}

// Condemn returns the flags with ShouldDestroy set. Every writer may do that.
func (f Flags) Condemn() Flags {
	f.shouldDestroy = true
	return f
}

// Compute returns the state that the flags stand for.
func Compute(f Flags) State {
	switch {
	case f.shouldDestroy && f.hasData:
		return Failed
	case f.shouldDestroy:
		return Abandoned
	case f.shouldQuiesce:
		return Quiesced
	case f.isUp:
		return Online
	default:
		return Offline
	}
}

// Data is what is known about the data of a member. The zero value is that nothing is known.
type Data int

// What may be known about data.
const (
	DataUnknown Data = iota
	DataPresent
	DataAbsent
)

// Counts returns the value of the flag HasData: data that nobody could look for counts as present.
func (d Data) Counts() bool { return d != DataAbsent }
