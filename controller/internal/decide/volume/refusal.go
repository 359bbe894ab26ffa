// Package volume holds what the decisions about volumes share, whatever the storage: why a request is refused, what a volume must be
// capable of, the size and the place that are wanted, and the claim that it is for. It knows no storage type.
package volume

import (
	"errors"
	"fmt"
)

// ErrNotOurs means that a text is no handle of the driver that was asked: no volume of the driver ever had it.
var ErrNotOurs = errors.New("not a volume of this driver")

// Kind says what the caller can do about a refusal.
type Kind int

// Kinds of refusals. The zero value is no kind.
const (
	// Invalid: the request itself is wrong.
	Invalid Kind = iota + 1
	// OutOfRange: no size fits the request.
	OutOfRange
	// NotFound: what the request is about does not exist.
	NotFound
	// Conflict: the name is taken by something else.
	Conflict
	// Exhausted: there is no room on the hosts that were allowed; choose others.
	Exhausted
	// Precondition: something has to change first.
	Precondition
	// Unavailable: the answer is not known yet; repeat the request.
	Unavailable
	// Unfinished: the work goes on when the request is repeated; the message says how far it is.
	Unfinished
)

// Refusal is why a request is not fulfilled.
type Refusal struct {
	Kind Kind
	// Message is for a person.
	Message string
}

// Error returns the message.
func (r *Refusal) Error() string { return r.Message }

// Refuse makes a refusal.
func Refuse(k Kind, format string, args ...any) *Refusal {
	return &Refusal{Kind: k, Message: fmt.Sprintf(format, args...)}
}

// Quote makes text from a request fit for a message.
func Quote(s string) string {
	const limit = 64
	if len(s) > limit {
		return fmt.Sprintf("%q…", s[:limit])
	}
	return fmt.Sprintf("%q", s)
}
