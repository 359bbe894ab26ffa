//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestIscsiServedBehindLostTarget ends iscsid on a node while one of two targets is gone. The next one takes the session of the other target in its care all the same, and the pod
// goes on: that target is lost then, and comes back to the same session. Once the first target is back both are served, without a word of a person.
func TestIscsiServedBehindLostTarget(t *testing.T) {
	turn(t, 0, 20)
	ownServer(t)
	const node = "n1"
	gone, behind := lun(t, "gone", "--size", "256M"), lun(t, "behind", "--size", "256M")
	c := claim(t, "behind", behind.Name, "32Mi")
	writer := waitPod(t, pod(t, "behind-writer", node, counting, c), corev1.PodRunning)
	waitSynced(t, writer, 10)
	comesBack := stopped(t, gone)
	waitPhase(t, gone, v1alpha1.PhaseWarning, string(gone.Spec.Targets[0]))
	onNode(t, node, "pkill -KILL -x iscsid")
	waitServed(t, behind, node)
	waitRunning(t, behind, limitPod)
	waitSynced(t, writer, lastSynced(t, writer)+10)

	restarted := stopped(t, behind)
	waitPhase(t, behind, v1alpha1.PhaseWarning, string(behind.Spec.Targets[0]))
	restarted()
	waitRunning(t, behind, limitPod)
	waitSynced(t, writer, lastSynced(t, writer)+10)
	comesBack()
	waitRunning(t, gone, limitPod)
	if restarts := restartsOf(t, writer); restarts != 0 {
		t.Errorf("the writer was restarted %d times", restarts)
	}
	synced := lastSynced(t, writer)
	remove(t, writer)
	checkCounted(t, c, "n2", synced)
}

// stopped stops the target of an Iscsi until start is called, or the test ends.
func stopped(t *testing.T, i *v1alpha1.Iscsi) (start func()) {
	t.Helper()
	lab(t, "storage", "target-stop", i.Name)
	start = sync.OnceFunc(func() { lab(t, "storage", "target-start", i.Name) })
	t.Cleanup(start)
	return start
}

// waitServed waits until iscsid on a node says that it has the session of an Iscsi in its care. An iscsid that was just started says nothing of sessions that it has not come to.
func waitServed(t *testing.T, i *v1alpha1.Iscsi, node string) {
	t.Helper()
	eventually(t, limitPod, "iscsid on "+node+" serves "+i.Name, func(context.Context) error {
		out, err := tryOnNode(node, `timeout 10 nsenter --target "$(pgrep -x iscsid | head -n 1)" --mount --net iscsiadm --mode session --print 1`)
		if err != nil {
			return err
		}
		for _, session := range strings.Split(out, "Target: ") {
			if strings.HasPrefix(session, i.Spec.IQN+" ") {
				if strings.Contains(session, "iSCSI Connection State: LOGGED IN") && strings.Contains(session, "Internal iscsid Session State: NO CHANGE") {
					return nil
				}
				return errors.New(session)
			}
		}
		return fmt.Errorf("no session of %s: %s", i.Spec.IQN, out)
	})
}
