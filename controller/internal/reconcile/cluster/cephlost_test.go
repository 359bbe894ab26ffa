package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/ceph/cephtest"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestCeph_hostLost: of a host that is gone for ever Ceph forgets the monitor and the OSD, once what was on it is elsewhere, and the key of its disk is removed. No volume goes for it.
func TestCeph_hostLost(t *testing.T) {
	k := newCeph(t, "n1", "n2", "n3", "n4")
	k.addFiles(func(s *v1alpha1.ClusterSpec) { s.Ceph = &v1alpha1.CephSpec{Encrypted: true} }, "n1", "n2", "n3", "n4")
	k.until(k.served(4, 3))
	m := k.member("files", "n1")
	uuid := m.Spec.Ceph.OSDs[0].UUID
	change := func(change func(*cephtest.OSD)) {
		k.model.Change(func() {
			if i := slices.IndexFunc(k.model.OSDs, func(o cephtest.OSD) bool { return o.UUID == uuid }); i >= 0 {
				change(&k.model.OSDs[i])
			}
		})
	}
	k.agents["n1"].Kill()
	change(func(o *cephtest.OSD) { o.Up, o.In = false, false })
	k.groups("active+undersized+degraded")
	if err := k.client.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}); err != nil {
		t.Fatal(err)
	}
	k.until(func(c *v1alpha1.Cluster) string {
		m = k.member("files", "n1")
		return k.hasState("n1", "offline")(c)
	})
	c := k.get("files")
	c.Spec.Hosts = []v1alpha1.HostName{"n2", "n3", "n4"}
	if err := k.client.Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	m.Spec.Lost = string(m.UID)
	if err := k.client.Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	// Its copies are not elsewhere yet.
	k.until(func(*v1alpha1.Cluster) string {
		m := k.member("files", "n1")
		if m == nil || !strings.Contains(m.Status.Message, "until Ceph has forgotten what it had: ") || !strings.Contains(m.Status.Message, "No volume has to be deleted") ||
			!strings.Contains(m.Status.Message, "not safe elsewhere") {
			return fmt.Sprintf("member %+v", m)
		}
		return ""
	})
	k.groups("active+clean")
	k.until(func(c *v1alpha1.Cluster) string {
		if m := k.member("files", "n1"); m != nil {
			return "the member is still there: " + m.Status.Message
		}
		if k.diskKeys()[uuid] != nil {
			t.Fatal("the member is gone, and the key of its disk is there")
		}
		return k.served(3, 3)(c)
	})
	known := false
	change(func(*cephtest.OSD) { known = true })
	if known {
		t.Error("Ceph still knows its OSD")
	}
}
