package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestCeph_preflight: a host that cannot run the daemons is told what it lacks, nothing is done there before, and it joins once it can.
func TestCeph_preflight(t *testing.T) {
	k := newCeph(t, "n1", "n2", "n3")
	allocate := func(memory string) {
		n := &corev1.Node{}
		if err := k.client.Get(t.Context(), clientKey("n3"), n); err != nil {
			t.Fatal(err)
		}
		n.Status.Allocatable[corev1.ResourceMemory] = resource.MustParse(memory)
		if err := k.client.Status().Update(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	allocate("2Gi")
	k.agents["n2"].SetClock(time.Hour)
	k.addFiles(func(s *v1alpha1.ClusterSpec) { s.Ceph = &v1alpha1.CephSpec{Replicas: 1, Mons: 1} }, "n1", "n2", "n3")
	says := func(node string, parts ...string) func(*v1alpha1.Cluster) string {
		return func(*v1alpha1.Cluster) string {
			m := k.member("files", node)
			if m == nil {
				return node + " is no member"
			}
			for _, p := range parts {
				if !strings.Contains(m.Status.Message, p) {
					return fmt.Sprintf("%s says %q, without %q", node, m.Status.Message, p)
				}
			}
			return ""
		}
	}
	k.until(says("n2", "clock that differs from those of 2 of 2 other hosts", "Ceph bears 50ms"))
	// There is room for a manager and a metadata server, and not for an OSD beside them.
	k.until(says("n3", "need 3840Mi", "1 OSD with 2Gi each", "pods can have 2Gi there"))
	k.until(k.served(1, 1))
	for _, n := range []string{"n2", "n3"} {
		if m := k.member("files", n); m.Spec.Ceph != nil && len(m.Spec.Ceph.OSDs) > 0 || !k.agents[n].IsEmpty("sdb") || len(k.agents[n].Labels("sdb")) > 0 {
			t.Fatalf("the disk of %s was taken: %+v", n, m.Spec.Ceph)
		}
	}
	allocate("8Gi")
	k.agents["n2"].SetClock(0)
	// What was read of clocks stands for a minute.
	k.restartCeph()
	k.until(k.served(3, 1))
}
