//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
)

const (
	// limitCeph is how long the daemons of three hosts may take to come up on a machine that does other work as well.
	limitCeph = 15 * time.Minute
	// limitCephGone is how long they may take to go.
	limitCephGone = 10 * time.Minute
)

// smallOptions let daemons serve in the nodes of the lab, which have 2 GiB.
var smallOptions = map[string]v1alpha1.CephOption{
	"osd.bluestore_cache_autotune": "false", "osd.bluestore_cache_size": "33554432",
	"osd.osd_op_num_shards": "1", "osd.osd_op_num_threads_per_shard": "1", "osd.osd_max_pg_log_entries": "100", "osd.osd_map_cache_size": "20",
	"osd.osd_mclock_skip_benchmark": "true", "mon.mon_memory_autotune": "false", "mon.rocksdb_cache_size": "33554432",
	"mon.mon_data_avail_warn": "5", "mon.mon_data_avail_crit": "2", "mds.mds_cache_memory_limit": "67108864", "global.ms_async_op_threads": "1",
	// Both processors have other work.
	"global.osd_pool_default_pg_autoscale_mode": "off", "global.osd_pool_default_pg_num": "8",
	"global.osd_heartbeat_grace": "60", "global.mds_beacon_grace": "60",
	// Monitors that wait for a processor are no reason for another election.
	"mon.mon_lease": "15",
	// A node takes the time of the machine when it boots, however long that takes then.
	"mon.mon_clock_drift_allowed": "1",
}

// loadCeph brings the image of Ceph into the nodes, once for all journeys.
var loadCeph = sync.OnceValue(func() error {
	_, err := tryLab("load", filepath.Join(repoRoot(), "dist", "ceph.tar"))
	return err
})

// needCeph skips a journey where nobody asked for those of Ceph: each takes all disks of all nodes, and a quarter of an hour.
func needCeph(t *testing.T) {
	t.Helper()
	if os.Getenv("QUARRY_CEPH") == "" {
		t.Skip("it takes all disks of all nodes, and a quarter of an hour: make e2e-ceph RUN=" + t.Name())
	}
}

// newCephCluster is a Cluster of type cephfs, with daemons as small as the nodes of the lab need.
func newCephCluster(t *testing.T, name string, hosts ...string) *v1alpha1.Cluster {
	t.Helper()
	needCeph(t)
	if err := loadCeph(); err != nil {
		t.Fatalf("no image of Ceph: %v", err)
	}
	return smallCeph(name, hosts...)
}

// smallCeph is such a Cluster where nobody needs its image.
func smallCeph(name string, hosts ...string) *v1alpha1.Cluster {
	c := newCluster(name, hosts...)
	c.Spec.StorageType = v1alpha1.StorageTypeCephFS
	c.Spec.Ceph = &v1alpha1.CephSpec{Config: smallOptions, Resources: &v1alpha1.CephResources{
		Mon: memory("64Mi", "512Mi"), Mgr: memory("128Mi", "512Mi"), OSD: memory("64Mi", "512Mi"), MDS: memory("32Mi", "256Mi"),
	}}
	return c
}

func memory(request, limit string) *corev1.ResourceRequirements {
	return &corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(request), corev1.ResourceCPU: resource.MustParse("10m")},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(limit)},
	}
}

// startCeph makes a Cluster and waits until it is ready.
func startCeph(t *testing.T, name string, hosts ...string) *v1alpha1.Cluster {
	t.Helper()
	c := newCephCluster(t, name, hosts...)
	runCeph(t, c)
	return c
}

// runCeph creates a Cluster and waits until it is ready. The time and the memory that it takes are told in the log.
func runCeph(t *testing.T, c *v1alpha1.Cluster) {
	t.Helper()
	create(t, c)
	t.Cleanup(func() {
		if t.Failed() {
			dumpCeph(t, c)
		}
		// The removal of all daemons takes longer than what tests make otherwise.
		removeWithin(t, c, limitCephGone)
	})
	// What Ceph warns of where both processors have other work, such as slow heartbeats, keeps no volume from being served.
	eventually(t, limitCeph, "Cluster "+c.Name+" is ready", func(ctx context.Context) error {
		if err := kube.Get(ctx, client.ObjectKeyFromObject(c), c); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ConditionReady) {
			return fmt.Errorf("phase %s: %s", c.Status.Phase, c.Status.Message)
		}
		return nil
	})
	tellMemory(t)
}

// dumpCeph prints what a user would look at.
func dumpCeph(t *testing.T, c *v1alpha1.Cluster) {
	t.Helper()
	for _, args := range [][]string{
		{"kubectl", "-n", cephname.Namespace, "get", "deployments,pods", "-o", "wide"},
		{"kubectl", "get", "clusters." + v1alpha1.Group, c.Name, "-o", "yaml"},
		{"kubectl", "-n", cephname.Namespace, "get", "events", "--sort-by=.lastTimestamp"},
	} {
		out, err := tryLab(args...)
		t.Logf("%s\n%s%v", strings.Join(args, " "), out, err)
	}
	out, err := tryCeph(context.Background(), c, "status")
	t.Logf("ceph status\n%s%v", out, err)
}

// tryCeph runs ceph beside a monitor of the Cluster, as a user does.
func tryCeph(ctx context.Context, c *v1alpha1.Cluster, args ...string) (string, error) {
	return besideMonitor(ctx, c, append([]string{"ceph", "--connect-timeout", "20"}, args...)...)
}

// besideMonitor runs a program in the pod of a monitor of the Cluster.
func besideMonitor(ctx context.Context, c *v1alpha1.Cluster, args ...string) (string, error) {
	pods := &corev1.PodList{}
	err := kube.List(ctx, pods, client.InNamespace(cephname.Namespace),
		client.MatchingLabels{cephname.LabelFSID: c.FSID(), cephname.LabelDaemon: cephname.DaemonMonitor})
	if err != nil {
		return "", err
	}
	// A pod on a host without power counts as running for some minutes, and nobody answers there: it is asked last.
	slices.SortStableFunc(pods.Items, func(a, b corev1.Pod) int {
		switch {
		case ready(a) == ready(b):
			return 0
		case ready(a):
			return -1
		}
		return 1
	})
	failed := errors.New("no monitor runs")
	for _, p := range pods.Items {
		if p.Status.Phase != corev1.PodRunning {
			continue
		}
		command := append([]string{"kubectl", "-n", cephname.Namespace, "exec", p.Name, "-c", cephname.ContainerMonitor, "--", "timeout", "60"}, args...)
		out, err := tryLab(command...)
		if err == nil {
			return out, nil
		}
		failed = err
	}
	return "", failed
}

// question is a command of Ceph without its program, whose start takes most of the time on a node with much to do.
type question struct {
	Prefix string   `json:"prefix"`
	IDs    []string `json:"ids,omitempty"`
	Format string   `json:"format"`
}

// asks is a program that asks the monitors, or the manager, and prints each answer on a line.
const asks = `import json, os, rados, sys
c = rados.Rados(name="client.admin", conffile=rados.Rados.DEFAULT_CONF_FILES)
c.connect(timeout=20)
for q in sys.argv[1:]:
    ask = c.mgr_command if "safe-to-destroy" in q else c.mon_command
    code, out, said = ask(q, b"")[:3]
    if code:
        sys.exit("%s: %d %s" % (q, code, said))
    print(json.dumps(json.loads(out)))
sys.stdout.flush()
os._exit(0)  # Threads of the library crash now and then while the interpreter ends.`

// askCeph asks Ceph all at once, and reads the answers into what is given.
func askCeph(ctx context.Context, c *v1alpha1.Cluster, questions []question, into ...any) error {
	args := []string{"python3", "-c", asks}
	for _, q := range questions {
		q.Format = "json"
		text, err := json.Marshal(q)
		if err != nil {
			return err
		}
		args = append(args, string(text))
	}
	out, err := besideMonitor(ctx, c, args...)
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != len(into) {
		return fmt.Errorf("%d answers to %d questions: %s", len(lines), len(into), out)
	}
	for i, line := range lines {
		if err := json.Unmarshal([]byte(line), into[i]); err != nil {
			return err
		}
	}
	return nil
}

func inCeph(t *testing.T, c *v1alpha1.Cluster, args ...string) string {
	t.Helper()
	out, err := tryCeph(t.Context(), c, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// tellMemory says what the daemons take on each node.
func tellMemory(t *testing.T) {
	t.Helper()
	for _, node := range nodes {
		if out, err := tryOnNode(node, `for p in /proc/[0-9]*; do n=$(cat $p/comm 2>/dev/null) || continue
			case $n in ceph-*|quarry*|agent|kubelet|containerd) echo "$n $(awk '/^VmRSS/ {print int($2/1024)}' $p/status)MB";; esac; done | sort | tr '\n' ' '
			awk '/^MemAvailable/ {print "available " int($2/1024) "MB"}' /proc/meminfo`); err == nil {
			t.Logf("%s: %s", node, strings.TrimSpace(out))
		}
	}
}

// waitCephGone waits until a Cluster, and all that was made for it, is gone.
func waitCephGone(t *testing.T, c *v1alpha1.Cluster) {
	t.Helper()
	eventually(t, limitCephGone, "Cluster "+c.Name+" is gone", func(ctx context.Context) error {
		now, err := getCluster(ctx, c.Name)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		if err == nil {
			return fmt.Errorf("phase %s: %s", now.Status.Phase, now.Status.Message)
		}
		left, err := tryLab("kubectl", "-n", cephname.Namespace, "get", "deployments,pods,secrets,configmaps,services,poddisruptionbudgets", "-l", cephname.LabelFSID+"="+c.FSID(), "-o", "name", "--ignore-not-found")
		if err == nil && strings.TrimSpace(left) != "" {
			err = fmt.Errorf("still there: %s", left)
		}
		return err
	})
}

// noLabel fails if a disk carries a label of Ceph at any of its places.
func noLabel(t *testing.T, node, device string) {
	t.Helper()
	for _, mib := range []int{0, 1024} {
		out := onNode(t, node, fmt.Sprintf("dd if=%s bs=22 iflag=skip_bytes skip=%d count=1 status=none | tr -d '\\0'", device, mib<<20))
		if strings.Contains(out, "bluestore") {
			t.Errorf("%s on %s carries a label at %d MiB", device, node, mib)
		}
	}
}
