//go:build e2e

package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// volumeLimits has a pod write to a volume until it is full, makes the volume larger under the pod, and mounts it read-only on another node. What the kubelet would tell of it is not asked for: it knows no statistics in a user-mode kernel.
func volumeLimits(t *testing.T, c *v1alpha1.Cluster) {
	v := claim(t, c.Name+"-limits", c.Name, "64Mi", shared)
	bound(t, v)
	user := waitPod(t, pod(t, c.Name+"-fills", nodes[0], "echo kept > /data0/kept; sync; sleep 3600", v), corev1.PodRunning)
	size := func() string { return strings.Fields(inPod(t, user, "df -P -k /data0 | tail -n 1"))[1] }
	if got := size(); got != "65536" {
		t.Errorf("the pod sees %s KiB, want 64 MiB", got)
	}
	// Ceph tells its clients after some seconds how much is in use, so that more than the quota may be written before one is refused.
	fill := func(name string) string {
		return inPod(t, user, `i=0; while [ $i -lt 40 ]; do i=$((i+1)); dd if=/dev/zero of=/data0/`+name+`$i bs=1M count=8 conv=fsync 2>/tmp/said || { cat /tmp/said; exit 0; }; sleep 1; done`)
	}
	if said := fill("before"); !strings.Contains(strings.ToLower(said), "quota exceeded") {
		t.Errorf("320 MiB were written into 64 MiB: %q", said)
	}
	expand(t, v, user, "128Mi")
	if got := size(); got != "131072" {
		t.Errorf("the pod sees %s KiB, want 128 MiB", got)
	}
	inPod(t, user, "rm -f /data0/before*; sync; dd if=/dev/zero of=/data0/more bs=1M count=80 conv=fsync 2>/dev/null")

	reader := newPod(c.Name+"-reads", nodes[1], "cat /data0/kept; if echo no > /data0/kept; then echo written; fi")
	mountClaim(reader, 0, v)
	reader.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = true
	createObject(t, reader)
	if out := logs(waitPod(t, reader, corev1.PodSucceeded)); !strings.Contains(out, "kept") || !strings.Contains(out, "Read-only file system") || strings.Contains(out, "written") {
		t.Errorf("a pod that mounts the volume read-only says %q", out)
	}
	remove(t, reader)
	remove(t, user)
	remove(t, v)
}
