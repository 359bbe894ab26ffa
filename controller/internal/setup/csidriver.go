package setup

import (
	"maps"
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/agents"
	"quarry.storage/quarry/controller/internal/csi/frame"
	"quarry.storage/quarry/controller/internal/csi/lvm"
	"quarry.storage/quarry/controller/internal/csi/nfs"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// csiDriver is one driver that the CSI controller can serve.
type csiDriver struct {
	// watched are the kinds that the backend answers from, beside PersistentVolumes.
	watched []client.Object
	// backend makes the driver. The reader answers from the cache, and live asks the API server itself.
	backend func(reader, live client.Reader, pool *agents.Pool, log logr.Logger) (frame.Driver, frame.Backend)
}

// servable are the drivers, by name.
var servable = map[string]csiDriver{
	v1alpha1.DriverLVM: {
		watched: []client.Object{&v1alpha1.Cluster{}, &v1alpha1.Member{}, &v1alpha1.StorageNode{}},
		backend: func(reader, live client.Reader, pool *agents.Pool, _ logr.Logger) (frame.Driver, frame.Backend) {
			return lvm.Driver(), &lvm.Backend{Reader: reader, Live: live, Agents: pool}
		},
	},
	v1alpha1.DriverNFS: {
		watched: []client.Object{&v1alpha1.Nfs{}},
		backend: func(reader, _ client.Reader, pool *agents.Pool, log logr.Logger) (frame.Driver, frame.Backend) {
			return nfs.Driver(), nfs.New(nfs.Config{Reader: reader, Agents: pool, Log: log})
		},
	},
}

// stripRecorded keeps what is recorded in a volume, its size, and what says whether it has to be there.
func stripRecorded(o any) (any, error) {
	v, ok := o.(*corev1.PersistentVolume)
	if !ok {
		return o, nil
	}
	out := &corev1.PersistentVolume{TypeMeta: v.TypeMeta, ObjectMeta: stripMeta(v.ObjectMeta)}
	out.Spec.Capacity, out.Status.Phase = v.Spec.Capacity, v.Status.Phase
	out.Spec.PersistentVolumeReclaimPolicy = v.Spec.PersistentVolumeReclaimPolicy
	if c := v.Spec.ClaimRef; c != nil {
		out.Spec.ClaimRef = &corev1.ObjectReference{Namespace: c.Namespace, Name: c.Name}
	}
	if c := v.Spec.CSI; c != nil {
		out.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: c.Driver, VolumeHandle: c.VolumeHandle, VolumeAttributes: c.VolumeAttributes}
	}
	return out, nil
}

// driverNames returns the names of the drivers, ordered.
func driverNames() []string { return slices.Sorted(maps.Keys(servable)) }
