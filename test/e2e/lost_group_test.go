//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// slotted is a Cluster on the one disk of a slot of n3, with a volume in use. Only its slot tells the disk from others.
type slotted struct {
	name string
	// disk holds the group, and blank is another one of its size, which is not plugged in at first.
	disk, blank *disk
	group       string
	claim       *corev1.PersistentVolumeClaim
	user        *corev1.Pod
}

const slotNode = "n3"

func newSlotted(t *testing.T, name string) *slotted {
	t.Helper()
	s := &slotted{
		name: name, blank: &disk{node: slotNode, image: newImage(t, "blank", 1<<30)}, disk: plug(t, slotNode, newImage(t, "first", 1<<30), "ubd"),
	}
	t.Cleanup(func() {
		if s.blank.device != "" {
			s.blank.unplug(t)
		}
	})
	c := newCluster(name, slotNode)
	c.Spec.Devices = &v1alpha1.DeviceSelector{Paths: []v1alpha1.DevicePath{slotOf(t, s.disk)}}
	create(t, c)
	waitReady(t, name, limitReady)
	s.group = groupUUID(t, slotNode, "quarry-"+name)
	s.claim = claim(t, name, name, "64Mi")
	s.user = waitPod(t, pod(t, name, slotNode, "echo kept > /data0/file; sync; echo written; sleep 3600", s.claim), corev1.PodRunning)
	eventually(t, time.Minute, "the data is written", func(context.Context) error {
		if out := logs(s.user); !strings.Contains(out, "written") {
			return fmt.Errorf("log %q", out)
		}
		return nil
	})
	return s
}

// slotOf returns the stable path of a disk that has no serial number.
func slotOf(t *testing.T, d *disk) v1alpha1.DevicePath {
	t.Helper()
	var path string
	eventually(t, limitReady, d.device+" is on the StorageNode", func(ctx context.Context) error {
		n, err := getNode(ctx, d.node)
		if err != nil {
			return err
		}
		device := deviceOf(n, d.kernelName())
		if device == nil || !strings.HasPrefix(device.Path, "/dev/disk/by-path/") {
			return fmt.Errorf("%s is %+v", d.device, device)
		}
		path = device.Path
		return nil
	})
	return v1alpha1.DevicePath(path)
}

// swap puts the blank disk into the slot of the other one while the node has no power.
func (s *slotted) swap(t *testing.T) {
	t.Helper()
	lab(t, "node", "kill", slotNode)
	lab(t, "disk", "remove", slotNode, s.disk.image)
	slot := s.disk.device
	s.disk.device = ""
	s.blank.device = lastLine(lab(t, "disk", "add", slotNode, s.blank.image))
	lab(t, "node", "start", slotNode)
	if s.blank.device != slot {
		t.Fatalf("the blank disk is %s, the slot was %s", s.blank.device, slot)
	}
}

// serves wants the Cluster to run on the group that it had, and the volume to have its data.
func (s *slotted) serves(t *testing.T) {
	t.Helper()
	waitReady(t, s.name, limitPod)
	if now := groupUUID(t, slotNode, "quarry-"+s.name); now != s.group || now == "" {
		t.Errorf("the group is %s, it was %s", now, s.group)
	}
	remove(t, s.user)
	p := pod(t, s.name+"-again", slotNode, "grep kept /data0/file", s.claim)
	waitPod(t, p, corev1.PodSucceeded)
	remove(t, p)
}

// TestLostGroupIsNotReplaced: a node comes back with a blank disk in the slot of the one that held its group. Nothing is made there, and the
// Cluster says what it lacks. Then the old disk comes back in another slot: the group is known by its UUID and serves as before, and the blank
// disk joins it, for both slots are the Cluster's.
func TestLostGroupIsNotReplaced(t *testing.T) {
	turn(t, 13, 20)
	s := newSlotted(t, "slot")
	volume := volumeOf(t, s.claim)
	empty := checksum(t, s.blank.image)
	s.swap(t)
	waitCondition(t, s.name, v1alpha1.ConditionDisksReady, v1alpha1.ReasonVolumeGroupLost, s.group, volume.Name)
	// Long enough for a Cluster that would begin to use a clean disk: that takes some seconds.
	time.Sleep(15 * time.Second)
	c, err := getCluster(t.Context(), s.name)
	if err != nil || c.Status.Phase == v1alpha1.PhaseRunning || meta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ConditionReady) {
		t.Errorf("phase %s: %s, %v", c.Status.Phase, c.Status.Message, err)
	}
	if now := groupUUID(t, slotNode, "quarry-"+s.name); now != "" || checksum(t, s.blank.image) != empty {
		t.Errorf("something was made on the blank disk: group %s", now)
	}
	t.Run("the old disk comes back in another slot", func(t *testing.T) {
		s.disk.device = lastLine(lab(t, "disk", "add", slotNode, s.disk.image))
		slot := slotOf(t, s.disk)
		update(t, s.name, func(c *v1alpha1.Cluster) { c.Spec.Devices.Paths = append(c.Spec.Devices.Paths, slot) })
		s.serves(t)
		m, err := memberOf(t.Context(), s.name, slotNode)
		if err != nil {
			t.Fatal(err)
		}
		if m.Spec.Group == nil || m.Spec.Group.UUID != s.group || len(m.Status.Devices) != 2 {
			t.Errorf("record %+v, devices %+v", m.Spec.Group, m.Status.Devices)
		}
	})
}
