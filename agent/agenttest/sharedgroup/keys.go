package sharedgroup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"quarry.storage/quarry/agent/internal/sharedgroup"
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

// luns are the LUNs as the node sees them.
type luns struct{ n *Node }

// find is the LUN of an identity. The lock is held by the caller.
func (s *SAN) find(wwid string) (*LUN, error) {
	l := s.luns[wwid]
	if l == nil {
		return nil, fmt.Errorf("LUN %s: %w", wwid, sharedlun.ErrNotFound)
	}
	return l, nil
}

// Device is the path of a LUN.
func (l luns) Device(ctx context.Context, lun sharedlun.Identity) (string, error) {
	gate := l.n.gated(&l.n.lookGate)
	l.n.mu.Lock()
	l.n.looking++
	l.n.mu.Unlock()
	defer func() {
		l.n.mu.Lock()
		defer l.n.mu.Unlock()
		l.n.looking--
	}()
	select {
	case <-gate:
	case <-ctx.Done():
	}
	l.n.san.mu.Lock()
	defer l.n.san.mu.Unlock()
	found, err := l.n.san.find(lun.WWID)
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case l.n.blind:
		return "", fmt.Errorf("LUN %s: %w", lun.WWID, sharedlun.ErrNotFound)
	case err != nil:
		return "", err
	}
	return path(lun.WWID), lun.Same(found.identity)
}

// Astray asks which LUN the devices of a group stand on. A node that sees no LUN does not know.
func (l luns) Astray(_ context.Context, lun sharedlun.Identity, group string) (volumes []string, says string, err error) {
	l.n.san.mu.Lock()
	defer l.n.san.mu.Unlock()
	found, err := l.n.san.find(lun.WWID)
	if err == nil && l.n.blind {
		err = fmt.Errorf("LUN %s: %w", lun.WWID, sharedlun.ErrUnread)
	}
	if err != nil {
		return nil, "", err
	}
	if err := lun.Named(found.identity); err != nil {
		says = err.Error()
	}
	for _, m := range slices.Concat(slices.Collect(maps.Values(l.n.mapped)), slices.Collect(maps.Values(l.n.zeroing))) {
		if says != "" && m.group == group && m.Live && !m.Cut && wwidOf(m.Lun) == lun.WWID {
			volumes = append(volumes, m.volume)
		}
	}
	slices.Sort(volumes)
	return slices.Compact(volumes), says, nil
}

func path(wwid string) string { return "/dev/model/" + wwid }

// Confirm asks the target whether the key is this node's.
func (l luns) Confirm(_ context.Context, lun sharedlun.Identity, key uint64) (sharedlun.Reservation, error) {
	l.n.san.mu.Lock()
	defer l.n.san.mu.Unlock()
	found, err := l.n.san.find(lun.WWID)
	if err != nil {
		return sharedlun.Reservation{}, err
	}
	r := sharedlun.Reservation{Supported: true, Keys: slices.Clone(found.keys)}
	if found.reserved {
		r.Type = sharedlun.WriteExclusiveAllRegistrants
	}
	if key != l.n.key || !found.mayWrite(key) {
		return r, fmt.Errorf("%w (%#x)", sharedlun.ErrNoKey, key)
	}
	return r, nil
}

var _ sharedgroup.Luns = luns{}
