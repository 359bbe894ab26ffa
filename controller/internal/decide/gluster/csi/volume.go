package csi

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"quarry.storage/quarry/controller/internal/decide/gluster"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Volumes are the PersistentVolumes of a pool: those of the drivers that its cluster holds, or nobody. One of which the driver's holder is not known counts in every
// pool, since its volume may be there. Drivers are the CSIDrivers that there are.
func Volumes(namespace, cluster string, drivers map[v1alpha1.GlusterDriver]*storagev1.CSIDriver, all []corev1.PersistentVolume) []gluster.Named {
	block := map[string]bool{}
	for _, d := range Known {
		if held := drivers[d]; held == nil || Nobodys(held) || Holds(held, namespace, cluster) {
			block[Name(d)] = d == v1alpha1.GlusterBlock
		}
	}
	out := []gluster.Named{}
	for i := range all {
		source := all[i].Spec.CSI
		if source == nil {
			continue
		}
		if isBlock, own := block[source.Driver]; own {
			out = append(out, gluster.Named{
				PersistentVolume: all[i].Name, Volume: source.VolumeHandle, Block: isBlock,
				Ending: !all[i].DeletionTimestamp.IsZero() && all[i].Status.Phase != corev1.VolumeBound,
			})
		}
	}
	slices.SortFunc(out, func(a, b gluster.Named) int { return strings.Compare(a.PersistentVolume, b.PersistentVolume) })
	return out
}

// Count is how many PersistentVolumes of a driver are among those of a pool, and how many of them nobody deleted; negative when nobody could list them.
func Count(named *[]gluster.Named, d v1alpha1.GlusterDriver) (all, staying int) {
	if named == nil {
		return -1, -1
	}
	for _, one := range *named {
		if one.Block != (d == v1alpha1.GlusterBlock) {
			continue
		}
		if all++; !one.Ending {
			staying++
		}
	}
	return all, staying
}

// Holds reports whether a CSIDriver is of a GlusterCluster.
func Holds(d *storagev1.CSIDriver, namespace, cluster string) bool {
	of, name := Holder(d)
	return of == namespace && name == cluster
}

// Nobodys reports whether a CSIDriver is of no GlusterCluster.
func Nobodys(d *storagev1.CSIDriver) bool {
	of, name := Holder(d)
	return of == "" || name == ""
}
