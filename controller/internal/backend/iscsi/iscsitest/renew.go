package iscsitest

import (
	"context"
	"maps"
	"slices"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/sharedlun"
)

// vacate takes the node's keys off LUNs before a session is made anew, and refuses to take the last one.
func (s *SAN) vacate(name string, renew *sharedlun.Renewal) error {
	for _, l := range s.luns {
		key := l.keys[name]
		if renew == nil || key == 0 || !slices.Contains(renew.Keys, key) {
			continue
		}
		if len(l.keys) == 1 && l.reserved {
			return fault(decide.FaultPrecondition, name, "Login", sharedlun.ReasonLastKey, "only node %s has a key", name)
		}
		delete(l.keys, name)
	}
	return nil
}

// Unregister takes a node's own key off, also where no path leads any more, if one has it. Without such a path it stays there.
func (s *SAN) Unregister(_ context.Context, name string, id sharedlun.Identity, key uint64, last bool) (r sharedlun.Reservation, err error) {
	err = s.onLUN(name, "unregister", id, func(n *node, l *LUN) error {
		if len(n.mapped) > 0 {
			s.violations = append(s.violations, "the key of "+name+" was taken off with volumes mapped")
		}
		left := maps.Clone(l.keys)
		maps.DeleteFunc(left, func(_ string, k uint64) bool { return k == key })
		switch {
		case len(left) == len(l.keys):
		case len(left) == 0 && !last:
			return fault(decide.FaultPrecondition, name, "Unregister", "", "no other node is registered")
		case l.keys[name] != key:
			return fault(decide.FaultUnavailable, name, "Unregister", sharedlun.ReasonKeyStays, "the key is registered still, by a session that is gone")
		}
		l.keys = left
		l.reserved = l.reserved && len(left) > 0
		r = l.reservation()
		return nil
	})
	return r, err
}
