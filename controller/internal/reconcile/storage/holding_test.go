package storage

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/controller/internal/decide/backend"
)

// TestHolding: a volume is named once, and the name of what is on the disk only where no PersistentVolume is of it.
func TestHolding(t *testing.T) {
	f := backend.Facts{Holding: []string{"quarry-a/orphan", "quarry-a/pvc-1", "quarry-a/pvc-12"}}
	volumes := []backend.Volume{{Name: "pvc-1", Claim: "ns/c", Handle: "n1/quarry-a/pvc-1"}, {Name: "gone", Handle: "n1/quarry-a/gone"}}
	want := []string{"gone", "pvc-1 (claim ns/c)", "quarry-a/orphan", "quarry-a/pvc-12"}
	if diff := cmp.Diff(want, holding(f, volumes)); diff != "" {
		t.Error(diff)
	}
	if len(f.Holding) != 3 || f.Holding[1] != "quarry-a/pvc-1" {
		t.Errorf("what is on the disk became %q", f.Holding)
	}
}
