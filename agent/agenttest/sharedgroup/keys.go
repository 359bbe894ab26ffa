package sharedgroup

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"quarry.storage/quarry/pkg/sharedlun"
)

// Keys serves the keys of the LUNs that a node sees, for an agent of package agenttest. It has no sessions.
type Keys struct{ N *Node }

// errNoSessions is what a call about sessions gets.
var errNoSessions = errors.New("the model of shared groups has no sessions")

// GetInitiator is an error.
func (k Keys) GetInitiator(context.Context) (sharedlun.Initiator, error) {
	return sharedlun.Initiator{}, errNoSessions
}

// GetTarget is an error.
func (k Keys) GetTarget(context.Context, sharedlun.Target, bool) (sharedlun.Seen, error) {
	return sharedlun.Seen{}, errNoSessions
}

// Login is an error.
func (k Keys) Login(context.Context, sharedlun.Target, *sharedlun.Chap, *sharedlun.Renewal) (sharedlun.Seen, error) {
	return sharedlun.Seen{}, errNoSessions
}

// Logout is an error.
func (k Keys) Logout(context.Context, sharedlun.Target) error { return errNoSessions }

// Reservation reads the keys.
func (k Keys) Reservation(_ context.Context, id sharedlun.Identity, _ bool) (sharedlun.Reservation, error) {
	return k.with(id, func(*LUN) error { return nil })
}

// Register registers the key that the model's node has, in place of an old one.
func (k Keys) Register(_ context.Context, id sharedlun.Identity, g sharedlun.Grant) (sharedlun.Reservation, error) {
	return k.with(id, func(l *LUN) error {
		if g.Key != k.N.key {
			return fmt.Errorf("%w: the node has key %#x", sharedlun.ErrInvalid, k.N.key)
		}
		l.keys = slices.DeleteFunc(l.keys, func(o uint64) bool { return o == g.Key || slices.Contains(g.Old, o) })
		l.keys = slices.Sorted(slices.Values(append(l.keys, g.Key)))
		l.reserved = l.reserved || g.Reserve
		return nil
	})
}

// Unregister takes the node's key off.
func (k Keys) Unregister(_ context.Context, id sharedlun.Identity, key uint64, last bool) (sharedlun.Reservation, error) {
	return k.with(id, func(l *LUN) error {
		if len(l.keys) == 1 && l.keys[0] == key && !last {
			return sharedlun.ErrLast
		}
		l.keys = slices.DeleteFunc(l.keys, func(o uint64) bool { return o == key })
		l.reserved = len(l.keys) > 0
		return nil
	})
}

// Preempt takes another node's key off.
func (k Keys) Preempt(_ context.Context, id sharedlun.Identity, key, victim uint64) (sharedlun.Reservation, error) {
	return k.with(id, func(l *LUN) error {
		if key != k.N.key || !l.reserved || !slices.Contains(l.keys, key) {
			return fmt.Errorf("%w (%#x)", sharedlun.ErrNoKey, key)
		}
		l.keys = slices.DeleteFunc(l.keys, func(o uint64) bool { return o == victim })
		return nil
	})
}

// with does something with a LUN, and reads its keys then.
func (k Keys) with(id sharedlun.Identity, do func(l *LUN) error) (sharedlun.Reservation, error) {
	k.N.san.mu.Lock()
	defer k.N.san.mu.Unlock()
	l, err := k.N.san.find(id.WWID)
	if err == nil && k.N.blind {
		err = sharedlun.ErrNotFound
	}
	if err == nil {
		err = do(l)
	}
	if err != nil {
		return sharedlun.Reservation{}, err
	}
	r := sharedlun.Reservation{Supported: true, Keys: slices.Clone(l.keys)}
	if l.reserved {
		r.Type = sharedlun.WriteExclusiveAllRegistrants
	}
	return r, nil
}
