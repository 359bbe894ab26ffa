//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestIscsiTargetWithoutReservations: nothing but a person's word keeps a silent node from writing, so it takes the taint and an approved plan.
func TestIscsiTargetWithoutReservations(t *testing.T) {
	turn(t, 5, 20)
	ownServer(t)
	i := target(t, "unreserved", "--size", "256M", "--no-reservations")
	create(t, i)
	waitUnreserved(t, i)
	victim := spareNode(t, v1alpha1.DriverISCSI)
	heir := otherThan(victim)
	c := claim(t, "unreserved", i.Name, "32Mi")
	volume := bound(t, c)
	writer := waitPod(t, pod(t, "unreserved-writer", victim, counting, c), corev1.PodRunning)
	waitSynced(t, writer, 10)
	synced := lastSynced(t, writer)

	lab(t, "node", "kill", victim)
	started := false
	t.Cleanup(func() {
		if !started {
			lab(t, "node", "start", victim)
		}
	})
	lab(t, "kubectl", "delete", "pod", writer.Name, "--force", "--grace-period=0")
	next := pod(t, "unreserved-next", heir, counting, c)
	back := outOfService(t, victim)
	digest := waitVouch(t, i, "FenceNode")
	// Long enough for somebody who takes the taint for all that is needed. There is no event to wait for.
	time.Sleep(20 * time.Second)
	if at := mappedAs(t, volume, victim); len(at) > 0 {
		t.Errorf("nobody vouched for %s, and the volume is mapped as %q", victim, at)
	}
	lab(t, "kubectl", "annotate", "--overwrite", "iscsis.quarry.storage", i.Name, v1alpha1.AnnotationApprove+"="+digest)
	next = waitPod(t, next, corev1.PodRunning)
	waitSynced(t, next, synced+10)
	synced = lastSynced(t, next)

	lab(t, "node", "start", victim)
	started = true
	back()
	waitUnreserved(t, i)
	remove(t, next)
	checkCounted(t, c, victim, synced)
}

// waitUnreserved waits until an Iscsi serves volumes and says that its target keeps no reservations.
func waitUnreserved(t *testing.T, i *v1alpha1.Iscsi) {
	t.Helper()
	eventually(t, 2*limitPod, i.Name+" is ready, and says that there are no reservations", func(ctx context.Context) error {
		if err := kube.Get(ctx, client.ObjectKeyFromObject(i), i); err != nil {
			return err
		}
		s := i.Status
		c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionFencingPossible)
		if !meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionReady) || c == nil || c.Reason != v1alpha1.ReasonNoReservations || len(i.Status.Problems) > 0 {
			return fmt.Errorf("phase %s: %s", s.Phase, s.Message)
		}
		return nil
	})
}

// waitVouch waits for a plan of an Iscsi with a step that needs a person, and returns its digest.
func waitVouch(t *testing.T, i *v1alpha1.Iscsi, action string) (digest string) {
	t.Helper()
	eventually(t, limitPod, "the plan to "+action+" waits for approval", func(ctx context.Context) error {
		if err := kube.Get(ctx, client.ObjectKeyFromObject(i), i); err != nil {
			return err
		}
		p := i.Status.Plan
		if p == nil || p.Approved || !slices.ContainsFunc(p.Steps, func(s v1alpha1.PlanStep) bool { return s.Action == action && s.Consent != "" }) {
			return fmt.Errorf("plan %+v, message %s", p, i.Status.Message)
		}
		digest = p.Digest
		return nil
	})
	return digest
}

// TestIscsiControllerFailover ends the controllers and the CSI controller at once, without a word, while claims are made, while pods come, and while all of
// it goes. Every volume has extents of its own, every pod reads what it wrote, and nothing is left.
func TestIscsiControllerFailover(t *testing.T) {
	turn(t, 6, 20)
	const count = 4
	ownServer(t)
	i := lun(t, "failover", "--size", "256M")
	var claims []*corev1.PersistentVolumeClaim
	for n := range count {
		claims = append(claims, claim(t, fmt.Sprintf("failover-%d", n), i.Name, "16Mi"))
	}
	endControllers(t)
	var volumes []*corev1.PersistentVolume
	for _, c := range claims {
		volumes = append(volumes, bound(t, c))
	}
	apart(t, volumes)
	var pods []*corev1.Pod
	for n, c := range claims {
		script := fmt.Sprintf("echo %d > /data0/file; sync /data0/file; cat /data0/file; sleep 3600", n)
		pods = append(pods, pod(t, fmt.Sprintf("failover-%d", n), nodes[n%len(nodes)], script, c))
	}
	endControllers(t)
	for n, p := range pods {
		waitPod(t, p, corev1.PodRunning)
		eventually(t, limitReady, p.Name+" reads what it wrote", func(context.Context) error {
			if out := strings.TrimSpace(logs(p)); out != fmt.Sprint(n) {
				return fmt.Errorf("it reads %q", out)
			}
			return nil
		})
		if found := mappedAs(t, volumes[n]); len(found) < 1 {
			t.Errorf("%s is mapped as %q", volumes[n].Name, found)
		}
	}
	endControllers(t)
	for _, p := range pods {
		remove(t, p)
	}
	for n, c := range claims {
		reader := waitPod(t, pod(t, fmt.Sprintf("failover-reader-%d", n), nodes[(n+1)%len(nodes)], "cat /data0/file", c), corev1.PodSucceeded)
		if out := strings.TrimSpace(logs(reader)); out != fmt.Sprint(n) {
			t.Errorf("on another node %s reads %q", reader.Name, out)
		}
		remove(t, reader)
		if err := kube.Delete(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	endControllers(t)
	for _, v := range volumes {
		waitVolumeGone(t, v)
	}
	if left := mappedAs(t, volumes[0]); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// endControllers ends all pods of the controller and of the CSI driver of shared LUNs at this instant.
func endControllers(t *testing.T) {
	t.Helper()
	lab(t, "kubectl", "-n", controllerNamespace, "delete", "pods", "--force", "--grace-period=0", "-l", "app.kubernetes.io/name in (quarry-controller, quarry-csi-iscsi)")
}

// apart checks that no two volumes of a group have an extent in common.
func apart(t *testing.T, volumes []*corev1.PersistentVolume) {
	t.Helper()
	group, _, _ := strings.Cut(volumes[0].Spec.CSI.VolumeHandle, "/")
	owners := map[int]string{}
	found := 0
	for line := range strings.Lines(onNode(t, nodes[0], "lvs --foreign --noheadings -o lv_name,vg_uuid,vg_name,seg_pe_ranges --segments")) {
		fields := strings.Fields(line)
		if len(fields) < 4 || fields[1] != group && fields[2] != group {
			continue
		}
		found++
		for _, r := range fields[3:] {
			var from, to int
			if _, err := fmt.Sscanf(r[strings.LastIndexByte(r, ':')+1:], "%d-%d", &from, &to); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			for e := from; e <= to; e++ {
				if owners[e] != "" {
					t.Errorf("extent %d is of %s and of %s", e, owners[e], fields[0])
				}
				owners[e] = fields[0]
			}
		}
	}
	if found < len(volumes) {
		t.Errorf("%d volumes on the LUN, %d were made", found, len(volumes))
	}
}
