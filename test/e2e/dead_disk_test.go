//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestDeadDiskLeavesOthersUsable: one of two disks of a group dies. The volume that is on the other one is used and deleted as before, the
// Cluster names the claim that lost a part, and after an approval the group goes on without the disk.
func TestDeadDiskLeavesOthersUsable(t *testing.T) {
	turn(t, 0, 5)
	s := newSlotted(t, "dead")
	first := slotOf(t, s.disk)
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
	fresh := claim(t, s.name+"-fresh", s.name, "64Mi")
	remove(t, waitPod(t, pod(t, s.name+"-fresh", slotNode, "echo new > /data0/file", fresh), corev1.PodSucceeded))
}
