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
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestSchedulerRespectsCapacity: with two of three nodes nearly full, a pod goes to the third at once; one that fits nowhere waits
// without a trace on any disk, and runs soon after room was made.
func TestSchedulerRespectsCapacity(t *testing.T) {
	turn(t, 11, 20)
	create(t, newCluster("spread", nodes...))
	waitReady(t, "spread", limitPod)
	var fillers []*corev1.PersistentVolumeClaim
	for _, node := range []string{"n1", "n2"} {
		c := claim(t, "filler-"+node, "spread", "3000Mi")
		waitPod(t, pod(t, "filler-"+node, node, "true", c), corev1.PodSucceeded)
		fillers = append(fillers, c)
	}
	third := claim(t, "third", "spread", "2500Mi")
	p := waitPod(t, pod(t, "third", "", "true", third), corev1.PodSucceeded)
	if p.Spec.NodeName != "n3" {
		t.Errorf("the pod is on %s; only n3 has room", p.Spec.NodeName)
	}
	if refused := failures(t, third); len(refused) > 0 {
		t.Errorf("a volume was tried where there is no room: %q", refused)
	}

	last := claim(t, "last", "spread", "2000Mi")
	waiting := pod(t, "last", "", "true", last)
	eventually(t, limitPod, "the scheduler finds no room", func(ctx context.Context) error {
		found := &corev1.Pod{}
		if err := kube.Get(ctx, client.ObjectKeyFromObject(waiting), found); err != nil {
			return err
		}
		if trouble := podTrouble(found); !strings.Contains(trouble, "did not have enough free storage") {
			return fmt.Errorf("pod: %s %s", found.Status.Phase, trouble)
		}
		return nil
	})
	if refused := failures(t, last); len(refused) > 0 {
		t.Errorf("a volume was tried where there is no room: %q", refused)
	}
	filler := &corev1.Pod{}
	filler.Namespace, filler.Name = namespace, "filler-n2"
	remove(t, filler)
	remove(t, fillers[1])
	started := time.Now()
	if p := waitPod(t, waiting, corev1.PodSucceeded); p.Spec.NodeName != "n2" {
		t.Errorf("the pod is on %s, there is room on n2", p.Spec.NodeName)
	}
	t.Logf("the pod ran %.1f s after the room was free", time.Since(started).Seconds())
}

// failures are the messages of a claim's failed attempts. The events of several equal ones may be one event with a count.
func failures(t *testing.T, c *corev1.PersistentVolumeClaim) []string {
	t.Helper()
	var list corev1.EventList
	if err := kube.List(context.Background(), &list, client.InNamespace(c.Namespace)); err != nil {
		t.Fatal(err)
	}
	var messages []string
	for _, e := range list.Items {
		if e.InvolvedObject.UID == c.UID && e.Reason == "ProvisioningFailed" {
			messages = append(messages, slices.Repeat([]string{e.Message}, int(max(1, e.Count)))...)
		}
	}
	return messages
}
