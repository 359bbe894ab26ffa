package driver

import (
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storagev1ac "k8s.io/client-go/applyconfigurations/storage/v1"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// csiDriver says how Kubernetes is to use a driver: whether volumes are attached, and whether the scheduler may look at capacity. The
// node service refuses the mount option that seLinuxMount would make the kubelet send.
//
// Capacity is published for each part of a topology. Where every node reaches every volume there is none, and a scheduler that looked for capacity would
// find no node fit for a claim.
//
// Kubernetes never changes attachRequired of an object that exists. A version of Quarry whose driver has another Attach than the object
// is refused: the API server returns an error, which the log and, once the driver does not serve, the conditions of its storages show. The
// Deployment stays that of the version before, which goes on serving volumes as they were made. The object is not replaced: without it
// the kubelet takes every volume of the driver for one that is attached. It goes with the last storage of the driver, and is made as the
// version says with the next.
func csiDriver(d backend.Driver) *storagev1ac.CSIDriverApplyConfiguration {
	return storagev1ac.CSIDriver(d.Name).WithLabels(map[string]string{v1alpha1.LabelDriver: d.Name}).
		WithSpec(storagev1ac.CSIDriverSpec().
			WithAttachRequired(d.Attach).WithPodInfoOnMount(false).WithStorageCapacity(published(d)).WithSELinuxMount(false).
			WithFSGroupPolicy(storagev1.FileFSGroupPolicy).WithRequiresRepublish(false).
			WithVolumeLifecycleModes(storagev1.VolumeLifecyclePersistent))
}

// published reports whether the provisioner publishes the capacity of a driver.
func published(d backend.Driver) bool { return d.Capacity && d.Topology }

func emptyCSIDriver(d backend.Driver) *storagev1.CSIDriver {
	return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: d.Name}}
}
