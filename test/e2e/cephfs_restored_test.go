//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
)

// TestCephFSRestored: what the API server forgot of a Ceph cluster comes on record again, and nothing is made anew, while a pod goes on writing. First that is a host's monitor and OSDs, which are younger than a
// backup; then everything but the keys, so that another Cluster takes the Ceph cluster up under its own UID.
func TestCephFSRestored(t *testing.T) {
	c := newCephCluster(t, "restored", nodes...)
	c.Spec.Ceph.Replicas, c.Spec.Ceph.MDS = 2, 1
	runCeph(t, c)
	w := keepWriting(t, c, nodes[0], nodes[1])
	before := cephRecords(t, c.Name)

	stopController(t)
	forgetDaemons(t, c, nodes[2])
	erase(t, memberNow(t, c.Name, nodes[2]))
	startController(t)
	began := time.Now()
	waitRecords(t, c.Name, before)
	t.Logf("a monitor and %d OSDs are on record again after %.0f s", len(before[nodes[2]].OSDs), time.Since(began).Seconds())
	waitAllUp(t, c, before)
	w.check(t)

	stopController(t)
	forgetDaemons(t, c, nodes...)
	for _, n := range nodes {
		erase(t, memberNow(t, c.Name, n))
	}
	erase(t, c)
	lab(t, "kubectl", "-n", cephname.Namespace, "delete", "configmaps,services,poddisruptionbudgets", "-l", cephname.LabelFSID+"="+string(c.UID))
	again := c.DeepCopy()
	takes := &v1alpha1.CephTakeUp{FSID: string(c.UID)}
	// Two of three are enough.
	for _, n := range nodes[:2] {
		takes.Monitors = append(takes.Monitors, v1alpha1.CephTakeUpMonitor{Name: before[n].Monitor.Name, Host: v1alpha1.HostName(n)})
	}
	again.Spec.Ceph.TakeUp = takes
	restore(t, again)
	startController(t)
	began = time.Now()
	waitRecords(t, c.Name, before)
	eventually(t, limitCeph, "Cluster "+c.Name+" is ready under another UID", func(ctx context.Context) error {
		now, err := getCluster(ctx, c.Name)
		if err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(now.Status.Conditions, v1alpha1.ConditionReady) || now.UID == c.UID || now.Status.Ceph == nil || now.Status.Ceph.FSID != string(c.UID) {
			return fmt.Errorf("UID %s, phase %s: %s, %+v", now.UID, now.Status.Phase, now.Status.Message, now.Status.Ceph)
		}
		again = now
		return nil
	})
	t.Logf("the Ceph cluster serves under another UID after %.0f s", time.Since(began).Seconds())
	waitAllUp(t, again, before)
	w.check(t)
	w.end(t)
}

// memberNow returns the Member of a host.
func memberNow(t *testing.T, cluster, node string) *v1alpha1.Member {
	t.Helper()
	m, err := memberOf(t.Context(), cluster, node)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// cephRecords is what is on record of the hosts of a Cluster.
func cephRecords(t *testing.T, cluster string) map[string]v1alpha1.MemberCeph {
	t.Helper()
	out := map[string]v1alpha1.MemberCeph{}
	for _, n := range nodes {
		m := memberNow(t, cluster, n)
		if m.Spec.Ceph == nil || m.Spec.Ceph.Monitor == nil || len(m.Spec.Ceph.OSDs) == 0 {
			t.Fatalf("on record of %s is %+v", n, m.Spec.Ceph)
		}
		out[n] = *m.Spec.Ceph
	}
	return out
}

// waitRecords waits until the monitors and the OSDs are on record that were, and no others.
func waitRecords(t *testing.T, cluster string, want map[string]v1alpha1.MemberCeph) {
	t.Helper()
	eventually(t, limitCeph, "all is on record again", func(ctx context.Context) error {
		for node, was := range want {
			m, err := memberOf(ctx, cluster, node)
			if err != nil {
				return err
			}
			r := m.Spec.Ceph
			if r == nil || r.Monitor == nil || *r.Monitor != *was.Monitor || len(r.OSDs) != len(was.OSDs) {
				return fmt.Errorf("on record of %s is %+v; the Member says %s", node, r, m.Status.Message)
			}
			uuids := map[string]bool{}
			for _, o := range r.OSDs {
				uuids[o.UUID] = true
			}
			for _, o := range was.OSDs {
				if !uuids[o.UUID] {
					return fmt.Errorf("OSD %s of %s is not on record", o.UUID, node)
				}
			}
		}
		return nil
	})
}

// waitAllUp waits until every OSD that was on record runs, there is no other one, and all monitors are a quorum.
func waitAllUp(t *testing.T, c *v1alpha1.Cluster, records map[string]v1alpha1.MemberCeph) {
	t.Helper()
	osds := 0
	for _, r := range records {
		osds += len(r.OSDs)
	}
	eventually(t, limitCeph, "all daemons run", func(ctx context.Context) error {
		h, err := healthOf(ctx, c)
		if err != nil {
			return err
		}
		if h.OSDMap.Total != osds || h.OSDMap.Up != osds || h.OSDMap.In != osds || len(h.Quorum) != len(records) {
			return fmt.Errorf("%+v", h)
		}
		return nil
	})
}

// forgetDaemons takes away what is deployed on some hosts for a Ceph cluster, and waits until nothing of it runs. The controller must not run.
func forgetDaemons(t *testing.T, c *v1alpha1.Cluster, hosts ...string) {
	t.Helper()
	of := map[string]bool{}
	for _, h := range hosts {
		of[h] = true
	}
	ours := []client.ListOption{client.InNamespace(cephname.Namespace), client.MatchingLabels{cephname.LabelFSID: c.FSID()}}
	all := &appsv1.DeploymentList{}
	if err := kube.List(t.Context(), all, ours...); err != nil {
		t.Fatal(err)
	}
	gone := map[string]bool{}
	for i := range all.Items {
		d := &all.Items[i]
		kind := d.Labels[cephname.LabelDaemon]
		if !of[d.Annotations[cephname.AnnotationNode]] || len(hosts) == 1 && kind != cephname.DaemonMonitor && kind != cephname.DaemonOSD {
			continue
		}
		if err := kube.Delete(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		gone[kind+"."+d.Labels[cephname.LabelID]] = true
	}
	if len(gone) == 0 {
		t.Fatalf("nothing is deployed on %v", hosts)
	}
	eventually(t, 4*time.Minute, "the daemons ended", func(ctx context.Context) error {
		pods := &corev1.PodList{}
		if err := kube.List(ctx, pods, ours...); err != nil {
			return err
		}
		for _, p := range pods.Items {
			if name := p.Labels[cephname.LabelDaemon] + "." + p.Labels[cephname.LabelID]; gone[name] {
				return fmt.Errorf("%s is there", name)
			}
		}
		return nil
	})
}
