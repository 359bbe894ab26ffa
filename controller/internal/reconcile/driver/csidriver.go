package driver

import (
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storagev1ac "k8s.io/client-go/applyconfigurations/storage/v1"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// csiDriver says how Kubernetes is to use a driver: no volume is attached, and the scheduler may look at capacity. The node
// service refuses the mount option that seLinuxMount would make the kubelet send.
func csiDriver(d backend.Driver) *storagev1ac.CSIDriverApplyConfiguration {
	return storagev1ac.CSIDriver(d.Name).WithLabels(map[string]string{v1alpha1.LabelDriver: d.Name}).
		WithSpec(storagev1ac.CSIDriverSpec().
			WithAttachRequired(false).WithPodInfoOnMount(false).WithStorageCapacity(d.Capacity).WithSELinuxMount(false).
			WithFSGroupPolicy(storagev1.FileFSGroupPolicy).WithRequiresRepublish(false).
			WithVolumeLifecycleModes(storagev1.VolumeLifecyclePersistent))
}

func emptyCSIDriver(d backend.Driver) *storagev1.CSIDriver {
	return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: d.Name}}
}
