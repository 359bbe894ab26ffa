package iscsitest

import (
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
