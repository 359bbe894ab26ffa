// Package volume decides what a volume of local storage is to be and where: it reads the parameters of a StorageClass and what a
// volume must be capable of, chooses hosts and sizes, counts capacity, and says what is wrong with a volume.
package volume

import "fmt"

// Kind says what the one who asked can do about a refusal.
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
	// Unavailable: it cannot be said yet; repeat the request.
	Unavailable
)

// Refusal is why a request is not fulfilled.
type Refusal struct {
	Kind Kind
	// Message is for a person.
	Message string
}

// Error returns the message.
func (r *Refusal) Error() string { return r.Message }

func refuse(k Kind, format string, args ...any) *Refusal {
	return &Refusal{Kind: k, Message: fmt.Sprintf(format, args...)}
}
