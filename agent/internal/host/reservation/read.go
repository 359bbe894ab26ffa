package reservation

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"quarry.storage/quarry/pkg/sharedlun"
)

// Read reads the keys and the reservation. A target without reservations is an answer, and so is one whose reservations have one holder each: it can keep
// nobody out for longer than that one is registered. The device is the path of a device node.
func (t *Tool) Read(ctx context.Context, device string) (sharedlun.Reservation, error) {
	for range retries {
		keys, err := t.list(ctx, device)
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
		out, err := parse(keys, data)
		switch {
		case errors.Is(err, errMoved):
			continue
		case err != nil, out.Type == sharedlun.WriteExclusiveAllRegistrants:
			return out, err
		}
		can, err := t.capabilities(ctx, device)
		if err != nil || can.oneHolder {
			return sharedlun.Reservation{}, err
		}
		return out, nil
	}
	return sharedlun.Reservation{}, fmt.Errorf("reservation of %s: it changes all the time: %w", device, sharedlun.ErrUnread)
}

// Registrations counts the paths, of whichever node, that have a key. A target that lists each key once says 1.
func (t *Tool) Registrations(ctx context.Context, device string, key uint64) (int, error) {
	data, err := t.list(ctx, device)
	if err != nil {
		return 0, err
	}
	all, err := everyKey(data)
	count := 0
	for _, k := range all {
		if k == key {
			count++
		}
	}
	return count, err
}

// list reads the list of keys, however long it is.
func (t *Tool) list(ctx context.Context, device string) ([]byte, error) {
	size := firstKeyBytes
	for {
		data, err := t.do(ctx, device, readKeys(size))
		if err != nil {
			return nil, err
		}
		if len(data) < headerBytes {
			return nil, fmt.Errorf("keys of %s: %d bytes: %w", device, len(data), sharedlun.ErrUnread)
		}
		whole := headerBytes + int(binary.BigEndian.Uint32(data[4:]))
		if whole <= len(data) {
			return data[:whole], nil
		}
		if size == maxKeyBytes {
			return nil, fmt.Errorf("keys of %s: the list has %d bytes: %w", device, whole, sharedlun.ErrUnread)
		}
		size = maxKeyBytes
	}
}

// errMoved means that the two answers are of different generations.
var errMoved = errors.New("the registrations changed meanwhile")

// parseKeys reads the answer of READ KEYS: the keys, ordered, each once.
func parseKeys(data []byte) ([]uint64, error) {
	out, err := everyKey(data)
	slices.Sort(out)
	return slices.Compact(out), err
}

// everyKey reads it with a key for each path.
func everyKey(data []byte) ([]uint64, error) {
	if len(data) < headerBytes || len(data)%8 != 0 {
		return nil, fmt.Errorf("keys of %d bytes: %w", len(data), sharedlun.ErrUnread)
	}
	var out []uint64
	for at := headerBytes; at < len(data); at += 8 {
		out = append(out, binary.BigEndian.Uint64(data[at:]))
	}
	return out, nil
}

// parse reads the answers of READ KEYS and READ RESERVATION.
func parse(keys, reservation []byte) (sharedlun.Reservation, error) {
	all, err := parseKeys(keys)
	if err != nil {
		return sharedlun.Reservation{}, err
	}
	if len(reservation) < headerBytes {
		return sharedlun.Reservation{}, fmt.Errorf("a reservation of %d bytes: %w", len(reservation), sharedlun.ErrUnread)
	}
	out := sharedlun.Reservation{Supported: true, Keys: all}
	// The target counts registrations: one came between the two answers.
	if binary.BigEndian.Uint32(reservation) != binary.BigEndian.Uint32(keys) {
		return sharedlun.Reservation{}, errMoved
	}
	switch n := binary.BigEndian.Uint32(reservation[4:]); {
	case n == 0:
	case n != descriptorBytes || len(reservation) < headerBytes+descriptorBytes:
		return sharedlun.Reservation{}, fmt.Errorf("a reservation of %d bytes: %w", n, sharedlun.ErrUnread)
	default:
		out.Type = uint32(reservation[21] & typeBits)
		if out.Type != sharedlun.WriteExclusiveAllRegistrants {
			// Of what all hold, targets name none, or any.
			out.Holder = binary.BigEndian.Uint64(reservation[8:])
		}
	}
	return out, nil
}

// capabilities are what a target can do (SPC-4, REPORT CAPABILITIES).
type capabilities struct {
	// persist: it can keep registrations over a loss of its power (PTPL_C).
	persist bool
	// oneHolder: it says that it has no reservation that all registrants hold (TMV, and WR_EX_AR is not set).
	oneHolder bool
}

func (t *Tool) capabilities(ctx context.Context, device string) (capabilities, error) {
	data, err := t.do(ctx, device, reportCapabilities())
	if errors.Is(err, sharedlun.ErrNoReservations) || errors.Is(err, errNoField) {
		// A target of before SPC-3 has no such report. One without any reservations refuses what follows.
		return capabilities{}, nil
	}
	if err != nil || len(data) < headerBytes {
		return capabilities{}, err
	}
	return capabilities{persist: data[2]&1 != 0, oneHolder: data[3]&maskValid != 0 && data[4]&allRegistrants == 0}, nil
}
