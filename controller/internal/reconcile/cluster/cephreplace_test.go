package cluster

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/ceph/cephtest"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// passes works and reconciles a number of times.
func (k *kubelet) passes(n int) {
	k.t.Helper()
	for range n {
		k.work()
		if err := k.reconcile("files"); err != nil {
			k.t.Fatal(err)
		}
	}
}

// groups has all placement groups be in a state.
func (k *kubelet) groups(state string) {
	k.model.Change(func() { k.model.Groups = map[string]int{state: 8} })
}

// later lets time pass while somebody looks.
func (k *kubelet) later(d time.Duration) {
	k.t.Helper()
	for ; d > 0; d -= 4 * time.Minute {
		k.ahead.Add(int64(min(d, 4*time.Minute)))
		k.passes(1)
	}
}

func replacementOffered(c *v1alpha1.Cluster) string {
	if c.Status.Plan != nil && slices.ContainsFunc(c.Status.Plan.Steps, func(s v1alpha1.PlanStep) bool {
		return s.Action == v1alpha1.ActionReplaceOSD && strings.Contains(s.Consent, "given up")
	}) {
		return ""
	}
	return "no replacement is offered"
}

// TestCeph_deadDiskIsReplaced: the OSD of a disk that died is given up once a person approves that, and not before. A clean disk becomes an OSD anew.
func TestCeph_deadDiskIsReplaced(t *testing.T) {
	k := newCeph(t, "n1", "n2", "n3")
	k.addFiles(func(s *v1alpha1.ClusterSpec) { s.Ceph = &v1alpha1.CephSpec{Replicas: 2} }, "n1", "n2", "n3")
	k.until(k.served(3, 3))
	uuid := k.member("files", "n1").Spec.Ceph.OSDs[0].UUID
	change := func(change func(*cephtest.OSD)) {
		k.model.Change(func() {
			i := slices.IndexFunc(k.model.OSDs, func(o cephtest.OSD) bool { return o.UUID == uuid })
			if i >= 0 {
				change(&k.model.OSDs[i])
			}
		})
	}
	change(func(o *cephtest.OSD) { o.Up = false })
	k.groups("active+undersized+degraded")
	k.passes(10)
	if replacementOffered(k.get("files")) == "" {
		t.Fatal("it is offered while Ceph still waits for the OSD")
	}
	change(func(o *cephtest.OSD) { o.In = false })
	k.until(replacementOffered)
	c := k.get("files")
	metav1.SetMetaDataAnnotation(&c.ObjectMeta, v1alpha1.AnnotationApprove, c.Status.Plan.Digest)
	if err := k.client.Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	k.until(func(*v1alpha1.Cluster) string {
		if osds := k.member("files", "n1").Spec.Ceph.OSDs; len(osds) != 1 || !osds[0].Replaced {
			return "it is not on record"
		}
		return ""
	})
	// What is on it is not elsewhere yet.
	k.passes(10)
	known := false
	change(func(*cephtest.OSD) { known = true })
	if !known || k.agents["n1"].IsEmpty("sdb") {
		t.Fatal("an OSD with copies that are needed was purged")
	}
	k.groups("active+clean")
	k.until(func(c *v1alpha1.Cluster) string {
		if osds := k.member("files", "n1").Spec.Ceph.OSDs; len(osds) != 1 || osds[0].Replaced || osds[0].Purged {
			return "the disk is not an OSD anew"
		}
		return k.served(3, 3)(c)
	})
}

// TestCeph_approvedApart: of a plan that gives an OSD up and lets clients in a person approves the one, and the other waits on.
func TestCeph_approvedApart(t *testing.T) {
	k := newCeph(t, "n1", "n2", "n3")
	user := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "user"}}
	if err := k.client.Create(t.Context(), user); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.client.Delete(k.t.Context(), user) }) // The test deletes it before that, if it comes so far.
	k.addFiles(func(s *v1alpha1.ClusterSpec) { s.Ceph = &v1alpha1.CephSpec{Replicas: 2} }, "n1", "n2", "n3")
	k.until(k.served(3, 3))
	k.user(true, corev1.ConditionUnknown, "one")
	recorded := func(want bool) func(*v1alpha1.Cluster) string {
		return func(c *v1alpha1.Cluster) string {
			if have := c.Annotations[v1alpha1.AnnotationCephBlocked]; (have != "") != want {
				return "the record is " + have
			}
			return ""
		}
	}
	k.until(recorded(true))
	if err := k.client.Delete(t.Context(), user); err != nil {
		t.Fatal(err)
	}
	uuid := k.member("files", "n1").Spec.Ceph.OSDs[0].UUID
	k.model.Change(func() {
		for i := range k.model.OSDs {
			if o := &k.model.OSDs[i]; o.UUID == uuid {
				o.Up, o.In = false, false
			}
		}
	})
	offered := func(c *v1alpha1.Cluster, action string) string {
		if c.Status.Plan != nil {
			for _, s := range c.Status.Plan.Steps {
				if s.Action == action {
					return s.Digest
				}
			}
		}
		return ""
	}
	k.until(func(c *v1alpha1.Cluster) string {
		if offered(c, v1alpha1.ActionReplaceOSD) == "" || offered(c, v1alpha1.ActionUnblockClient) == "" {
			return "not both are offered"
		}
		return ""
	})
	c := k.get("files")
	metav1.SetMetaDataAnnotation(&c.ObjectMeta, v1alpha1.AnnotationApprove, c.Status.Plan.Digest+"/"+offered(c, v1alpha1.ActionUnblockClient))
	if err := k.client.Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	k.until(func(c *v1alpha1.Cluster) string {
		if c.Annotations[v1alpha1.AnnotationApprove] != "" {
			return "the approval is not used up"
		}
		return recorded(false)(c)
	})
	k.passes(5)
	if c = k.get("files"); offered(c, v1alpha1.ActionReplaceOSD) == "" || k.member("files", "n1").Spec.Ceph.OSDs[0].Replaced {
		t.Error("the OSD was given up as well, or is not offered any more")
	}
}

// TestCeph_autoReplace: a dead OSD whose disk is gone is given up without a person once nothing can be lost by it, and not before.
func TestCeph_autoReplace(t *testing.T) {
	k := newCeph(t, "n1", "n2", "n3")
	k.addFiles(func(s *v1alpha1.ClusterSpec) { s.Ceph = &v1alpha1.CephSpec{Replicas: 2, AutoReplace: true} }, "n1", "n2", "n3")
	k.until(k.served(3, 3))
	uuid := k.member("files", "n1").Spec.Ceph.OSDs[0].UUID
	change := func(change func(*cephtest.OSD)) {
		k.model.Change(func() {
			i := slices.IndexFunc(k.model.OSDs, func(o cephtest.OSD) bool { return o.UUID == uuid })
			if i >= 0 {
				change(&k.model.OSDs[i])
			}
		})
	}
	change(func(o *cephtest.OSD) { o.Up, o.In, o.AutoOut = false, false, true })
	k.groups("active+undersized+degraded")
	k.until(func(c *v1alpha1.Cluster) string {
		if replacementOffered(c) == "" && strings.Contains(strings.Join(c.Status.Ceph.Waits, " "), "not replaced without a person") {
			return ""
		}
		return "it is not left to a person"
	})
	k.groups("active+clean")
	// Its disk still carries it.
	k.passes(10)
	if osds := k.member("files", "n1").Spec.Ceph.OSDs; len(osds) != 1 || osds[0].Replaced {
		t.Fatalf("it is given up: %+v", osds)
	}
	waits := func(want bool) func(*v1alpha1.Cluster) string {
		return func(c *v1alpha1.Cluster) string {
			if strings.Contains(strings.Join(c.Status.Ceph.Waits, " "), "missing for 1h0m0s without a break") == want {
				return ""
			}
			return "whether somebody waits for the disk should be " + strconv.FormatBool(want)
		}
	}
	k.agents["n1"].Unplug("sdb")
	k.until(waits(true))
	// It comes back for a moment: the hour begins anew.
	k.later(59 * time.Minute)
	k.agents["n1"].Plug("sdb")
	k.until(waits(false))
	k.agents["n1"].Unplug("sdb")
	k.until(waits(true))
	k.later(55 * time.Minute)
	if osds := k.member("files", "n1").Spec.Ceph.OSDs; len(osds) != 1 || osds[0].Replaced {
		t.Fatalf("it is given up within the hour: %+v", osds)
	}
	k.later(6 * time.Minute)
	k.until(func(*v1alpha1.Cluster) string {
		if m := k.member("files", "n1"); m == nil || m.Spec.Ceph == nil || len(m.Spec.Ceph.OSDs) > 0 {
			return "the OSD is still on record"
		}
		return ""
	})
	if len(k.agents["n1"].Labels("sdb")) == 0 {
		t.Error("a disk that was away was cleared")
	}
}
