package sharedlun

import (
	"fmt"
	"slices"
)

// WriteExclusiveRegistrantsOnly is the type of the reservation (SPC-4, table 55): whoever has a key registered may write, nobody else.
const WriteExclusiveRegistrantsOnly = 5

// Reservation is what a target keeps of a LUN.
type Reservation struct {
	// Supported is false when the target has no persistent reservations: all else is empty then.
	Supported bool
	// Keys that are registered, ordered, each once.
	Keys []uint64
	// Type of the reservation; 0 when there is none. Holder is the key that holds it.
	Type   uint32
	Holder uint64
	// Generation is the target's counter of registrations and preemptions.
	Generation uint32
}

// Has reports whether a key is registered.
func (r Reservation) Has(key uint64) bool { return slices.Contains(r.Keys, key) }

// Writable refuses to write with a key: it has to be registered, and the LUN has to be reserved, so that nobody else can write.
func (r Reservation) Writable(key uint64) error {
	switch {
	case !r.Supported:
		return ErrNoReservations
	case key == 0 || !r.Has(key):
		return fmt.Errorf("%w (%#x): the node was fenced, or the target lost its reservations", ErrNoKey, key)
	case r.Type == 0:
		return fmt.Errorf("%w: nobody holds the reservation", ErrNoKey)
	case r.Type != WriteExclusiveRegistrantsOnly:
		return fmt.Errorf("%w: the LUN is reserved with type %d by %#x, which is not ours", ErrNoKey, r.Type, r.Holder)
	}
	return nil
}
