// Package reservation speaks SCSI-3 persistent reservations with the target behind one path to a LUN: it registers a key, proves that it is
// registered, reserves, preempts, and reads what the target keeps; and it asks the target which LUN it is. It sends its own commands (SG_IO), so that it sees the target's reason of a refusal
// on every kernel. It does not know which key is granted to whom, nor which paths belong together.
package reservation

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"quarry.storage/quarry/pkg/sharedlun"
)

// Kinds of failures, for errors.Is, beside sharedlun.ErrNoReservations.
var (
	// ErrConflict is RESERVATION CONFLICT: the key of this path is another one than the command says, or somebody else holds the reservation.
	ErrConflict = errors.New("reservation conflict")
	// ErrPath means that the command did not reach the target, or its answer did not come back. It may have had its effect.
	ErrPath = errors.New("the path does not answer")
)

// Tool works on the paths of one host.
type Tool struct {
	send func(device string, c command) (reply, error)
}

// New makes a Tool for this machine.
func New() *Tool { return &Tool{send: sgio} }

// retries is how often a command is sent again that the target did not carry out, but told of an earlier event instead.
const retries = 8

// do sends a command until the target carries it out. It returns only when the kernel has let the command go: what is still on its way
// must not be taken for not done.
func (t *Tool) do(ctx context.Context, device string, c command) ([]byte, error) {
	for range retries {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("%s of %s: %w", c.name, device, err)
		}
		r, err := t.send(device, c)
		if err == nil {
			err = r.err()
		}
		if errors.Is(err, errAttention) {
			continue
		}
		if errors.Is(err, errUnsupported) {
			kind := sharedlun.ErrRefused
			if c.cdb[0] == opIn || c.cdb[0] == opOut {
				kind = sharedlun.ErrNoReservations
			}
			err = fmt.Errorf("%w: %w", kind, err)
		}
		if err != nil {
			return nil, fmt.Errorf("%s of %s: %w", c.name, device, err)
		}
		return r.data, nil
	}
	return nil, fmt.Errorf("%s of %s: %w: it tells of new events %d times in a row", c.name, device, ErrPath, retries)
}

// Read reads the keys and the reservation. A target without reservations is an answer. The device is the path of a device node.
func (t *Tool) Read(ctx context.Context, device string) (sharedlun.Reservation, error) {
	var out sharedlun.Reservation
	for range retries {
		keys, err := t.keys(ctx, device)
		if errors.Is(err, sharedlun.ErrNoReservations) {
			return sharedlun.Reservation{}, nil
		}
		if err != nil {
			return sharedlun.Reservation{}, err
		}
		data, err := t.do(ctx, device, readReservation())
		if err != nil {
			return sharedlun.Reservation{}, err
		}
		out, err = parse(keys, data)
		if !errors.Is(err, errMoved) {
			return out, err
		}
	}
	return sharedlun.Reservation{}, fmt.Errorf("reservation of %s: it changes all the time: %w", device, sharedlun.ErrUnknown)
}

// keys reads the list of keys, however long it is.
func (t *Tool) keys(ctx context.Context, device string) ([]byte, error) {
	size := firstKeyBytes
	for {
		data, err := t.do(ctx, device, readKeys(size))
		if err != nil {
			return nil, err
		}
		if len(data) < headerBytes {
			return nil, fmt.Errorf("keys of %s: %d bytes: %w", device, len(data), sharedlun.ErrUnknown)
		}
		whole := headerBytes + int(binary.BigEndian.Uint32(data[4:]))
		if whole <= len(data) {
			return data[:whole], nil
		}
		if size == maxKeyBytes {
			return nil, fmt.Errorf("keys of %s: the list has %d bytes: %w", device, whole, sharedlun.ErrUnknown)
		}
		size = maxKeyBytes
	}
}

// Confirm proves that the path has the key registered: it registers the key over itself. ErrConflict means that it has another key, or none.
func (t *Tool) Confirm(ctx context.Context, device string, key uint64) error {
	return t.register(ctx, device, key, key)
}

// Register registers the key on one path, in place of the old key of an earlier boot (0: of none). ErrConflict means that a third key
// is registered there. The target is asked to keep it over a loss of its power, where it can.
func (t *Tool) Register(ctx context.Context, device string, key, old uint64) error {
	if key == 0 {
		return fmt.Errorf("register on %s: key 0: %w", device, sharedlun.ErrInvalid)
	}
	for _, was := range slices.Compact([]uint64{key, old, 0}) {
		err := t.register(ctx, device, was, key)
		if !errors.Is(err, ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("register on %s: the path has another key: %w", device, ErrConflict)
}

// register replaces a key by another one: 0 stands for none.
func (t *Tool) register(ctx context.Context, device string, was, key uint64) error {
	persist, err := t.persists(ctx, device)
	if err != nil {
		return err
	}
	_, err = t.do(ctx, device, out(registerAction, "register", was, key, persist))
	return err
}

// persists reports whether the target can keep registrations over a loss of its power (SPC-4, REPORT CAPABILITIES, PTPL_C).
func (t *Tool) persists(ctx context.Context, device string) (bool, error) {
	data, err := t.do(ctx, device, reportCapabilities())
	if errors.Is(err, sharedlun.ErrNoReservations) {
		// A target of before SPC-3 has no such report. One without any reservations refuses what follows.
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return len(data) >= headerBytes && data[2]&1 != 0, nil
}

// Unregister takes the key off one path. A path that has another key, or none, needs no work.
func (t *Tool) Unregister(ctx context.Context, device string, key uint64) error {
	_, err := t.do(ctx, device, out(registerAction, "unregister", key, 0, false))
	if errors.Is(err, ErrConflict) {
		return nil
	}
	return err
}

// Reserve reserves the LUN for all that are registered, as type sharedlun.WriteExclusiveRegistrantsOnly. ErrConflict means that the path has
// not the key, or somebody else holds a reservation.
func (t *Tool) Reserve(ctx context.Context, device string, key uint64) error {
	_, err := t.do(ctx, device, out(reserveAction, "reserve", key, 0, false))
	return err
}

// Preempt takes the victim's key off all its paths, and aborts the commands that the target has of them. ErrConflict means that the path has not
// the key, or that nobody has the victim's.
func (t *Tool) Preempt(ctx context.Context, device string, key, victim uint64) error {
	if victim == 0 || victim == key {
		return fmt.Errorf("preempt %#x with %#x on %s: %w", victim, key, device, sharedlun.ErrInvalid)
	}
	_, err := t.do(ctx, device, out(preemptAbortAction, "preempt", key, victim, false))
	return err
}
