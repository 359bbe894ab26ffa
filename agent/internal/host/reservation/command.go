package reservation

import (
	"encoding/binary"

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
	preemptAction      = 0x04
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
	// maskValid says that REPORT CAPABILITIES tells the types; allRegistrants is the bit of type 7 among them.
	maskValid      = 0x80
	allRegistrants = 0x80
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
		c.cdb[2] = sharedlun.WriteExclusiveAllRegistrants
	}
	binary.BigEndian.PutUint32(c.cdb[5:], listBytes)
	binary.BigEndian.PutUint64(c.list, key)
	binary.BigEndian.PutUint64(c.list[8:], next)
	if persist {
		c.list[20] = persistFlag
	}
	return c
}
