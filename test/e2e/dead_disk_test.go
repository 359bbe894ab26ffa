//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestDeadDiskLeavesOthersUsable: one of two disks of a group dies. The volumes that are on the other one are mounted and deleted as before, and none
// grows. The Cluster names the claim that lost a part. After an approval the group goes on without the disk, and the volume grows that was to.
func TestDeadDiskLeavesOthersUsable(t *testing.T) {
	turn(t, 14, 20)
	s := newSlotted(t, "dead")
	first := slotOf(t, s.disk)
	// Made while there is no other disk, so that all of it is on the first one.
	deleted := claim(t, s.name+"-deleted", s.name, "64Mi")
	remove(t, waitPod(t, pod(t, s.name+"-deleted", slotNode, "echo healthy > /data0/file; sync", deleted), corev1.PodSucceeded))
	healthy := volumeOf(t, deleted)
	second := plug(t, slotNode, newImage(t, "second", 1<<30), "ubd")
	both := []v1alpha1.DevicePath{first, slotOf(t, second)}
	update(t, s.name, func(c *v1alpha1.Cluster) { c.Spec.Devices.Paths = both })
	eventually(t, limitReady, "both disks are in the group", func(ctx context.Context) error {
		m, err := memberOf(ctx, s.name, slotNode)
		if err != nil || len(m.Status.Devices) != 2 {
			return fmt.Errorf("%v, %w", m, err)
		}
		return nil
	})
	lost := claim(t, s.name+"-lost", s.name, "1400Mi")
	user := waitPod(t, pod(t, s.name+"-lost", slotNode, "echo gone > /data0/file; sync", lost), corev1.PodSucceeded)
	remove(t, user)

	lab(t, "node", "kill", slotNode)
	lab(t, "disk", "remove", slotNode, second.image)
	second.device = ""
	lab(t, "node", "start", slotNode)
	waitCondition(t, s.name, v1alpha1.ConditionDisksReady, v1alpha1.ReasonPartial, lost.Name)
	remove(t, s.user)
	again := pod(t, s.name+"-again", slotNode, "grep kept /data0/file", s.claim)
	waitPod(t, again, corev1.PodSucceeded)
	remove(t, again)
	remove(t, deleted)
	eventually(t, limitReady, "the healthy volume is deleted", func(ctx context.Context) error {
		if err := kube.Get(ctx, client.ObjectKeyFromObject(healthy), &corev1.PersistentVolume{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("volume %s is still there: %w", healthy.Name, err)
		}
		return nil
	})
	refusesToGrow(t, s.claim, "128Mi")

	var digest string
	eventually(t, limitReady, "the plan names what is lost", func(ctx context.Context) error {
		c, err := getCluster(ctx, s.name)
		if err != nil || c.Status.Plan == nil {
			return fmt.Errorf("no plan, %w", err)
		}
		step := c.Status.Plan.Steps[0]
		if step.Action != v1alpha1.ActionForgetMissingDevice || len(step.Devices) != 1 || len(step.Volumes) != 1 {
			return fmt.Errorf("first step %+v", step)
		}
		digest = c.Status.Plan.Digest
		return nil
	})
	approve(t, s.name, digest)
	waitCondition(t, s.name, v1alpha1.ConditionDisksReady, v1alpha1.ReasonVolumeLost, lost.Name)
	remove(t, lost)
	update(t, s.name, func(c *v1alpha1.Cluster) { c.Spec.Devices.Paths = both[:1] })
	waitReady(t, s.name, limitReady)
	eventually(t, limitReady, "the volume has grown", func(ctx context.Context) error {
		v := &corev1.PersistentVolume{}
		if err := kube.Get(ctx, client.ObjectKey{Name: s.claim.Spec.VolumeName}, v); err != nil {
			return err
		}
		if got := v.Spec.Capacity[corev1.ResourceStorage]; got.Cmp(resource.MustParse("128Mi")) < 0 {
			return fmt.Errorf("it has %s", got.String())
		}
		return nil
	})
	fresh := claim(t, s.name+"-fresh", s.name, "64Mi")
	remove(t, waitPod(t, pod(t, s.name+"-fresh", slotNode, "echo new > /data0/file", fresh), corev1.PodSucceeded))
}

// refusesToGrow asks for a larger volume in a group that lacks a disk. The claim is told why it does not grow, and the volume stays as it is.
func refusesToGrow(t *testing.T, c *corev1.PersistentVolumeClaim, size string) {
	t.Helper()
	before := volumeOf(t, c).Spec.Capacity[corev1.ResourceStorage]
	patch := client.MergeFrom(c.DeepCopy())
	c.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse(size)
	if err := kube.Patch(t.Context(), c, patch); err != nil {
		t.Fatal(err)
	}
	waitEvent(t, "PersistentVolumeClaim", c.Name, "is missing: LVM makes nothing there, and nothing larger")
	if got := volumeOf(t, c).Spec.Capacity[corev1.ResourceStorage]; got.Cmp(before) != 0 {
		t.Errorf("the volume has %s in a group that lacks a disk, and had %s", got.String(), before.String())
	}
}
