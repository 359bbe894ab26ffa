package volume

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// parameterFSType is the parameter that Kubernetes names the filesystem with. The provisioner turns it into a capability.
const parameterFSType = "csi.storage.k8s.io/fstype"

// maxOverprovision, in percent, is the most that agents take.
const maxOverprovision = 100_000

// Parameters that the sidecars add to say whom a volume or snapshot is for. They change nothing.
var (
	volumeNotes = []string{
		"csi.storage.k8s.io/pvc/name", "csi.storage.k8s.io/pvc/namespace", "csi.storage.k8s.io/pv/name",
	}
	snapshotNotes = []string{
		"csi.storage.k8s.io/volumesnapshot/name", "csi.storage.k8s.io/volumesnapshot/namespace",
		"csi.storage.k8s.io/volumesnapshotcontent/name",
	}
)

// Parameters are those of a StorageClass.
type Parameters struct {
	// Cluster is the UID of the Cluster; empty when it is not given.
	Cluster string
	// Thin is the thin pool; its zero value stands for linear volumes.
	Thin Thin
}

// poolForm are the names of thin pools: LVM takes them, and none is read as an option or a path.
var poolForm = regexp.MustCompile(`^[A-Za-z0-9_+][A-Za-z0-9_+.-]{0,63}$`)

// Parse reads the parameters of a StorageClass. One that nobody knows is refused: it may have been meant to matter.
func Parse(given map[string]string) (Parameters, error) {
	ours := []string{parameterFSType, v1alpha1.ParameterCluster, v1alpha1.ParameterThinPool, v1alpha1.ParameterOverprovision}
	if err := known(given, append(ours, volumeNotes...)); err != nil {
		return Parameters{}, err
	}
	if err := checkFS(given[parameterFSType]); err != nil {
		return Parameters{}, err
	}
	uid, ok := given[v1alpha1.ParameterCluster]
	if ok && uid == "" {
		return Parameters{}, refuse(Invalid, "parameter %q is empty: it names the Cluster by its UID", v1alpha1.ParameterCluster)
	}
	thin, err := parseThin(given)
	return Parameters{Cluster: uid, Thin: thin}, err
}

func parseThin(given map[string]string) (Thin, error) {
	pool, isThin := given[v1alpha1.ParameterThinPool]
	percent, bounded := given[v1alpha1.ParameterOverprovision]
	switch {
	case isThin && !poolForm.MatchString(pool):
		return Thin{}, refuse(Invalid, "parameter %q: %s is no name of a thin pool", v1alpha1.ParameterThinPool, quote(pool))
	case bounded && !isThin:
		return Thin{}, refuse(Invalid, "parameter %q goes with %q only", v1alpha1.ParameterOverprovision, v1alpha1.ParameterThinPool)
	case !bounded:
		return Thin{Pool: pool}, nil
	}
	n, err := strconv.ParseInt(percent, 10, 32)
	if err != nil || n < 1 || n > maxOverprovision {
		return Thin{}, refuse(Invalid, "parameter %q: %s is no number of percent from 1 to %d",
			v1alpha1.ParameterOverprovision, quote(percent), maxOverprovision)
	}
	return Thin{Pool: pool, Percent: int32(n)}, nil
}

// ParseSnapshot reads the parameters of a VolumeSnapshotClass, which has none of ours.
func ParseSnapshot(given map[string]string) error { return known(given, snapshotNotes) }

// known refuses parameters that are not in the list, all at once.
func known(given map[string]string, names []string) error {
	var unknown []string
	for _, k := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(names, k) {
			unknown = append(unknown, quote(k))
		}
	}
	if len(unknown) > 0 {
		return refuse(Invalid, "unknown parameters: %s", strings.Join(unknown, ", "))
	}
	return nil
}
