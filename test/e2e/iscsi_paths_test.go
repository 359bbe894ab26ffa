//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// runMultipathd runs multipathd on every node as docs/iscsi.md wants it, until the test ends.
func runMultipathd(t *testing.T) {
	t.Helper()
	for _, n := range nodes {
		onNode(t, n, `mkdir -p /etc/multipath; modprobe dm-multipath
			printf 'defaults {\n user_friendly_names no\n find_multipaths no\n}\noverrides {\n no_path_retry 12\n}\nblacklist {\n devnode "^(ubd|loop)"\n}\n' > /etc/multipath.conf
			multipathd; for i in $(seq 50); do grep -q multipathd /proc/net/unix && exit; sleep 0.1; done; exit 1`)
		t.Cleanup(func() {
			onNode(t, n, "multipathd shutdown || true; rm -f /etc/multipath.conf; for i in $(seq 50); do pgrep -x multipathd >/dev/null || exit 0; sleep 0.1; done; exit 1")
		})
	}
}

// doctorSaysOfPaths checks what the agent's doctor says of a node that has sessions over two paths: all is well, and it names a setting of multipathd that would hold writes back for ever.
func doctorSaysOfPaths(t *testing.T, node string) {
	t.Helper()
	call := []string{"kubectl", "-n", agentNamespace, "exec", agentPod(t, node).Name, "--", "agent", "doctor", "--for", "iscsi"}
	const setting, queue = "no_path_retry 12", "no_path_retry queue"
	out, err := tryLab(call...)
	if t.Log(out); err != nil || !strings.Contains(out, "keeps reservations") || !strings.Contains(out, "(no_path_retry)") || strings.Contains(out, "unknown") {
		t.Errorf("a node that lacks nothing: %v", err)
	}
	change := func(from, to string) {
		onNode(t, node, "sed -i 's/"+from+"/"+to+"/' /etc/multipath.conf; multipathd reconfigure")
	}
	change(setting, queue)
	defer change(queue, setting)
	eventually(t, limitReady, "the doctor warns", func(context.Context) error {
		if out, err := tryLab(call...); err == nil || !strings.Contains(out, "for ever") {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

// TestIscsiPathLost takes one of two paths to the LUN away, then brings it back and takes the other. The pod writes on, the Iscsi names the path that is down,
// and is Running again by itself.
func TestIscsiPathLost(t *testing.T) {
	turn(t, 7, 20)
	ownServer(t)
	runMultipathd(t)
	i := target(t, "paths", "--size", "256M", "--portals", "2")
	if len(i.Spec.Targets) != 2 {
		t.Fatalf("portals %v", i.Spec.Targets)
	}
	i.Spec.Multipath = true
	create(t, i)
	waitRunning(t, i, 2*limitPod)
	c := claim(t, "paths", i.Name, "32Mi")
	writer := waitPod(t, pod(t, "paths-writer", "n1", counting, c), corev1.PodRunning)
	waitSynced(t, writer, 10)
	doctorSaysOfPaths(t, "n1")
	for n, path := range []string{"1", "2"} {
		lab(t, "storage", "portal-cut", i.Name, path)
		cut := true
		t.Cleanup(func() {
			if cut {
				lab(t, "storage", "portal-heal", i.Name, path)
			}
		})
		waitPhase(t, i, v1alpha1.PhaseWarning, string(i.Spec.Targets[n]))
		waitSynced(t, writer, lastSynced(t, writer)+10)
		lab(t, "storage", "portal-heal", i.Name, path)
		cut = false
		waitRunning(t, i, limitPod)
	}
	if restarts := restartsOf(t, writer); restarts != 0 {
		t.Errorf("the writer was restarted %d times", restarts)
	}
	synced := lastSynced(t, writer)
	remove(t, writer)
	checkCounted(t, c, "n3", synced)
}
