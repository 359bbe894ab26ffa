//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// nfsPatience is how soon a server that is gone has to show.
const nfsPatience = 30 * time.Second

// TestNfsServerDies takes the power of the server while a pod writes. What needs the server waits for it, all else goes on, and what was
// synced is there when the server is back.
func TestNfsServerDies(t *testing.T) {
	turn(t, 18, 20)
	ownServer(t)
	beside := newCluster("beside-nfs", "n1")
	create(t, beside)
	waitRunning(t, beside, limitReady)
	second := secondServer(t, "n3", "second-nfs")
	n := share(t, "dies")
	c := claim(t, "written", n.Name, "100Mi", shared)
	// The number is printed once it is synced.
	writer := waitPod(t, pod(t, "nfs-writer", "n1", `n=0; while true; do
		n=$((n + 1)); echo $n | dd of=/data0/log oflag=append conv=notrunc,fsync 2>/dev/null; echo $n; sleep 0.05; done`, c), corev1.PodRunning)
	waitSynced(t, writer, 20)
	// It only reads: one that has written, and closes its file, waits for the server whatever it is sent.
	victim := waitPod(t, pod(t, "nfs-victim", "n2", `while true; do cat /data0/log > /dev/null; sleep 0.1; done`, c), corev1.PodRunning)

	lab(t, "storage", "kill")
	killed, up := time.Now(), false
	t.Cleanup(func() {
		if !up {
			lab(t, "storage", "up")
		}
	})
	synced := lastSynced(t, writer)
	eventually(t, nfsPatience, "the Nfs is Warning", func(ctx context.Context) error {
		if err := kube.Get(ctx, client.ObjectKeyFromObject(n), n); err != nil {
			return err
		}
		if n.Status.Phase != v1alpha1.PhaseWarning {
			return fmt.Errorf("phase %s: %s", n.Status.Phase, n.Status.Message)
		}
		return nil
	})
	if m := n.Status.Message; !strings.Contains(m, n.Spec.Server) || !strings.Contains(m, "node n") {
		t.Errorf("the message does not say what was tried from which node: %q", m)
	}
	t.Logf("%v after the power cut: %s", time.Since(killed).Round(100*time.Millisecond), n.Status.Message)
	t.Run("what does not need the server goes on", func(t *testing.T) { othersGoOn(t, n, second, beside, victim) })

	lab(t, "storage", "up")
	up = true
	waitRunning(t, n, limitReady)
	waitSynced(t, writer, synced+20)
	if restarts := restartsOf(t, writer); restarts != 0 {
		t.Errorf("the writer was restarted %d times", restarts)
	}
	reader := waitPod(t, pod(t, "nfs-reader", "n3", "cat /data0/log", c), corev1.PodSucceeded)
	lines := strings.Fields(logs(reader))
	if len(lines) < synced {
		t.Errorf("%d lines are there, %d were synced", len(lines), synced)
	}
	for i, line := range lines {
		if line != strconv.Itoa(i+1) {
			t.Fatalf("line %d is %q", i+1, line)
		}
	}
	t.Logf("%d lines were synced before the power cut, %d are there", synced, len(lines))
}

// othersGoOn looks at all that does not need the server while it is away.
func othersGoOn(t *testing.T, n, second *v1alpha1.Nfs, beside *v1alpha1.Cluster, victim *corev1.Pod) {
	if err := kube.Get(t.Context(), client.ObjectKey{Name: n.Name}, &storagev1.StorageClass{}); err != nil {
		t.Errorf("the StorageClass: %v", err)
	}
	// They flush a file of theirs: sync(2) without one waits for all filesystems of the node, that of the dead server among them.
	local := claim(t, "beside-nfs", beside.Name, "64Mi")
	waitPod(t, pod(t, "beside-nfs", "n1", "echo local > /data0/file && sync /data0/file", local), corev1.PodSucceeded)
	other := claim(t, "second-nfs", second.Name, "64Mi", shared)
	for _, node := range []string{"n1", "n2"} {
		waitPod(t, pod(t, "second-nfs-"+node, node, "echo other > /data0/"+node+" && sync /data0/"+node, other), corev1.PodSucceeded)
	}
	begin := time.Now()
	remove(t, victim)
	t.Logf("a pod that was reading is gone after %v", time.Since(begin).Round(100*time.Millisecond))
	for _, node := range nodes {
		sn, err := getNode(t.Context(), node)
		if err != nil || !meta.IsStatusConditionTrue(sn.Status.Conditions, v1alpha1.ConditionAgentConnected) {
			t.Errorf("the agent of %s does not answer: %v %s", node, err, sn.Status.Message)
		}
	}
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(second), second); err != nil || second.Status.Phase != v1alpha1.PhaseRunning {
		t.Errorf("the other Nfs is %s: %s, %v", second.Status.Phase, second.Status.Message, err)
	}
}

// lastSynced returns the last number that a writer printed.
func lastSynced(t *testing.T, writer *corev1.Pod) int {
	t.Helper()
	number, err := tryLastSynced(t.Context(), writer)
	if err != nil {
		t.Fatal(err)
	}
	return number
}

func tryLastSynced(ctx context.Context, writer *corev1.Pod) (int, error) {
	out, err := tryLogs(ctx, writer, ptr.To[int64](1))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(lastLine(out))
}

func waitSynced(t *testing.T, writer *corev1.Pod, want int) {
	t.Helper()
	eventually(t, limitPod, fmt.Sprintf("%d lines are synced", want), func(ctx context.Context) error {
		if n, err := tryLastSynced(ctx, writer); err != nil || n < want {
			return fmt.Errorf("%d lines, %s", n, fmt.Sprint(err))
		}
		return nil
	})
}

func restartsOf(t *testing.T, p *corev1.Pod) int32 {
	t.Helper()
	now := &corev1.Pod{}
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(p), now); err != nil {
		t.Fatal(err)
	}
	var count int32
	for _, c := range now.Status.ContainerStatuses {
		count += c.RestartCount
	}
	return count
}
