//go:build e2e

package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
)

// drainNode has kubectl drain a node as docs/ceph-repair.md tells, opens it again, and returns what the drain printed.
func drainNode(t *testing.T, node string, limit time.Duration) (string, error) {
	t.Helper()
	defer func() {
		if _, err := tryLab("kubectl", "uncordon", node); err != nil {
			t.Error(err)
		}
	}()
	began := time.Now()
	out, err := labCommand("kubectl", "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout="+limit.String()).CombinedOutput()
	t.Logf("drain of %s: %v after %.0f s, %d evictions refused", node, err, time.Since(began).Seconds(), strings.Count(string(out), "disruption budget"))
	return string(out), err
}

// osdPodsOn are the UIDs of the pods of OSDs on a node that nobody has evicted yet.
func osdPodsOn(t *testing.T, c *v1alpha1.Cluster, node string) []string {
	t.Helper()
	pods := &corev1.PodList{}
	err := kube.List(t.Context(), pods, client.InNamespace(cephname.Namespace),
		client.MatchingLabels{cephname.LabelFSID: string(c.UID), cephname.LabelDaemon: cephname.DaemonOSD})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, p := range pods.Items {
		if p.Spec.NodeName == node && p.DeletionTimestamp == nil {
			out = append(out, string(p.UID))
		}
	}
	slices.Sort(out)
	return out
}

// hostDrains drains a host while a pod writes. Each of its OSDs ends, and starts again on it.
func hostDrains(t *testing.T, c *v1alpha1.Cluster, w *writer, host string) {
	before, had := osdPodsOn(t, c, host), 0
	if m, err := mapOf(t.Context(), c); err != nil {
		t.Fatal(err)
	} else {
		had, _ = m.count()
	}
	if len(before) == 0 {
		t.Fatalf("no OSD runs on %s", host)
	}
	if out, err := drainNode(t, host, 8*time.Minute); err != nil {
		t.Fatalf("%s was not drained: %v\n%s", host, err, out)
	}
	for _, uid := range osdPodsOn(t, c, host) {
		if slices.Contains(before, uid) {
			t.Errorf("the pod %s of an OSD was not evicted", uid)
		}
	}
	eventually(t, limitCeph, "all OSDs are up again", func(ctx context.Context) error { return osdsUp(ctx, c, had) })
	waitCopies(t, c)
	w.check(t)
}

// drainRefused drains a host while OSDs of another one are away. None of its own goes.
func drainRefused(t *testing.T, c *v1alpha1.Cluster, host string) {
	before := osdPodsOn(t, c, host)
	out, err := drainNode(t, host, 45*time.Second)
	if err == nil || !strings.Contains(out, "disruption budget") {
		t.Errorf("%s was drained beside a host that is off: %v\n%s", host, err, out)
	}
	if after := osdPodsOn(t, c, host); len(before) == 0 || !slices.Equal(before, after) {
		t.Errorf("OSDs of %s were evicted: %v are left of %v", host, after, before)
	}
}
