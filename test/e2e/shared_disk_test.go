//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestSharedDiskIsRefused plugs one disk into two nodes, as a LUN that is mapped to both. Neither takes it, even by name, and nothing is written
// to it. Once one node alone sees it, that node takes it. When the other one sees it again, the group goes on and says that it does not grow.
func TestSharedDiskIsRefused(t *testing.T) {
	turn(t, 17, 20)
	const name = "lun"
	image := newImage(t, name, 1<<30)
	empty := checksum(t, image)
	one := plug(t, "n1", image, "scsi")
	path := awaitDevice(t, one, func(d *v1alpha1.NodeDevice) bool { return d.Available }).Path
	two := plug(t, "n2", image, "scsi")
	// A disk is listed a moment before udev has made its links.
	refused := func(d *v1alpha1.NodeDevice) bool {
		return d.Path == path && slices.Contains(refusals(d), v1alpha1.RefusalSharedDisk)
	}
	awaitDevice(t, two, refused)
	awaitDevice(t, one, refused)
	c := newCluster(name, "n1")
	c.Spec.Devices = &v1alpha1.DeviceSelector{Paths: []v1alpha1.DevicePath{v1alpha1.DevicePath(path)}}
	create(t, c)
	waitCondition(t, name, v1alpha1.ConditionDisksReady, v1alpha1.ReasonNoCleanDevice, "Node n2 sees the same disk")
	if checksum(t, image) != empty {
		t.Error("something was written to the disk")
	}
	two.unplug(t)
	waitReady(t, name, limitReady)
	two.device = lastLine(lab(t, "disk", "add", two.node, two.image, "--bus", "scsi"))
	waitCondition(t, name, v1alpha1.ConditionDisksReady, v1alpha1.ReasonSharedDisk, "Node n2 sees the same disk", "does not grow")
	two.unplug(t)
	waitReady(t, name, limitReady)
}

// awaitDevice waits until a StorageNode shows a disk like that.
func awaitDevice(t *testing.T, d *disk, ok func(*v1alpha1.NodeDevice) bool) *v1alpha1.NodeDevice {
	t.Helper()
	var device *v1alpha1.NodeDevice
	eventually(t, limitReady, d.device+" on "+d.node, func(ctx context.Context) error {
		n, err := getNode(ctx, d.node)
		if err != nil {
			return err
		}
		if device = deviceOf(n, d.kernelName()); device == nil || !ok(device) {
			return fmt.Errorf("it is %+v", device)
		}
		return nil
	})
	return device
}
