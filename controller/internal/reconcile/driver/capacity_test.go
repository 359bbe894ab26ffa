package driver

import (
	"slices"
	"testing"

	"quarry.storage/quarry/controller/internal/decide/backend"
)

// TestCapacity_isPublishedWithATopology: without one a scheduler that looks for capacity finds no node fit.
func TestCapacity_isPublishedWithATopology(t *testing.T) {
	for _, topology := range []bool{true, false} {
		d := backend.Driver{Name: "model.quarry.storage", Deployment: "model", Capacity: true, Topology: topology}
		asked := slices.Contains(provisioner(d).args, "--enable-capacity")
		if looks := *csiDriver(d).Spec.StorageCapacity; looks != topology || asked != topology {
			t.Errorf("topology %t: the scheduler looks: %t, the provisioner publishes: %t", topology, looks, asked)
		}
	}
}
