//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// limitMissing is how soon a volume that is gone has to show: a volume counts once its PersistentVolume is a minute old, and is looked for once a minute.
const limitMissing = 3 * time.Minute

// TestNfsVolumesThatAreGone takes away, on the server, the directory of a volume, its record, and all records. The Nfs is not Ready meanwhile and says why,
// nothing is made anew or taken for deleted, and all is well once things are back.
func TestNfsVolumesThatAreGone(t *testing.T) {
	turn(t, 11, 20)
	useServer(t)
	n := share(t, "missing", func(n *v1alpha1.Nfs) { n.Spec.SubDir = "${pvc.name}" })
	stays, goes := fill(t, n, "stays", "echo stays > /data0/file"), fill(t, n, "goes", "echo goes > /data0/file")
	v := bound(t, goes)
	// move returns what moves it back, which is done in the end even if the test is not: nothing on the share could be removed otherwise.
	move := func(from, to string) (back func()) {
		at := "cd " + n.Spec.Path + " && "
		onServer(t, at+"mv "+from+" "+to)
		t.Cleanup(func() { onServer(t, at+"[ ! -e "+to+" ] || mv "+to+" "+from) })
		return func() { onServer(t, at+"mv "+to+" "+from) }
	}
	records := ".quarry/volumes/" + string(n.UID)
	record := path.Join(records, v.Name+".json")

	back := move("goes", ".quarry/aside")
	waitFact(t, n, v1alpha1.ConditionVolumesPresent, v1alpha1.ReasonVolumesMissing, v.Name, "gone from the share")
	back()
	waitRunning(t, n, limitReady)

	back = move(records, "hidden")
	waitFact(t, n, v1alpha1.ConditionShareReachable, "NotPrepared", "are not begun anew")
	// Longer than from one look to the next.
	time.Sleep(25 * time.Second)
	waitFact(t, n, v1alpha1.ConditionShareReachable, "NotPrepared", "are not begun anew")
	if out := strings.TrimSpace(onServer(t, "cd "+n.Spec.Path+" && ls .quarry/volumes")); out != "" {
		t.Errorf("records were begun anew: %s", out)
	}
	back()
	waitRunning(t, n, limitReady)

	back = move(record, "hidden-record")
	waitFact(t, n, v1alpha1.ConditionVolumesPresent, v1alpha1.ReasonVolumesMissing, v.Name, "no record")
	remove(t, goes)
	eventually(t, limitPod, "the deletion is refused", func(ctx context.Context) error {
		var events corev1.EventList
		if err := kube.List(ctx, &events, client.MatchingFields{"involvedObject.name": v.Name}); err != nil {
			return err
		}
		for _, e := range events.Items {
			if strings.Contains(e.Message, "something is at its place") {
				return nil
			}
		}
		return fmt.Errorf("%d events of %s", len(events.Items), v.Name)
	})
	if out := onServer(t, "cat "+n.Spec.Path+"/goes/file"); out != "goes\n" {
		t.Errorf("the file is %q", out)
	}
	back()
	waitVolumeGone(t, v)
	waitRunning(t, n, limitReady)
	if left := listed(t, n.Spec.Path); len(left) != 1 || left[0] != "stays" {
		t.Errorf("left on the share: %v", left)
	}
	discard(t, stays)
}

// waitFact waits until a condition of an Nfs is False for a reason and says some texts, and the Nfs is neither Ready nor Running.
func waitFact(t *testing.T, n *v1alpha1.Nfs, condition, reason string, says ...string) {
	t.Helper()
	eventually(t, limitMissing, "the Nfs says "+reason, func(ctx context.Context) error {
		if err := kube.Get(ctx, client.ObjectKeyFromObject(n), n); err != nil {
			return err
		}
		c := meta.FindStatusCondition(n.Status.Conditions, condition)
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != reason {
			return fmt.Errorf("phase %s, condition %+v", n.Status.Phase, c)
		}
		for _, text := range says {
			if !strings.Contains(c.Message, text) {
				return fmt.Errorf("the message lacks %q: %s", text, c.Message)
			}
		}
		if n.Status.Phase != v1alpha1.PhaseWarning || meta.IsStatusConditionTrue(n.Status.Conditions, v1alpha1.ConditionReady) {
			return fmt.Errorf("phase %s, %+v", n.Status.Phase, n.Status.Conditions)
		}
		return nil
	})
}
