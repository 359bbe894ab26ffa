package node

import (
	"testing"

	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/volume"
)

func TestHub_foldsOwnChangesIntoOlderObservations(t *testing.T) {
	e, _, _ := lvmEngine(t, nil)
	before, err := e.hub.observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	fold := func(was plan.Snapshot) plan.Snapshot {
		return volume.With(was, "vg", "vg-uuid", plan.Volume{Name: "v", ID: "id", SizeBytes: 4 << 20})
	}
	began := e.hub.memory.begin()
	e.hub.fold(fold)
	if after := e.hub.land(began, before); len(after.Groups[0].LogicalVolumes) != 1 {
		t.Errorf("an observation that began before the change: %+v", after)
	}
	if after := e.hub.land(e.hub.memory.begin(), before); len(after.Groups[0].LogicalVolumes) != 0 {
		t.Errorf("an observation that began after the change: %+v", after)
	}
}
