package reservation

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"quarry.storage/quarry/pkg/sharedlun"
)

// Operation codes and service actions (SPC-4, 6.15 and 6.16).
const (
	opIn  = 0x5e
	opOut = 0x5f

	keysAction         = 0x00
	reservationAction  = 0x01
	capabilitiesAction = 0x02

	registerAction     = 0x00
	reserveAction      = 0x01
	preemptAbortAction = 0x05
)

const (
	cdbBytes = 10
	// listBytes is the parameter list of PERSISTENT RESERVE OUT.
	listBytes = 24
	// headerBytes are before the list in every answer.
	headerBytes     = 8
	descriptorBytes = 16
	firstKeyBytes   = 4 << 10
	// maxKeyBytes is the largest even multiple of a key that the command can ask for.
	maxKeyBytes = 0xfff8
	// persistFlag is APTPL: keep the registrations over a loss of power.
	persistFlag = 1
	typeBits    = 0x0f
)

// command is one that is sent to a target.
type command struct {
	name string
	cdb  []byte
	// list goes to the target; room is how much is taken from it.
	list []byte
	room int
}

func in(action byte, name string, room int) command {
	c := command{name: name, room: room, cdb: make([]byte, cdbBytes)}
	c.cdb[0], c.cdb[1] = opIn, action
	binary.BigEndian.PutUint16(c.cdb[7:], uint16(room))
	return c
}

func readKeys(room int) command { return in(keysAction, "read keys", room) }

func readReservation() command {
	return in(reservationAction, "read reservation", headerBytes+descriptorBytes)
}

func reportCapabilities() command { return in(capabilitiesAction, "report capabilities", headerBytes) }

// out makes a PERSISTENT RESERVE OUT. key is the one that the path has, next the one that the service action is about.
func out(action byte, name string, key, next uint64, persist bool) command {
	c := command{name: name, cdb: make([]byte, cdbBytes), list: make([]byte, listBytes)}
	c.cdb[0], c.cdb[1] = opOut, action
	if action != registerAction {
		c.cdb[2] = sharedlun.WriteExclusiveRegistrantsOnly
	}
	binary.BigEndian.PutUint32(c.cdb[5:], listBytes)
	binary.BigEndian.PutUint64(c.list, key)
	binary.BigEndian.PutUint64(c.list[8:], next)
	if persist {
		c.list[20] = persistFlag
	}
	return c
}

// errMoved means that the two answers are of different generations.
var errMoved = errors.New("the registrations changed meanwhile")

// parse reads the answers of READ KEYS and READ RESERVATION.
func parse(keys, reservation []byte) (sharedlun.Reservation, error) {
	if len(keys) < headerBytes || len(keys)%8 != 0 || len(reservation) < headerBytes {
		return sharedlun.Reservation{}, fmt.Errorf("keys of %d bytes and a reservation of %d: %w", len(keys), len(reservation), sharedlun.ErrUnknown)
	}
	out := sharedlun.Reservation{Supported: true, Generation: binary.BigEndian.Uint32(keys)}
	if binary.BigEndian.Uint32(reservation) != out.Generation {
		return sharedlun.Reservation{}, errMoved
	}
	for at := headerBytes; at < len(keys); at += 8 {
		out.Keys = append(out.Keys, binary.BigEndian.Uint64(keys[at:]))
	}
	slices.Sort(out.Keys)
	out.Keys = slices.Compact(out.Keys)
	switch n := binary.BigEndian.Uint32(reservation[4:]); {
	case n == 0:
	case n != descriptorBytes || len(reservation) < headerBytes+descriptorBytes:
		return sharedlun.Reservation{}, fmt.Errorf("a reservation of %d bytes: %w", n, sharedlun.ErrUnknown)
	default:
		out.Holder = binary.BigEndian.Uint64(reservation[8:])
		out.Type = uint32(reservation[21] & typeBits)
	}
	return out, nil
}
