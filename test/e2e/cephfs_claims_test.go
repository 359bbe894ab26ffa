//go:build e2e

package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// csiPort is where the CSI controllers serve their metrics.
const csiPort = 8080

// TestCephFSClaims prints how long claims and pods take with volumes of Ceph, beside local ones: the two take turns in the same rounds. `make bench` reads the
// lines that begin with "CephBench: ".
func TestCephFSClaims(t *testing.T) {
	c := newCephCluster(t, "figures", nodes[0], nodes[1])
	c.Spec.Ceph.Mons, c.Spec.Ceph.MDS, c.Spec.Ceph.Replicas = 1, 1, 2
	began := time.Now()
	runCeph(t, c)
	t.Logf("CephBench: bring-up took %.1f s", time.Since(began).Seconds())
	// It has the third host: no host has both.
	create(t, newCluster("figures-local", nodes[2]))
	waitReady(t, "figures-local", limitPod)

	// The first round has caches filled and connections made, and does not count.
	for round := range 21 {
		who := []string{"figures", "figures-local"}
		if round%2 == 1 {
			who[0], who[1] = who[1], who[0]
		}
		for _, class := range who {
			timeVolume(t, class, round)
		}
	}
	tellResident(t)
}

// timeVolume makes a claim and a pod on its volume, prints how long they took, and removes both.
func timeVolume(t *testing.T, class string, round int) {
	t.Helper()
	node, name, driver := nodes[0], fmt.Sprintf("%s-%d", class, round), "cephfs"
	if class == "figures-local" {
		node, driver = nodes[2], "lvm"
	}
	labels := client.MatchingLabels{"test": name}
	earlier, before := createdBy(t, driver)
	began := time.Now()
	v := claim(t, name, class, "64Mi", func(c *corev1.PersistentVolumeClaim) {
		// A class of local volumes waits for the scheduler, which says it so.
		c.Annotations, c.Labels = map[string]string{annotationSelectedNode: node}, labels
	})
	waitBound(t.Context(), t, labels, map[string]time.Time{name: began})
	tell := func(what string, took time.Duration) {
		if round > 0 {
			t.Logf("CephBench: round %d %s %s took %.3f s", round, driver, what, took.Seconds())
		}
	}
	tell("claim to Bound", time.Since(began))
	calls, after := createdBy(t, driver)
	if calls <= earlier {
		t.Fatalf("the CSI controller of %s counted %v calls of CreateVolume, and %v before", driver, calls, earlier)
	}
	tell("CreateVolume", after-before)
	began = time.Now()
	p := waitPod(t, pod(t, name, node, "echo there > /data0/file; sleep 3600", v), corev1.PodRunning)
	tell("pod to Running", time.Since(began))
	remove(t, p)
	remove(t, v)
}

// createdBy returns how many calls of CreateVolume the CSI controller of a driver has had, and the time that all of them took.
func createdBy(t *testing.T, driver string) (calls float64, took time.Duration) {
	t.Helper()
	pods := &corev1.PodList{}
	name := "quarry-csi-" + driver
	if err := kube.List(t.Context(), pods, client.InNamespace(controllerNamespace), client.MatchingLabels{"app.kubernetes.io/name": name}); err != nil {
		t.Fatal(err)
	}
	for _, p := range pods.Items {
		if p.Status.PodIP == "" || p.DeletionTimestamp != nil {
			continue
		}
		text, err := metricsOf(t.Context(), p.Status.PodIP, csiPort)
		if err != nil {
			t.Fatalf("metrics of pod %s: %v", p.Name, err)
		}
		for line := range strings.Lines(text) {
			metric, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
			number, err := strconv.ParseFloat(value, 64)
			switch {
			case err != nil || !strings.Contains(metric, `method="CreateVolume"`):
			case strings.HasPrefix(metric, "quarry_csi_duration_seconds_sum"):
				took += time.Duration(number * float64(time.Second))
			case strings.HasPrefix(metric, "quarry_csi_duration_seconds_count"):
				calls += number
			}
		}
	}
	return calls, took
}

// tellResident prints what each daemon of Ceph has in memory.
func tellResident(t *testing.T) {
	t.Helper()
	for _, node := range nodes {
		out := onNode(t, node, `for p in /proc/[0-9]*; do n=$(cat $p/comm 2>/dev/null) || continue
			case $n in ceph-mon|ceph-mgr|ceph-osd|ceph-mds) echo "$n $(awk '/^VmRSS/ {print $2} /^RssAnon/ {print $2}' $p/status | tr '\n' ' ')";; esac; done`)
		for line := range strings.Lines(out) {
			if f := strings.Fields(line); len(f) == 3 {
				t.Logf("CephBench: %s has %s KiB, of it anonymous %s KiB", f[0], f[1], f[2])
			}
		}
	}
}
