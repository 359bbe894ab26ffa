//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestRetireDisk: a person gives up one of two disks of a group. What lies on it moves to the other one while a pod writes, and goes on moving
// after the agent was killed in the middle. Then the disk is clean, and no storage takes it, even if a Cluster names it.
func TestRetireDisk(t *testing.T) {
	turn(t, 16, 20)
	const name = "retire"
	old, other := plug(t, slotNode, newImage(t, "old", 1<<30), "ubd"), plug(t, slotNode, newImage(t, "other", 1<<30), "ubd")
	path := slotOf(t, old)
	both := []v1alpha1.DevicePath{path, slotOf(t, other)}
	c := newCluster(name, slotNode)
	c.Spec.Devices = &v1alpha1.DeviceSelector{Paths: both[:1]}
	create(t, c)
	waitReady(t, name, limitReady)
	pvc := claim(t, name, name, "700Mi")
	p := waitPod(t, pod(t, name, slotNode, `dd if=/dev/urandom of=/data0/random bs=1M count=200 2>/dev/null
		sha256sum /data0/random > /data0/sum
		i=0; while true; do i=$((i+1)); echo $i >> /data0/log; sync; done`, pvc), corev1.PodRunning)
	eventually(t, limitPod, "the pod writes", func(context.Context) error {
		if n := counted(t, p); n == 0 {
			return fmt.Errorf("no line yet")
		}
		return nil
	})
	update(t, name, func(c *v1alpha1.Cluster) { c.Spec.Devices.Paths = both })
	waitDevices(t, name, both...)

	patch := fmt.Sprintf(`{"spec":{"retire":[{"path":%q}]}}`, path)
	lab(t, "kubectl", "patch", "member", name+"."+slotNode, "--type=merge", "-p", patch)
	eventually(t, limitReady, "a move is under way", func(context.Context) error {
		if out := onNode(t, slotNode, "lvs --foreign -a --noheadings -o lv_name quarry-"+name); !strings.Contains(out, "pvmove") {
			return fmt.Errorf("volumes: %s", out)
		}
		return nil
	})
	before := counted(t, p)
	onNode(t, slotNode, "pkill -KILL -x agent")
	lab(t, "kubectl", "wait", "--for=condition=Retired", "member/"+name+"."+slotNode, "--timeout=180s")

	inPod(t, p, "sha256sum -c /data0/sum")
	if after := counted(t, p); after <= before {
		t.Errorf("the pod wrote %d lines before the agent was killed, and %d after the move", before, after)
	}
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(p), p); err != nil || p.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("the pod: %+v, %v", p.Status.ContainerStatuses, err)
	}
	checkClean(t, slotNode, string(path))
	waitDevices(t, name, both[1])
	waitCondition(t, name, v1alpha1.ConditionDisksReady, v1alpha1.ReasonDeviceRefused, "is retired by Member retire."+slotNode)
	update(t, name, func(c *v1alpha1.Cluster) { c.Spec.Devices.Paths = both[1:] })
	waitReady(t, name, limitReady)
}

// counted returns how many lines a pod has written, each the number of the line.
func counted(t *testing.T, p *corev1.Pod) int {
	t.Helper()
	lines := strings.Fields(inPod(t, p, "cat /data0/log 2>/dev/null || true"))
	for i, line := range lines {
		if line != strconv.Itoa(i+1) && i+1 < len(lines) {
			t.Fatalf("line %d of the log is %q", i+1, line)
		}
	}
	return len(lines)
}

// waitDevices waits until the group of a Cluster on slotNode has these devices and no other.
func waitDevices(t *testing.T, cluster string, want ...v1alpha1.DevicePath) {
	t.Helper()
	eventually(t, limitReady, fmt.Sprintf("the group has %v", want), func(ctx context.Context) error {
		m, err := memberOf(ctx, cluster, slotNode)
		if err != nil {
			return err
		}
		var got []v1alpha1.DevicePath
		for _, d := range m.Status.Devices {
			got = append(got, v1alpha1.DevicePath(d.Path))
		}
		if !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
			return fmt.Errorf("it has %v: %s", got, m.Status.Message)
		}
		return nil
	})
}
