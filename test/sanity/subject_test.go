//go:build sanity

package sanity

import (
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"

	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephvolume"
	"quarry.storage/quarry/pkg/sharedlun"
	"quarry.storage/quarry/pkg/sharedvolume"
	"quarry.storage/quarry/pkg/volumeid"
)

var (
	driver = flag.String("driver", v1alpha1.DriverLVM, "name of the driver")
	group  = flag.String("group", "", "volume group of the Cluster; for "+v1alpha1.DriverLVM)
	linear = flag.Bool("linear", false, "make linear volumes instead of thin ones; for "+v1alpha1.DriverLVM)
	owner  = flag.String("owner", "", "UID of the Nfs or the Cluster; for "+v1alpha1.DriverNFS+" and "+v1alpha1.DriverCephFS)
	shared = flag.String("shared-group", "", "UUID of the volume group of the Iscsi; for "+v1alpha1.DriverISCSI)
)

// subject is what differs between the drivers.
type subject struct {
	// wanted are the parameters that the StorageClass has; those behind the first are left out for linear volumes.
	wanted []string
	// absent makes the handle of a volume that does not exist.
	absent func(name string) string
	// bytes is the size of a volume, and grown that of one that was expanded. Both fit many times into the lab's disks, and are multiples of LVM's extent.
	bytes, grown int64
	// ours reports whether a handle is one of the storage under test: others may have volumes.
	ours func(handle string) bool
	// left looks on the node for what the suite should have taken away.
	left func(t *testing.T) []string
}

// subjects by the name of the driver.
var subjects = map[string]subject{
	v1alpha1.DriverLVM: {
		wanted: []string{v1alpha1.ParameterCluster, v1alpha1.ParameterThinPool, v1alpha1.ParameterOverprovision},
		bytes:  64 << 20, grown: 128 << 20,
		absent: func(name string) string {
			return volumeid.ID{Node: *nodeName, Group: *group, Name: volumeid.Name(name)}.String()
		},
		ours: func(handle string) bool {
			id, err := volumeid.Parse(handle)
			return err != nil || id.Group == *group
		},
		left: devices,
	},
	v1alpha1.DriverISCSI: {
		wanted: []string{v1alpha1.ParameterIscsi},
		// Each one is zeroed over the network before anybody sees it.
		bytes: 16 << 20, grown: 32 << 20,
		absent: func(name string) string {
			return sharedlun.ID{Group: *shared, Name: sharedlun.Name(name)}.String()
		},
		ours: func(handle string) bool {
			id, err := sharedlun.Parse(handle)
			return err != nil || id.Group == *shared
		},
		left: mapped,
	},
	v1alpha1.DriverNFS: {
		wanted: []string{v1alpha1.ParameterNfs},
		bytes:  64 << 20, grown: 128 << 20,
		absent: func(name string) string {
			return sharedvolume.ID{Owner: *owner, Name: sharedvolume.Name(name)}.String()
		},
		ours: func(handle string) bool {
			return !strings.Contains(handle, "/") || strings.HasPrefix(handle, *owner+"/")
		},
		// test/sanity/run looks at the share itself.
		left: func(*testing.T) []string { return nil },
	},
	v1alpha1.DriverCephFS: {
		wanted: []string{v1alpha1.ParameterCluster},
		bytes:  64 << 20, grown: 128 << 20,
		absent: func(name string) string {
			return cephvolume.ID{FSID: *owner, Name: cephvolume.Name(name)}.String()
		},
		ours: func(handle string) bool {
			id, err := cephvolume.Parse(handle)
			return err != nil || id.FSID == *owner
		},
		// test/sanity/run asks Ceph itself.
		left: func(*testing.T) []string { return nil },
	},
}

// mapped are the devices of volumes on shared LUNs that are left on the node.
func mapped(t *testing.T) []string {
	t.Helper()
	// LVM doubles the dashes of a group's name.
	names, err := filepath.Glob("/dev/mapper/quarry-[0-9A-Za-z]*")
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// ids makes handles of volumes that do not exist.
type ids struct {
	subject subject
	n       atomic.Int64
}

var _ sanity.IDGenerator = (*ids)(nil)

// GenerateUniqueValidVolumeID makes a handle in the driver's form.
func (g *ids) GenerateUniqueValidVolumeID() string {
	return g.subject.absent(fmt.Sprintf("sanity-absent-%d", g.n.Add(1)))
}

// GenerateInvalidVolumeID makes something that is no handle.
func (g *ids) GenerateInvalidVolumeID() string { return "not/a-volume" }

// GenerateUniqueValidNodeID makes the name of a node that does not exist.
func (g *ids) GenerateUniqueValidNodeID() string { return fmt.Sprintf("sanity-absent-%d", g.n.Add(1)) }

// GenerateInvalidNodeID makes something that is no name of a node.
func (g *ids) GenerateInvalidNodeID() string { return "Not A Node" }
