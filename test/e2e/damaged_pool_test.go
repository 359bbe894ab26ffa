//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// spoil deactivates a group, as soon as nobody uses it any more, and zeroes the first block of the metadata of its thin pool where it lies on the disk.
const spoil = `export LVM_SYSTEM_DIR=/var/lib/quarry/lvm
	until lvm vgchange -an "$1" >&2; do sleep 0.5; done
	lvm pvs --reportformat basic --noheadings --segments --units b --nosuffix -o pv_name,pe_start,vg_extent_size,pvseg_start \
		-S 'lv_name=~"_tmeta" && vg_name="'"$1"'"' |
	while read -r device start extent first; do
		dd if=/dev/zero of="$device" bs=4096 count=1 seek=$(((start + extent * first) / 4096)) conv=notrunc,fsync
		echo "spoilt $device"
	done`

// TestDamagedPoolIsRepairedByApproval: the metadata of a thin pool begins with zeroes. The agent does not activate it, the Cluster names the claims, and
// nothing is done until a person approves the repair. Then the volumes hold what they held, and the old metadata is kept.
func TestDamagedPoolIsRepairedByApproval(t *testing.T) {
	turn(t, 5, 20)
	const name = "damaged"
	d := plug(t, slotNode, newImage(t, "pool", 1<<30), "ubd")
	c := thinCluster(name, v1alpha1.ThinPoolSpec{Percent: ptr.To[int32](60), OverprovisionRatio: "1.0"}, slotNode)
	c.Spec.Devices = &v1alpha1.DeviceSelector{Paths: []v1alpha1.DevicePath{slotOf(t, d)}}
	create(t, c)
	waitReady(t, name, limitReady)
	first, second := claim(t, name+"-1", name, "64Mi"), claim(t, name+"-2", name, "64Mi")
	remove(t, waitPod(t, pod(t, name, slotNode, "echo first > /data0/file; echo second > /data1/file", first, second), corev1.PodSucceeded))
	t.Cleanup(func() {
		t.Log(tryOnNode(slotNode, "LVM_SYSTEM_DIR=/var/lib/quarry/lvm lvm lvremove -y quarry-"+name+"/quarry-thin_meta0"))
	})

	if out := onNode(t, slotNode, "set -- quarry-"+name+"\n"+spoil); !strings.Contains(out, "spoilt /dev/") {
		t.Fatalf("nothing is spoilt: %s", out)
	}
	onNode(t, slotNode, "pkill -KILL -x agent")
	eventually(t, limitReady, "the Member names the claims", func(ctx context.Context) error {
		m, err := memberOf(ctx, name, slotNode)
		if err != nil {
			return err
		}
		for _, text := range []string{"is damaged", first.Name, second.Name} {
			if !strings.Contains(m.Status.Message, text) {
				return fmt.Errorf("message %q", m.Status.Message)
			}
		}
		return nil
	})
	digest := ""
	eventually(t, limitReady, "the repair waits for approval", func(ctx context.Context) error {
		c, err := getCluster(ctx, name)
		if err != nil || c.Status.Plan == nil || c.Status.Plan.Approved {
			return fmt.Errorf("plan %+v, %w", c.Status.Plan, err)
		}
		step := c.Status.Plan.Steps[0]
		if step.Action != v1alpha1.ActionRepairThinPool || step.Host != slotNode || len(step.Volumes) != 2 {
			return fmt.Errorf("first step %+v", step)
		}
		digest = c.Status.Plan.Digest
		return nil
	})
	if out := onNode(t, slotNode, "dmsetup ls"); strings.Contains(out, "quarry--"+name) {
		t.Errorf("before the approval something is active: %s", out)
	}
	approve(t, name, digest)
	waitReady(t, name, limitPod)
	waitPod(t, pod(t, name+"-after", slotNode, "grep first /data0/file; grep second /data1/file", first, second), corev1.PodSucceeded)
	m, err := memberOf(t.Context(), name, slotNode)
	if err != nil || !slices.Equal(m.Status.ThinPool.KeptMetadata, []string{"quarry-thin_meta0"}) {
		t.Errorf("member %+v, %v", m.Status.ThinPool, err)
	}
}
