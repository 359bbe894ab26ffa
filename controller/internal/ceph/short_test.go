package ceph

import "testing"

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
