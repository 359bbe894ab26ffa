package sharedlun

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Types of a reservation (SPC-4, table 55) by which whoever has a key registered may write, and nobody else.
const (
	// WriteExclusiveAllRegistrants is what we reserve with: every registered key holds it, so that it ends with the last of them only.
	WriteExclusiveAllRegistrants = 7
	// WriteExclusiveRegistrantsOnly is what earlier versions reserved with: one key holds it, and it ends when that one is unregistered. The node that
	// holds it turns it into the other one.
	WriteExclusiveRegistrantsOnly = 5
)

// Reservation is what a target keeps of a LUN.
type Reservation struct {
	// Supported is false when the target has no persistent reservations, or not the type that all registered keys hold: all else is empty then.
	Supported bool
	// Keys that are registered, ordered, each once.
	Keys []uint64
	// Type of the reservation; 0 when there is none. Holder is the key that holds it; 0 when there is none, or when all hold it.
	Type   uint32
	Holder uint64
}

// Grant is the key that a node is to register.
type Grant struct {
	// Key that is granted, for the boot BootID. Old are keys of earlier boots, which are replaced.
	Key    uint64
	Old    []uint64
	BootID string
	// Initiator is the name that this node's initiator has on record, and Others are those that all others have. A target takes two nodes of one name for one.
	Initiator string
	Others    []string
	// Reserve says that a LUN that nobody has reserved is reserved then: whoever has no key is kept from writing from that moment on.
	Reserve bool
	// Own are the UUIDs of the volumes that the LUN says are the node's. As long as nobody has reserved the LUN, a node with no others mapped gets its key.
	Own []string
}

// Check refuses a grant of which a part is not told, or by which a target could not tell nodes apart.
func (g Grant) Check() error {
	switch {
	case g.Key == 0, slices.Contains(g.Old, 0):
		return fmt.Errorf("%w: key 0", ErrInvalid)
	case g.BootID == "":
		return fmt.Errorf("%w: key %s is granted for no boot", ErrInvalid, FormatKey(g.Key))
	case len(g.Initiator) > maxName || !nameOfISCSI.MatchString(g.Initiator):
		return fmt.Errorf("%w: %.250q is no name of an iSCSI initiator", ErrInvalid, g.Initiator)
	case slices.ContainsFunc(g.Others, func(o string) bool { return SameInitiator(g.Initiator, o) }):
		return fmt.Errorf("%w: another node has the name %s, too. Give each node a name of its own (/etc/iscsi/initiatorname.iscsi)", ErrInitiator, g.Initiator)
	}
	return nil
}

// SameInitiator reports whether two names are those of one initiator (RFC 7143, 4.2.7.1: they are compared without regard to case).
func SameInitiator(a, b string) bool { return strings.EqualFold(a, b) }

// Has reports whether a key is registered.
func (r Reservation) Has(key uint64) bool { return slices.Contains(r.Keys, key) }

// Reservable refuses a LUN that cannot be reserved for all that are registered.
func (r Reservation) Reservable() error {
	switch {
	case !r.Supported:
		return ErrNoReservations
	case r.Type != 0 && r.Type != WriteExclusiveAllRegistrants && r.Type != WriteExclusiveRegistrantsOnly:
		return fmt.Errorf("%w: it is reserved with type %d by %s, which is not ours", ErrNotReserved, r.Type, FormatKey(r.Holder))
	}
	return nil
}

// Guarded refuses a LUN that anybody can write to who is not registered.
func (r Reservation) Guarded() error {
	if err := r.Reservable(); err != nil {
		return err
	}
	if r.Type == 0 {
		return fmt.Errorf("%w: nobody holds the reservation", ErrNotReserved)
	}
	return nil
}

// Writable refuses to write with a key: it has to be registered, and the LUN has to be reserved, so that nobody else can write.
func (r Reservation) Writable(key uint64) error {
	if r.Supported && (key == 0 || !r.Has(key)) {
		return fmt.Errorf("%w (%s): the node was fenced, or the target lost its reservations", ErrNoKey, FormatKey(key))
	}
	return r.Guarded()
}

// Held reports whether anybody has reserved the LUN, with whatever type. Guarded says whether that keeps others out.
func (r Reservation) Held() bool { return r.Supported && r.Type != 0 }

// ParseKey reads a key as a Member has it; 0 for an empty text, which is no key.
func ParseKey(text string) (uint64, error) {
	if text == "" {
		return 0, nil
	}
	key, err := strconv.ParseUint(text, 16, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %.40q is no reservation key", ErrInvalid, text)
	}
	return key, nil
}

// ParseKeys reads several keys. Empty texts are left out.
func ParseKeys(texts ...string) ([]uint64, error) {
	var out []uint64
	for _, text := range texts {
		key, err := ParseKey(text)
		if err != nil {
			return nil, err
		}
		if key != 0 {
			out = append(out, key)
		}
	}
	return out, nil
}

// FormatKey writes a key as a Member has it.
func FormatKey(key uint64) string { return fmt.Sprintf("%016x", key) }
