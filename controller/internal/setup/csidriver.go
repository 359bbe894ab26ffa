package setup

import (
	"maps"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/agents"
	"quarry.storage/quarry/controller/internal/csi/frame"
	"quarry.storage/quarry/controller/internal/csi/lvm"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// csiDriver is one driver that the CSI controller can serve.
type csiDriver struct {
	// watched are the kinds that the backend answers from.
	watched []client.Object
	// backend makes the driver.
	backend func(reader client.Reader, pool *agents.Pool) (frame.Driver, frame.Backend)
}

// servable are the drivers, by name.
var servable = map[string]csiDriver{
	v1alpha1.DriverLVM: {
		watched: []client.Object{&v1alpha1.Cluster{}, &v1alpha1.StorageNode{}},
		backend: func(reader client.Reader, pool *agents.Pool) (frame.Driver, frame.Backend) {
			return lvm.Driver(), &lvm.Backend{Reader: reader, Agents: pool}
		},
	},
}

// driverNames returns the names of the drivers, ordered.
func driverNames() []string { return slices.Sorted(maps.Keys(servable)) }
