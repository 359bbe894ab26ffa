//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestIscsiServedBehindLostTarget ends iscsid on a node while one of two targets is gone. The next one waits at the session of that target, and does not come to the session behind it:
// that one goes on, and is said to be served by nobody. Once the target is back both are served, without a word of a person.
func TestIscsiServedBehindLostTarget(t *testing.T) {
	turn(t, 0, 10)
	ownServer(t)
	const node = "n1"
	gone, behind := lun(t, "gone", "--size", "256M"), lun(t, "behind", "--size", "256M")
	c := claim(t, "behind", behind.Name, "32Mi")
	writer := waitPod(t, pod(t, "behind-writer", node, counting, c), corev1.PodRunning)
	waitSynced(t, writer, 10)
	lab(t, "storage", "target-stop", gone.Name)
	stopped := true
	t.Cleanup(func() {
		if stopped {
			lab(t, "storage", "target-start", gone.Name)
		}
	})
	waitPhase(t, gone, v1alpha1.PhaseWarning, string(gone.Spec.Targets[0]))
	onNode(t, node, "pkill -KILL -x iscsid")
	waitUnserved(t, behind, node)
	waitSynced(t, writer, lastSynced(t, writer)+10)

	lab(t, "storage", "target-start", gone.Name)
	stopped = false
	waitRunning(t, gone, limitPod)
	waitRunning(t, behind, limitPod)
	if restarts := restartsOf(t, writer); restarts != 0 {
		t.Errorf("the writer was restarted %d times", restarts)
	}
	synced := lastSynced(t, writer)
	remove(t, writer)
	checkCounted(t, c, "n2", synced)
}

// waitUnserved waits until an Iscsi says that iscsid on a node does not serve its session, and nothing else is wrong with its paths.
func waitUnserved(t *testing.T, i *v1alpha1.Iscsi, node string) {
	t.Helper()
	eventually(t, limitPod, "iscsid on "+node+" does not serve "+i.Name, func(ctx context.Context) error {
		if err := kube.Get(ctx, client.ObjectKeyFromObject(i), i); err != nil {
			return err
		}
		c := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionPathsHealthy)
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonSessionNotServed {
			return fmt.Errorf("phase %s: %s; paths: %+v", i.Status.Phase, i.Status.Message, c)
		}
		return nil
	})
}
