package volume

import (
	"maps"
	"slices"
	"strings"
)

// Parameters that Kubernetes and its sidecars add.
const (
	parameterFSType = "csi.storage.k8s.io/fstype"
	claimName       = "csi.storage.k8s.io/pvc/name"
	claimNamespace  = "csi.storage.k8s.io/pvc/namespace"
	volumeName      = "csi.storage.k8s.io/pv/name"
)

// snapshotNotes say whom a snapshot is for. They change nothing.
var snapshotNotes = []string{
	"csi.storage.k8s.io/volumesnapshot/name", "csi.storage.k8s.io/volumesnapshot/namespace", "csi.storage.k8s.io/volumesnapshotcontent/name",
}

// Claim is whom a volume is for. Its fields are empty when the request does not say it.
type Claim struct {
	// Namespace and Name of the PersistentVolumeClaim, and the name of the PersistentVolume to be.
	Namespace, Name, Volume string
}

// Parameters are those of a StorageClass, as they arrive with a request.
type Parameters struct {
	// Own are the driver's: all that Kubernetes did not add.
	Own map[string]string
	// Claim that the volume is for.
	Claim Claim
	// FSType is the filesystem that the class names; empty when it names none.
	FSType string
}

// ReadParameters tells the driver's own parameters from those that Kubernetes adds.
func ReadParameters(given map[string]string) Parameters {
	p := Parameters{
		Own: maps.Clone(given), FSType: given[parameterFSType],
		Claim: Claim{Namespace: given[claimNamespace], Name: given[claimName], Volume: given[volumeName]},
	}
	for _, name := range []string{parameterFSType, claimName, claimNamespace, volumeName} {
		delete(p.Own, name)
	}
	return p
}

// CheckSnapshotParameters refuses parameters of a VolumeSnapshotClass: there are none.
func CheckSnapshotParameters(given map[string]string) error { return Known(given, snapshotNotes...) }

// Known refuses parameters that are not in the list, all at once: an unknown one may have been meant to matter.
func Known(given map[string]string, names ...string) error {
	var unknown []string
	for _, k := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(names, k) {
			unknown = append(unknown, Quote(k))
		}
	}
	if len(unknown) > 0 {
		return Refuse(Invalid, "unknown parameters: %s", strings.Join(unknown, ", "))
	}
	return nil
}
