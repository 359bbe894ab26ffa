//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// TestIscsiPodMovesBetweenNodes: the data follows the pod, which is ended in the middle of its writes each time, and the volume is on one node at a time.
// The pod writes under the load of fio, and verifies with it what the one before wrote. It grows on the way. When all is deleted, nothing is left on the nodes and on the LUN.
func TestIscsiPodMovesBetweenNodes(t *testing.T) {
	turn(t, 3, 20)
	moves := 20
	if os.Getenv("QUARRY_TEST_TURN") != "" {
		// Where journeys take turns, one has little time.
		moves = 6
	}
	ownServer(t)
	i := lun(t, "moves", "--size", "256M")
	c := claim(t, "moving", i.Name, "32Mi")
	volume := bound(t, c)
	synced := 0
	for n := range moves {
		node := nodes[n%len(nodes)]
		begin := time.Now()
		p := newPod(fmt.Sprintf("moving-%d", n), node, movedLoad(n))
		withNode(p)
		mountClaim(p, 0, c)
		createObject(t, p)
		waitPod(t, p, corev1.PodRunning)
		t.Logf("IscsiMove: %s after %.1f s", [...]string{"attach to Running", "move to Running"}[min(n, 1)], time.Since(begin).Seconds())
		waitSynced(t, p, synced+10)
		if found := mappedAs(t, volume); len(found) != 1 || !strings.HasPrefix(found[0], node) {
			t.Errorf("the volume is used on %s, and mapped as %q", node, found)
		}
		if n == 1 {
			expand(t, c, p, "64Mi")
		}
		synced = lastSynced(t, p)
		remove(t, p)
	}
	checkCounted(t, c, "n1", synced)
	remove(t, c)
	waitVolumeGone(t, volume)
	remove(t, i)
	for _, n := range nodes {
		left := onNode(t, n, "(cat /sys/class/iscsi_session/*/targetname; ls /etc/iscsi/nodes /var/lib/quarry/iscsi/nodes) 2>/dev/null || true")
		if strings.Contains(left, i.Spec.IQN) {
			t.Errorf("left on %s: %s", n, left)
		}
		if left := mappedAs(t, volume); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	}
}
