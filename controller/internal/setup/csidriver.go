package setup

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/agents"
	"quarry.storage/quarry/controller/internal/agents/shared"
	"quarry.storage/quarry/controller/internal/ceph"
	csiceph "quarry.storage/quarry/controller/internal/csi/ceph"
	"quarry.storage/quarry/controller/internal/csi/frame"
	"quarry.storage/quarry/controller/internal/csi/iscsi"
	"quarry.storage/quarry/controller/internal/csi/lvm"
	"quarry.storage/quarry/controller/internal/csi/nfs"
	"quarry.storage/quarry/controller/internal/san"
	"quarry.storage/quarry/controller/internal/san/fleet"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// csiDriver is one driver that the CSI controller can serve.
type csiDriver struct {
	// watched are the kinds that the backend answers from, beside PersistentVolumes.
	watched []client.Object
	// backend makes the driver.
	backend func(w csiWorld) (frame.Driver, frame.Backend)
}

// csiWorld is what drivers work with.
type csiWorld struct {
	// reader answers from the cache, and live asks the API server itself, in which it writes Leases of the namespace.
	reader    client.Reader
	live      client.Client
	namespace string
	// pod that this runs in; empty outside one.
	pod  string
	pool *agents.Pool
	// runner returns what runs commands of Ceph for the Cluster with a UID.
	runner func(uid string) ceph.Runner
	log    logr.Logger
}

// copying is how long a call waits for the copy that Ceph makes for it: the provisioner asks again after a minute.
const copying = 20 * time.Second

// servable are the drivers, by name.
var servable = map[string]csiDriver{
	v1alpha1.DriverCephFS: {
		watched: []client.Object{&v1alpha1.Cluster{}},
		backend: func(w csiWorld) (frame.Driver, frame.Backend) {
			connect := func(_ context.Context, uid string) (ceph.Runner, error) { return w.runner(uid), nil }
			return csiceph.Driver(), csiceph.New(csiceph.Config{Reader: w.reader, Live: w.live, Connect: connect, Log: w.log, Patience: copying})
		},
	},
	v1alpha1.DriverISCSI: {
		watched: []client.Object{&v1alpha1.Iscsi{}, &v1alpha1.Member{}, &v1alpha1.StorageNode{}},
		backend: func(w csiWorld) (frame.Driver, frame.Backend) {
			calls, members := shared.Calls{Pool: w.pool}, fleet.Fleet{Live: w.live, Reader: w.reader, Agents: w.pool}
			leases := san.KubernetesLeases{Client: w.live, Namespace: w.namespace, Now: time.Now}
			return iscsi.Driver(), iscsi.New(iscsi.Config{
				Reader: w.reader, Nodes: calls, Fleet: members, Leases: leases, Log: w.log,
				SAN: san.New(san.Config{
					Self: san.ProcessName(san.RoleCSI, w.pod), Nodes: calls, Fleet: members, Leases: leases, Processes: san.Pods{Live: w.live, Namespace: w.namespace},
				}),
			})
		},
	},
	v1alpha1.DriverLVM: {
		watched: []client.Object{&v1alpha1.Cluster{}, &v1alpha1.Member{}, &v1alpha1.StorageNode{}},
		backend: func(w csiWorld) (frame.Driver, frame.Backend) {
			return lvm.Driver(), &lvm.Backend{Reader: w.reader, Live: w.live, Agents: w.pool}
		},
	},
	v1alpha1.DriverNFS: {
		watched: []client.Object{&v1alpha1.Nfs{}},
		backend: func(w csiWorld) (frame.Driver, frame.Backend) {
			return nfs.Driver(), nfs.New(nfs.Config{Reader: w.reader, Agents: w.pool, Log: w.log})
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
