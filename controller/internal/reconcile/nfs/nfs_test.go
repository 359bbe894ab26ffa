package nfs

import (
	"testing"

	"quarry.storage/quarry/controller/internal/reconcile/storage"
)

// A look at a share of a dead server takes up to 7 of every 10 seconds of a worker: with 4 workers six such shares kept all others waiting.
func TestNew_sharesOfADeadServerLeaveWorkersForOthers(t *testing.T) {
	const dead = 20
	if r := New(storage.Config{}, nil); r.Workers*10 < 2*dead*7 {
		t.Errorf("%d workers for %d dead shares", r.Workers, dead)
	}
}
