//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestCephFSHosts goes through what happens to agents, hosts and images, with one Cluster of three copies, since its making takes ten minutes, and while a pod writes: agents die while they make OSDs, a host is out of
// service and on the blocklist until it was booted anew, no other one is drained before that, the daemons get another image, a monitor moves off a host that cannot leave, and in the end nothing is left.
func TestCephFSHosts(t *testing.T) {
	needCeph(t)
	patient(t, 2)
	c := newCephCluster(t, "hosts", nodes...)
	c.Spec.Ceph.Mons = 1
	killInPrep(t)
	runCeph(t, c)
	killedInPrep(t, c)
	w := keepWriting(t, c, nodes[0], nodes[1])
	t.Run("OutOfService", func(t *testing.T) { hostOutOfService(t, c, w, nodes[2]) })
	t.Run("Image", func(t *testing.T) { otherImage(t, c, w) })
	t.Run("MonitorMoves", func(t *testing.T) { monitorMoves(t, c, w) })
	w.end(t)
	t.Run("Deleted", func(t *testing.T) { deletedClean(t, c, nodes...) })
}

// allUp waits until there is an OSD for each disk of the lab, up and in, and no other one.
func allUp(t *testing.T, c *v1alpha1.Cluster) {
	t.Helper()
	const want = 6
	eventually(t, 8*time.Minute, "all OSDs are up and in", func(ctx context.Context) error {
		m, err := mapOf(ctx, c)
		if up, in := m.count(); err == nil && (len(m.OSDs) != want || up != want || in != want) {
			err = fmt.Errorf("%+v", m.OSDs)
		}
		return err
	})
}

// blocked wants that all clients at an address are on Ceph's blocklist, or that they are not.
func blocked(ctx context.Context, c *v1alpha1.Cluster, address string, want bool) error {
	m, err := mapOf(ctx, c)
	if _, is := m.Blocklist[address+":0/0"]; err == nil && is != want {
		err = fmt.Errorf("blocklist %v", m.Blocklist)
	}
	return err
}

// hostOutOfService takes the power from a host and taints it. Its clients are blocked until it was booted anew and the taint is off; its OSDs serve afterwards. Another host is drained then, and not before.
func hostOutOfService(t *testing.T, c *v1alpha1.Cluster, w *writer, host string) {
	n := &corev1.Node{}
	if err := kube.Get(t.Context(), client.ObjectKey{Name: host}, n); err != nil {
		t.Fatal(err)
	}
	address := addressOf(t, host)
	const taint = corev1.TaintNodeOutOfService + "=nodeshutdown:NoExecute"
	lab(t, "node", "kill", host)
	t.Cleanup(func() {
		_, _ = tryLab("kubectl", "taint", "node", host, taint+"-") // Both are done already where the test got that far.
		_, _ = tryLab("node", "start", host)
	})
	lab(t, "kubectl", "taint", "node", host, taint)
	eventually(t, 6*time.Minute, "the clients at "+address+" are blocked", func(ctx context.Context) error { return blocked(ctx, c, address, true) })
	w.check(t)
	t.Run("OtherRefused", func(t *testing.T) { drainRefused(t, c, nodes[1]) })
	lab(t, "node", "start", host)
	eventually(t, 6*time.Minute, host+" is ready after its boot", func(ctx context.Context) error {
		now := &corev1.Node{}
		if err := kube.Get(ctx, client.ObjectKey{Name: host}, now); err != nil {
			return err
		}
		for _, have := range now.Status.Conditions {
			if have.Type == corev1.NodeReady && have.Status == corev1.ConditionTrue && now.Status.NodeInfo.BootID != n.Status.NodeInfo.BootID {
				return nil
			}
		}
		return fmt.Errorf("boot %s, %+v", now.Status.NodeInfo.BootID, now.Status.Conditions)
	})
	eventually(t, 3*time.Minute, "the Cluster says that the taint keeps them blocked", func(ctx context.Context) error {
		now, err := getCluster(ctx, c.Name)
		if err == nil && !strings.Contains(waitsOf(now), "node "+host+" is out of service") {
			err = errors.New(waitsOf(now))
		}
		return errors.Join(err, blocked(ctx, c, address, true))
	})
	lab(t, "kubectl", "taint", "node", host, taint+"-")
	eventually(t, 4*time.Minute, "the clients at "+address+" are let in", func(ctx context.Context) error { return blocked(ctx, c, address, false) })
	allUp(t, c)
	waitCopies(t, c)
	// What is mounted on the host now reads and writes, and so does everybody else.
	p := waitPod(t, pod(t, c.Name+"-again", host, "cd /data0; cat kept*.sum | md5sum -c - && date > again && sync", w.claim), corev1.PodSucceeded)
	remove(t, p)
	w.check(t)
	t.Run("OtherDrained", func(t *testing.T) { hostDrains(t, c, w, nodes[1]) })
}

// otherImage gives the daemons an image of another name with the same programs. Each gets it in its turn, while a pod writes; the monitor first, after an approval, since it is the only one.
func otherImage(t *testing.T, c *v1alpha1.Cluster, w *writer) {
	const image = v1alpha1.CephImage + "-again"
	for _, node := range nodes {
		onNode(t, node, "ctr -n k8s.io images tag --force "+v1alpha1.CephImage+" "+image)
	}
	update(t, c.Name, func(c *v1alpha1.Cluster) { c.Spec.Ceph.Image = image })
	approveMonitor(t, c)
	said, most := "", 0
	eventually(t, 2*limitCeph, "every daemon has the other image", func(ctx context.Context) error {
		now, err := getCluster(ctx, c.Name)
		if err != nil {
			return err
		}
		// An OSD is away while it starts anew, and never two of them. Ceph is not asked all the time: it has other work.
		time.Sleep(10 * time.Second)
		if m, err := mapOf(ctx, c); err == nil {
			up, _ := m.count()
			most = max(most, len(m.OSDs)-up)
		}
		have := meta.FindStatusCondition(now.Status.Conditions, v1alpha1.ConditionDaemonsCurrent)
		if have == nil {
			return errors.New("nothing is said of the images")
		}
		if have.Message != said {
			said = have.Message
			t.Log(said)
		}
		if have.Status != "True" || !strings.Contains(said, image) {
			return errors.New(said)
		}
		return nil
	})
	t.Logf("at most %d OSDs were seen down at once", most)
	if most > 1 {
		t.Errorf("%d OSDs were down at the same time", most)
	}
	deployedWith(t, c, image)
	allUp(t, c)
	waitCopies(t, c)
	w.check(t)
}

// approveMonitor approves that the only monitor is replaced: nobody else does.
func approveMonitor(t *testing.T, c *v1alpha1.Cluster) {
	t.Helper()
	eventually(t, 3*time.Minute, "a person is asked about the only monitor", func(ctx context.Context) error {
		now, err := getCluster(ctx, c.Name)
		if err != nil {
			return err
		}
		if p := now.Status.Plan; p == nil || p.Count != 1 || p.Steps[0].Action != v1alpha1.ActionReplaceDaemon || !strings.Contains(p.Steps[0].Consent, "Nothing is served") {
			return fmt.Errorf("plan %+v", p)
		}
		approve(t, c.Name, now.Status.Plan.Digest)
		return nil
	})
}

// deployedWith wants every daemon deployed with an image.
func deployedWith(t *testing.T, c *v1alpha1.Cluster, image string) {
	t.Helper()
	have, err := deployed(t.Context(), c)
	if err != nil || len(have) != 1 || len(have[image]) == 0 {
		t.Errorf("daemons by their images: %v, %v", have, err)
	}
}

// monitorsOf are the names of the monitors on record, by their hosts.
func monitorsOf(ctx context.Context, c *v1alpha1.Cluster) (map[string]string, error) {
	all, err := membersOf(ctx, c.Name)
	out := map[string]string{}
	for _, m := range all {
		if m.Spec.Ceph != nil && m.Spec.Ceph.Monitor != nil {
			out[string(m.Spec.Node)] = m.Spec.Ceph.Monitor.Name
		}
	}
	return out, err
}

// monitorHost is the host of the only monitor on record.
func monitorHost(ctx context.Context, c *v1alpha1.Cluster) (string, error) {
	found, err := monitorsOf(ctx, c)
	if err != nil {
		return "", err
	}
	if len(found) != 1 {
		return "", fmt.Errorf("monitors on record are %v", found)
	}
	return slices.Collect(maps.Keys(found))[0], nil
}

// monitorMoves takes the host of the monitor off the list. The monitor moves to another host; the OSDs stay, for the third copy has no other place, and the Cluster says so for as long as it waits. The host does not come back: its Member is being deleted, and goes with the Cluster.
func monitorMoves(t *testing.T, c *v1alpha1.Cluster, w *writer) {
	from, err := monitorHost(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	setHosts(t, c.Name, slices.DeleteFunc(slices.Clone(nodes), func(node string) bool { return node == from })...)
	eventually(t, limitCeph, "the monitor has moved", func(ctx context.Context) error {
		now, err := monitorHost(ctx, c)
		if err == nil && now == from {
			err = errors.New("it is where it was")
		}
		if err != nil {
			return err
		}
		h, err := healthOf(ctx, c)
		if err == nil && len(h.Quorum) != 1 {
			err = fmt.Errorf("quorum %v", h.Quorum)
		}
		return err
	})
	w.check(t)
	saysWhy(t, c, from)
	time.Sleep(30 * time.Second)
	allUp(t, c)
	w.check(t)
}

// saysWhy waits until the Member of a host that cannot leave says that its OSDs keep their data, and the Cluster why they do. Neither says so in the moments in which Ceph is being asked.
func saysWhy(t *testing.T, c *v1alpha1.Cluster, host string) {
	t.Helper()
	keeps, why := false, false
	eventually(t, 3*time.Minute, "the OSDs of "+host+" keep their data, since the third copy has no other place", func(ctx context.Context) error {
		m, err := memberOf(ctx, c.Name, host)
		if err != nil {
			return err
		}
		now, err := getCluster(ctx, c.Name)
		if err != nil {
			return err
		}
		if !keeps && m.Status.State == "failed" && strings.Contains(m.Status.Message, "on "+host+" keeps its data") {
			keeps = true
			t.Logf("%s: %s", host, m.Status.Message)
		}
		if !why && strings.Contains(waitsOf(now), "3 copies of everything, and only 2 places") {
			why = true
			t.Log(waitsOf(now))
		}
		if !keeps || !why {
			return fmt.Errorf("%s: %s; the Cluster waits for %q", m.Status.State, m.Status.Message, waitsOf(now))
		}
		return nil
	})
}

// deletedClean deletes a Cluster of some hosts and looks at what stays: nothing, on the disks, on the nodes, and in the API.
func deletedClean(t *testing.T, c *v1alpha1.Cluster, hosts ...string) {
	devices := devicesOf(t, c.Name)
	if err := kube.Delete(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	waitCephGone(t, c)
	for _, node := range hosts {
		if len(devices[node]) == 0 {
			t.Errorf("no device was recorded for %s", node)
		}
		for _, device := range devices[node] {
			noLabel(t, node, device)
			checkClean(t, node, device)
		}
		noStore(t, c, node)
	}
}

// noStore fails if data of monitors of a Cluster are on a node.
func noStore(t *testing.T, c *v1alpha1.Cluster, node string) {
	t.Helper()
	if out := onNode(t, node, "ls -d /var/lib/quarry-ceph/"+string(c.UID)+" 2>/dev/null || true"); strings.TrimSpace(out) != "" {
		t.Errorf("data of monitors are left on %s: %s", node, out)
	}
}
