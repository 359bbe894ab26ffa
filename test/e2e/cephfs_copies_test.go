//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
)

// copiesGoTheirWays makes a snapshot and a clone of a volume that a pod writes to. Both have what was there at their moments, are written on another node, and outlive
// their volume. In the end no subvolume is left.
func copiesGoTheirWays(t *testing.T, c *v1alpha1.Cluster) {
	origin := claim(t, "ceph-origin", c.Name, "64Mi", shared)
	writer := waitPod(t, pod(t, "ceph-origin-writer", nodes[0], "echo first > /data0/file; sync; echo written; sleep 3600", origin), corev1.PodRunning)
	eventually(t, limitPod, "the first content is written", func(context.Context) error {
		if out := logs(writer); !strings.Contains(out, "written") {
			return fmt.Errorf("log %q", out)
		}
		return nil
	})
	kept := snapshot(t, "ceph-kept", c.Name, origin)
	inPod(t, writer, "echo second > /data0/file; sync")

	restored := claim(t, "ceph-restored", c.Name, "64Mi", shared, from(snapshotKind.Kind, kept.GetName()))
	// Larger than its source: its quota is.
	cloned := claim(t, "ceph-cloned", c.Name, "96Mi", shared, from("PersistentVolumeClaim", origin.Name))
	read := "cat /data0/file /data1/file; df -P -m /data1 | tail -n 1; echo third > /data0/file; sync"
	out := logs(waitPod(t, pod(t, "ceph-copies", nodes[1], read, restored, cloned), corev1.PodSucceeded))
	var first, second, device string
	size := 0
	if _, err := fmt.Sscan(out, &first, &second, &device, &size); err != nil || first != "first" || second != "second" || size != 96 {
		t.Errorf("the snapshot, the clone, and the size of the clone: %q, %v", out, err)
	}
	if out := inPod(t, writer, "cat /data0/file"); strings.TrimSpace(out) != "second" {
		t.Errorf("the origin holds %q after its copy was written", out)
	}

	remove(t, writer)
	remove(t, origin)
	again := claim(t, "ceph-again", c.Name, "64Mi", shared, from(snapshotKind.Kind, kept.GetName()))
	out = logs(waitPod(t, pod(t, "ceph-again-reader", nodes[2], "cat /data0/file /data1/file /data2/file", restored, cloned, again), corev1.PodSucceeded))
	if out != "third\nsecond\nfirst\n" {
		t.Errorf("without their origin the copies and the snapshot hold %q", out)
	}
	for _, p := range []string{"ceph-copies", "ceph-again-reader"} {
		remove(t, newPod(p, "", ""))
	}
	for _, v := range []*corev1.PersistentVolumeClaim{restored, cloned, again} {
		remove(t, v)
	}
	remove(t, kept)
	eventually(t, limitPod, "no subvolume is left", func(ctx context.Context) error {
		out, err := tryCeph(ctx, c, "fs", "subvolume", "ls", cephname.Filesystem, cephname.Group, "--format", "json")
		if err == nil && strings.TrimSpace(out) != "[]" {
			err = fmt.Errorf("subvolumes %s", out)
		}
		return err
	})
}
