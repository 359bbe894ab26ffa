// Package nodestate computes the state of a member, a node that holds a part of the data of some backend, from four flags.
// It is the same machine for every backend; what differs is only who reports the flags and what follows from a state. The
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

import (
	"errors"
	"fmt"
	"slices"
)

// State is one of the five states of a member.
type State string

// States.
const (
	// Online serves and takes new volumes.
	Online State = "online"
	// Offline is unreachable.
	Offline State = "offline"
	// Quiesced is under maintenance: never declared failed, takes no new volumes.
	Quiesced State = "quiesced"
	// Failed is to be destroyed and still holds data: nothing on it is deleted.
	Failed State = "failed"
	// Abandoned is to be destroyed and holds no data: it may be torn down.
	Abandoned State = "abandoned"
)

// Flags are what the state is computed from. IsUp and HasData are observed; ShouldQuiesce and ShouldDestroy are wished for.
type Flags struct {
	IsUp, HasData, ShouldQuiesce, ShouldDestroy bool
}

// Compute returns the state that the flags stand for.
func Compute(f Flags) State {
	switch {
	case f.ShouldDestroy && f.HasData:
		return Failed
	case f.ShouldDestroy:
		return Abandoned
	case f.ShouldQuiesce:
		return Quiesced
	case f.IsUp:
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

// Writer is who changes flags.
type Writer int

// Writers.
const (
	// Operator is who turns wishes into flags: ShouldQuiesce and ShouldDestroy.
	Operator Writer = iota + 1
	// Observer is who looks at the member: IsUp and HasData. It may also declare that a member should be destroyed.
	Observer
)

// Errors of Write.
var (
	// ErrLatched means that ShouldDestroy was to be taken back.
	ErrLatched = errors.New("shouldDestroy never goes back")
	// ErrNotYours means that a writer touched a flag of the other writer.
	ErrNotYours = errors.New("flag belongs to another writer")
)

// Write returns the flags as by wants them. When one change is refused, the old flags are returned with the reason.
func Write(old, want Flags, by Writer) (Flags, error) {
	for _, c := range []struct {
		name    string
		changed bool
		writers []Writer
	}{
		{"isUp", old.IsUp != want.IsUp, []Writer{Observer}},
		{"hasData", old.HasData != want.HasData, []Writer{Observer}},
		{"shouldQuiesce", old.ShouldQuiesce != want.ShouldQuiesce, []Writer{Operator}},
		{"shouldDestroy", old.ShouldDestroy != want.ShouldDestroy, []Writer{Operator, Observer}},
	} {
		if c.changed && !slices.Contains(c.writers, by) {
			return old, fmt.Errorf("write %s: %w", c.name, ErrNotYours)
		}
	}
	if _, err := Latch(old.ShouldDestroy, want.ShouldDestroy); err != nil {
		return old, err
	}
	return want, nil
}

// Latch returns the next value of ShouldDestroy. Once true it stays true: taking it back is refused.
func Latch(old, want bool) (bool, error) {
	if old && !want {
		return old, ErrLatched
	}
	return want, nil
}
