//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func attachments(ctx context.Context) ([]storagev1.VolumeAttachment, error) {
	list := &storagev1.VolumeAttachmentList{}
	err := kube.List(ctx, list)
	return list.Items, err
}

// outOfService tells Kubernetes that a person saw a node without power, until the function that it returns is called.
func outOfService(t *testing.T, node string) (back func()) {
	t.Helper()
	const taint = corev1.TaintNodeOutOfService
	lab(t, "kubectl", "taint", "node", node, taint+"=nodeshutdown:NoExecute")
	done := false
	back = func() {
		if !done {
			done = true
			lab(t, "kubectl", "taint", "node", node, taint+"-")
		}
	}
	t.Cleanup(back)
	return back
}

// TestIscsiNodeDies takes the power of the node that writes. Nothing else gets the volume until a person vouches that the node is off; then it is fenced,
// the data is there on another node, and the node that returns is an initiator again.
func TestIscsiNodeDies(t *testing.T) {
	turn(t, 9, 10)
	ownServer(t)
	i := lun(t, "dies-lun", "--size", "256M")
	victim := spareNode(t, v1alpha1.DriverISCSI)
	heir := otherThan(victim)
	c := claim(t, "outlives", i.Name, "32Mi")
	volume := bound(t, c)
	writer := waitPod(t, pod(t, "outlives-writer", victim, counting, c), corev1.PodRunning)
	waitSynced(t, writer, 20)
	synced := lastSynced(t, writer)

	lab(t, "node", "kill", victim)
	started := false
	t.Cleanup(func() {
		if !started {
			lab(t, "node", "start", victim)
		}
	})
	lab(t, "kubectl", "delete", "pod", writer.Name, "--force", "--grace-period=0")
	next := pod(t, "outlives-next", heir, counting, c)
	// Long enough for somebody who attaches without asking. There is no event to wait for.
	time.Sleep(20 * time.Second)
	if at, err := attachedTo(t.Context(), volume); err != nil || len(at) != 1 || at[0] != victim {
		t.Errorf("nobody vouched for %s, and the volume is attached to %v; %v", victim, at, err)
	}
	followAttachments(t, volume)
	followFence(t, i, victim)
	back := outOfService(t, victim)
	begin := time.Now()
	next = waitPod(t, next, corev1.PodRunning)
	t.Logf("on %s %v after the taint", heir, time.Since(begin).Round(100*time.Millisecond))
	logStart(t, next, begin)
	waitSynced(t, next, synced+10)
	synced = lastSynced(t, next)

	lab(t, "node", "start", victim)
	started = true
	back()
	waitRunning(t, i, limitPod)
	if found := mappedAs(t, volume); len(found) != 1 || !strings.HasPrefix(found[0], heir) {
		t.Errorf("the volume is used on %s, and mapped as %q", heir, found)
	}
	remove(t, next)
	checkCounted(t, c, victim, synced)
}

// TestIscsiTargetRestarts stops the target while a pod writes. The Iscsi is Warning and names it; the pod goes on by itself when the target is back.
func TestIscsiTargetRestarts(t *testing.T) {
	turn(t, 10, 20)
	ownServer(t)
	i := lun(t, "restarts", "--size", "256M")
	c := claim(t, "restarts", i.Name, "32Mi")
	writer := waitPod(t, pod(t, "restarts-writer", "n2", counting, c), corev1.PodRunning)
	waitSynced(t, writer, 10)
	lab(t, "storage", "target-stop", i.Name)
	stopped := true
	t.Cleanup(func() {
		if stopped {
			lab(t, "storage", "target-start", i.Name)
		}
	})
	waitPhase(t, i, v1alpha1.PhaseWarning, string(i.Spec.Targets[0]))
	synced := lastSynced(t, writer)
	lab(t, "storage", "target-start", i.Name)
	stopped = false
	waitSynced(t, writer, synced+10)
	waitRunning(t, i, limitPod)
	if restarts := restartsOf(t, writer); restarts != 0 {
		t.Errorf("the writer was restarted %d times", restarts)
	}
	synced = lastSynced(t, writer)
	remove(t, writer)
	checkCounted(t, c, "n1", synced)
}

// TestIscsiChap: a wrong password is said, and no word of it is; the right one is used without a restart; it changes while a pod writes.
func TestIscsiChap(t *testing.T) {
	turn(t, 13, 20)
	ownServer(t)
	const wrong, right, later = "wrong-password-1", "right-password-1", "later-password-1"
	i := target(t, "chap", "--size", "256M", "--chap", "joe:"+right)
	i.Spec.Chap = true
	secretOf(t, i, "joe", wrong)
	create(t, i)
	waitPhase(t, i, v1alpha1.PhaseFailed, "refuses the credentials", i.Name+"-iscsi-secret")
	if out := lab(t, "kubectl", "get", "iscsi,members,events", "-A", "-o", "yaml"); strings.Contains(out, wrong) {
		t.Error("the password is in an object")
	}
	secretOf(t, i, "joe", right)
	waitRunning(t, i, limitPod)
	c := claim(t, "chap", i.Name, "32Mi")
	writer := waitPod(t, pod(t, "chap-writer", "n1", counting, c), corev1.PodRunning)
	waitSynced(t, writer, 10)
	lab(t, "storage", "target", i.Name, "--chap", "joe:"+later)
	secretOf(t, i, "joe", later)
	waitSynced(t, writer, lastSynced(t, writer)+40)
	waitRunning(t, i, limitPod)
	synced := lastSynced(t, writer)
	remove(t, writer)
	checkCounted(t, c, "n3", synced)
}

// TestIscsiWipedLunIsNotReused puts another LUN under the number of the recorded one. Nobody makes anything on it, and nothing counts as gone.
func TestIscsiWipedLunIsNotReused(t *testing.T) {
	turn(t, 16, 20)
	ownServer(t)
	i := lun(t, "wiped-lun", "--size", "256M")
	c := claim(t, "wiped-lun", i.Name, "32Mi")
	volume := bound(t, c)
	lab(t, "storage", "target-wipe", i.Name)
	eventually(t, limitPod, "the Iscsi says that the LUN is another one", func(ctx context.Context) error {
		if err := kube.Get(ctx, client.ObjectKeyFromObject(i), i); err != nil {
			return err
		}
		// The kernel shows what the LUN was when it was found: whoever reads it first says that it is another one, and gives the reason.
		if c := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionLunReady); c == nil || c.Status != metav1.ConditionFalse ||
			c.Reason != v1alpha1.ReasonOtherLun && !strings.Contains(c.Message, "another LUN than the recorded one") {
			return fmt.Errorf("phase %s: %s", i.Status.Phase, i.Status.Message)
		}
		return nil
	})
	if err := kube.Delete(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	// Long enough for somebody who takes unknown for absent. There is no event to wait for.
	time.Sleep(20 * time.Second)
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(volume), volume); err != nil {
		t.Errorf("the volume counts as deleted, and nobody has seen its LUN: %v", err)
	}
	disks := onServer(t, "shopt -s nullglob; for d in /dev/disk/by-path/*uml-blkdev*; do echo disk $d $(blkid -p -o value -s TYPE $d || true); done")
	if !strings.Contains(disks, "disk /dev/disk/by-path/") {
		t.Errorf("no disk of the storage node was looked at: %s", disks)
	}
	if strings.Contains(disks, "LVM2_member") {
		t.Errorf("something was made on the other LUN: %s", disks)
	}
	// A person gives the volume and the Iscsi up.
	lab(t, "kubectl", "annotate", "iscsi", i.Name, v1alpha1.AnnotationRemove+"="+string(i.UID))
	release(t, volume)
}

// release deletes the PersistentVolume of a volume that a person gave up, as docs/iscsi.md says.
func release(t *testing.T, v *corev1.PersistentVolume) {
	t.Helper()
	err := kube.Patch(t.Context(), v, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`)))
	if err != nil {
		t.Error(err)
	}
	remove(t, v)
}
