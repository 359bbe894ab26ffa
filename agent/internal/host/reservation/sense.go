package reservation

import (
	"errors"
	"fmt"

	"quarry.storage/quarry/pkg/sharedlun"
)

// Statuses of SAM-5.
const (
	statusGood           = 0x00
	statusCheckCondition = 0x02
	statusBusy           = 0x08
	statusConflict       = 0x18
	statusTaskSetFull    = 0x28
)

// Sense keys and codes of SPC-4.
const (
	keyNotReady       = 0x02
	keyIllegalRequest = 0x05
	keyUnitAttention  = 0x06
	keyAborted        = 0x0b

	codeInvalidOperation = 0x20
	codeInvalidField     = 0x24
)

var (
	// errAttention means that the target told of an event instead of carrying the command out.
	errAttention = errors.New("unit attention")
	// errNoCommand means that the target does not know the command, errNoField that it does not know a part of it.
	errNoCommand = errors.New("the target does not know the command")
	errNoField   = errors.New("the target does not know a part of the command")
)

// reply is what came back of a command.
type reply struct {
	// status is the target's; host and driver are not zero where the kernel has none from it.
	status       byte
	host, driver uint16
	sense        []byte
	data         []byte
}

// driverSense only says that there is sense data.
const driverSense = 0x08

func (r reply) err() error {
	switch {
	case r.host != 0 || r.driver&^driverSense != 0:
		return fmt.Errorf("%w: host status %#x, driver status %#x", ErrPath, r.host, r.driver)
	case r.status == statusGood:
		return nil
	case r.status == statusConflict:
		return ErrConflict
	case r.status == statusBusy || r.status == statusTaskSetFull:
		return fmt.Errorf("%w: the target is busy", ErrPath)
	case r.status != statusCheckCondition:
		return fmt.Errorf("%w: status %#x", ErrPath, r.status)
	}
	return r.refusal()
}

// refusal is what the sense data says.
func (r reply) refusal() error {
	key, code, qualifier, ok := r.parts()
	switch {
	case !ok:
		return fmt.Errorf("%w: it says nothing about its refusal", ErrPath)
	case key == keyUnitAttention:
		return errAttention
	case key == keyNotReady || key == keyAborted:
		return fmt.Errorf("%w: sense %x/%02x/%02x", ErrPath, key, code, qualifier)
	case key == keyIllegalRequest && code == codeInvalidOperation:
		return fmt.Errorf("%w (sense %x/%02x/%02x)", errNoCommand, key, code, qualifier)
	case key == keyIllegalRequest && code == codeInvalidField:
		return fmt.Errorf("%w: %w (sense %x/%02x/%02x)", sharedlun.ErrRefused, errNoField, key, code, qualifier)
	}
	return fmt.Errorf("%w with sense %x/%02x/%02x", sharedlun.ErrRefused, key, code, qualifier)
}

// parts are the sense key, the code and its qualifier, in either format (SPC-4, 4.5).
func (r reply) parts() (key, code, qualifier byte, ok bool) {
	const fixed, descriptor = 0x70, 0x72
	if len(r.sense) < 4 {
		return 0, 0, 0, false
	}
	switch r.sense[0] &^ 0x80 &^ 1 {
	case fixed:
		if len(r.sense) < 14 {
			return r.sense[2] & 0x0f, 0, 0, len(r.sense) > 2
		}
		return r.sense[2] & 0x0f, r.sense[12], r.sense[13], true
	case descriptor:
		return r.sense[1] & 0x0f, r.sense[2], r.sense[3], true
	}
	return 0, 0, 0, false
}
