//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// volumeLimits has a pod write to a volume until it is full, makes the volume larger under the pod, and mounts it read-only on another node. The kubelet tells of its size and its files.
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
	volumeStats(t, user, v, 128<<20)
	remove(t, reader)
	remove(t, user)
	remove(t, v)
}

// volumeStats waits until the kubelet tells of the volume of a claim that a pod uses, as monitoring shows it.
func volumeStats(t *testing.T, user *corev1.Pod, v *corev1.PersistentVolumeClaim, size uint64) {
	t.Helper()
	type stats struct {
		Capacity uint64 `json:"capacityBytes"`
		Used     uint64 `json:"usedBytes"`
		Inodes   uint64 `json:"inodesUsed"`
		Claim    struct {
			Name string `json:"name"`
		} `json:"pvcRef"`
		Health struct {
			Abnormal bool `json:"abnormal"`
		} `json:"volumeHealthStats"`
	}
	var all struct {
		Pods []struct {
			Ref     struct{ Name string } `json:"podRef"`
			Volumes []stats               `json:"volume"`
		}
	}
	eventually(t, 4*time.Minute, "the kubelet tells of "+v.Name, func(context.Context) error {
		out, err := tryLab("kubectl", "get", "--raw", "/api/v1/nodes/"+nodes[0]+"/proxy/stats/summary")
		if err == nil {
			err = json.Unmarshal([]byte(out), &all)
		}
		if err != nil {
			return err
		}
		for _, p := range all.Pods {
			i := slices.IndexFunc(p.Volumes, func(s stats) bool { return s.Claim.Name == v.Name })
			// The kubelet looks once a minute, and what it saw before the volume grew stands until then.
			if p.Ref.Name == user.Name && i >= 0 && p.Volumes[i].Capacity == size && p.Volumes[i].Used >= 80<<20 && p.Volumes[i].Inodes >= 2 && !p.Volumes[i].Health.Abnormal {
				t.Logf("%+v", p.Volumes[i])
				return nil
			}
		}
		return fmt.Errorf("%+v", all)
	})
}
