package ceph

import "testing"

// TestStates: a placement group is clean only if it serves, and none of its copies lacks, is damaged, or moves.
func TestStates(t *testing.T) {
	for state, want := range map[string][2]bool{
		"active+clean": {true, true}, "active+clean+scrubbing+deep": {true, true}, "active+clean+snaptrim_wait": {true, true},
		"active+clean+remapped": {true, false}, "active+remapped+backfilling": {true, false}, "active+undersized": {true, false}, "active+recovery_toofull": {true, false},
		"active+clean+inconsistent": {true, false}, "active+clean+failed_repair": {true, false}, "active+clean+recovery_unfound": {true, false},
		"stale+active+clean": {false, false}, "peering": {false, false}, "unknown": {false, false}, "": {false, false},
	} {
		active, clean := states(state)
		if active != want[0] || clean != want[1] || clean && short(state) {
			t.Errorf("%q: active %t, clean %t, short %t", state, active, clean, short(state))
		}
	}
}

// TestShort: placement groups lack copies also where a copy is damaged, or was not found.
func TestShort(t *testing.T) {
	for state, want := range map[string]bool{
		"active+clean": false, "active+clean+scrubbing+deep": false, "active+remapped+backfilling": false, "active+clean+snaptrim": false,
		"active+undersized+degraded": true, "peering": true, "unknown": true, "stale+active+clean": true, "active+clean+inconsistent": true,
		"active+clean+inconsistent+failed_repair": true, "active+recovery_unfound+degraded": true, "active+remapped+backfill_unfound": true,
	} {
		if got := short(state); got != want {
			t.Errorf("%s: %t", state, got)
		}
	}
}
