// Package reservation speaks SCSI-3 persistent reservations with the target behind one path to a LUN: it registers a key, proves that it is
// registered, reserves, preempts, and reads what the target keeps; and it asks the target which LUN it is. It sends its own commands (SG_IO), so that it sees the target's reason of a refusal
// on every kernel. It does not know which key is granted to whom, nor which paths belong together.
package reservation

import (
	"context"
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
		if errors.Is(err, errNoCommand) {
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

// Confirm proves that the path has the key registered: it registers the key over itself. ErrConflict means that it has another key, or none. A command that
// comes late proves nothing, and registers nothing: the target takes it only from a path that has the key.
func (t *Tool) Confirm(ctx context.Context, device string, key uint64) error {
	return t.register(ctx, device, key, key)
}

// Register registers the key on one path, in place of the old keys of earlier boots. ErrConflict means that another key
// is registered there. The target is asked to keep it over a loss of its power, where it can.
func (t *Tool) Register(ctx context.Context, device string, key uint64, old ...uint64) error {
	if key == 0 {
		return fmt.Errorf("register on %s: key 0: %w", device, sharedlun.ErrInvalid)
	}
	for _, was := range slices.Compact(slices.Concat([]uint64{key}, old, []uint64{0})) {
		err := t.register(ctx, device, was, key)
		if !errors.Is(err, ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("register on %s: the path has another key: %w", device, ErrConflict)
}

// register replaces a key by another one: 0 stands for none.
func (t *Tool) register(ctx context.Context, device string, was, key uint64) error {
	can, err := t.capabilities(ctx, device)
	if err != nil {
		return err
	}
	_, err = t.do(ctx, device, out(registerAction, "register", was, key, can.persist))
	return err
}

// Unregister takes the key off one path. A path that has another key, or none, needs no work.
func (t *Tool) Unregister(ctx context.Context, device string, key uint64) error {
	_, err := t.do(ctx, device, out(registerAction, "unregister", key, 0, false))
	if errors.Is(err, ErrConflict) {
		return nil
	}
	return err
}

// Reserve reserves the LUN for all that are registered, as type sharedlun.WriteExclusiveAllRegistrants. ErrConflict means that the path has
// not the key, or that the LUN is reserved with another type. A target without that type is sharedlun.ErrNoReservations.
func (t *Tool) Reserve(ctx context.Context, device string, key uint64) error {
	_, err := t.do(ctx, device, out(reserveAction, "reserve", key, 0, false))
	if errors.Is(err, errNoField) {
		err = fmt.Errorf("%w that all registered nodes hold (type %d): %w", sharedlun.ErrNoReservations, sharedlun.WriteExclusiveAllRegistrants, err)
	}
	return err
}

// Convert turns a reservation of another type that this key holds into sharedlun.WriteExclusiveAllRegistrants, in one step of the target: the key preempts
// itself. It takes the key off every other path that has it. ErrConflict means that the path has not the key.
func (t *Tool) Convert(ctx context.Context, device string, key uint64) error {
	if key == 0 {
		return fmt.Errorf("convert the reservation on %s: key 0: %w", device, sharedlun.ErrInvalid)
	}
	_, err := t.do(ctx, device, out(preemptAction, "preempt", key, key, false))
	return err
}

// Preempt takes the victim's key off all its paths, and aborts the commands that the target has of them. A reservation that the victim held alone is held by
// all that are registered then. ErrConflict means that the path has not the key, or that nobody has the victim's.
func (t *Tool) Preempt(ctx context.Context, device string, key, victim uint64) error {
	if victim == 0 || victim == key {
		return fmt.Errorf("preempt %s with %s on %s: %w", sharedlun.FormatKey(victim), sharedlun.FormatKey(key), device, sharedlun.ErrInvalid)
	}
	_, err := t.do(ctx, device, out(preemptAbortAction, "preempt", key, victim, false))
	return err
}
