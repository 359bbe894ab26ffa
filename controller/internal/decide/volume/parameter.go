package volume

import (
	"maps"
	"slices"
	"strings"
)

// Parameters that Kubernetes and its sidecars add. Later versions may add more below the prefix, which is theirs: those that are not known
// here change nothing.
const (
	reserved        = "csi.storage.k8s.io/"
	parameterFSType = "csi.storage.k8s.io/fstype"
	claimName       = "csi.storage.k8s.io/pvc/name"
	claimNamespace  = "csi.storage.k8s.io/pvc/namespace"
	volumeName      = "csi.storage.k8s.io/pv/name"
)

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
	return Parameters{
		Own: own(given), FSType: given[parameterFSType],
		Claim: Claim{Namespace: given[claimNamespace], Name: given[claimName], Volume: given[volumeName]},
	}
}

// own returns the parameters that Kubernetes did not add.
func own(given map[string]string) map[string]string {
	out := maps.Clone(given)
	maps.DeleteFunc(out, func(name, _ string) bool { return strings.HasPrefix(name, reserved) })
	return out
}

// CheckSnapshotParameters refuses parameters of a VolumeSnapshotClass: there are none but those that say whom a snapshot is for.
func CheckSnapshotParameters(given map[string]string) error { return Known(own(given)) }

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
