//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// original is a volume that copies are made of.
type original struct {
	claim *corev1.PersistentVolumeClaim
	node  string
	// kept is the name of its snapshot.
	kept string
	// copies of it, and what each holds.
	copies []*corev1.PersistentVolumeClaim
	want   []string
}

// TestRestoreOnManyNodes: a restore or a clone can be made on the node of its source only, and the scheduler does not know which one that
// is. Forty of them at once, of sources on three nodes, are all bound there, and the pods that use them say nothing about nodes.
func TestRestoreOnManyNodes(t *testing.T) {
	turn(t, 8, 20)
	const name, perKind, size = "many", 20, "32Mi"
	create(t, thinCluster(name, v1alpha1.ThinPoolSpec{Percent: ptr.To[int32](80), OverprovisionRatio: "2.0"}, nodes...))
	waitReady(t, name, limitPod)
	originals := originalsOf(t, name, size)

	// Each claim comes just before the pod that uses it, so that the scheduler chooses while the source is still being looked for.
	started := time.Now()
	readers := make([]*corev1.Pod, len(originals))
	for i, o := range originals {
		for n := i; n < perKind; n += len(originals) {
			o.copy(claim(t, fmt.Sprintf("many-restored-%d", n), name, size, from(snapshotKind.Kind, o.kept)), "kept "+o.claim.Name)
			o.copy(claim(t, fmt.Sprintf("many-cloned-%d", n), name, size, from("PersistentVolumeClaim", o.claim.Name)), "last "+o.claim.Name)
		}
		script := fmt.Sprintf("i=0; while [ $i -lt %d ]; do cat /data$i/file; i=$((i+1)); done", len(o.copies))
		readers[i] = pod(t, fmt.Sprintf("many-reader-%d", i), "", script, o.copies...)
	}
	t.Cleanup(func() { tell(t, originals) })
	count, failed, pinned := 0, 0, 0
	for i, o := range originals {
		reader := waitPod(t, readers[i], corev1.PodSucceeded)
		if reader.Spec.NodeName != o.node {
			t.Errorf("pod %s is on %s, the source of its volumes on %s", reader.Name, reader.Spec.NodeName, o.node)
		}
		if got, want := strings.TrimSpace(logs(reader)), strings.Join(o.want, "\n"); got != want {
			t.Errorf("the copies of %s hold %q, want %q", o.claim.Name, got, want)
		}
		for _, c := range o.copies {
			if node, _, _ := handle(t, volumeOf(t, c)); node != o.node {
				t.Errorf("copy %s is on %s, its source on %s", c.Name, node, o.node)
			}
			count++
			attempts := failures(t, c)
			failed += len(attempts)
			// The scheduler may be faster, and wrong once or twice; more than that would be a claim that goes in a circle.
			if len(attempts) > 4 {
				t.Errorf("copy %s failed on its way: %q", c.Name, attempts)
			}
			if c.Annotations[v1alpha1.AnnotationSourceNode] != "" {
				pinned++
			}
		}
	}
	if count != 2*perKind {
		t.Errorf("%d copies were made, want %d", count, 2*perKind)
	}
	if pinned == 0 {
		t.Error("the controller brought no copy to its node")
	}
	t.Logf("%d copies on their nodes after %.1f s; %d were brought there, %d attempts failed", count, time.Since(started).Seconds(), pinned, failed)
	deleteCopies(t, readers, originals)
}

// tell prints, when the test failed, how far the copies that have no volume came.
func tell(t *testing.T, originals []*original) {
	t.Helper()
	if !t.Failed() {
		return
	}
	for _, o := range originals {
		for _, c := range o.copies {
			now := &corev1.PersistentVolumeClaim{}
			if err := kube.Get(context.Background(), client.ObjectKeyFromObject(c), now); err != nil {
				t.Log(err)
			} else if now.Spec.VolumeName == "" {
				t.Logf("copy %s of %s on %s has no volume: annotations %v, failures %q, written by %v", c.Name, o.claim.Name, o.node, now.Annotations,
					failures(t, c), now.ManagedFields)
			}
		}
	}
}

// deleteCopies deletes all at once: one after the other they would take longer than the test.
func deleteCopies(t *testing.T, readers []*corev1.Pod, originals []*original) {
	t.Helper()
	for i, o := range originals {
		if err := kube.Delete(t.Context(), readers[i]); err != nil {
			t.Error(err)
		}
		for _, c := range o.copies {
			if err := kube.Delete(t.Context(), c); err != nil {
				t.Error(err)
			}
		}
	}
}

// copy notes a copy and what it holds.
func (o *original) copy(c *corev1.PersistentVolumeClaim, want string) {
	o.copies, o.want = append(o.copies, c), append(o.want, want)
}

// originalsOf makes two volumes on each node, each with a snapshot of what it held before. One pod for each node writes both, and is gone again.
func originalsOf(t *testing.T, class, size string) []*original {
	t.Helper()
	var out []*original
	var writers []*corev1.Pod
	for _, node := range nodes {
		var claims []*corev1.PersistentVolumeClaim
		for i := range 2 {
			c := claim(t, fmt.Sprintf("many-%s-%d", node, i), class, size)
			out, claims = append(out, &original{claim: c, node: node, kept: c.Name + "-kept"}), append(claims, c)
		}
		writers = append(writers, pod(t, "many-writer-"+node, node, contents("kept", claims)+"echo written; sleep 3600", claims...))
	}
	for i, p := range writers {
		writer := waitPod(t, p, corev1.PodRunning)
		eventually(t, limitPod, "the first content is written on "+nodes[i], func(context.Context) error {
			if got := logs(writer); !strings.Contains(got, "written") {
				return fmt.Errorf("log %q", got)
			}
			return nil
		})
		of := out[2*i : 2*i+2]
		var claims []*corev1.PersistentVolumeClaim
		for _, o := range of {
			snapshot(t, o.kept, class, o.claim)
			claims = append(claims, o.claim)
		}
		inPod(t, writer, contents("last", claims))
		remove(t, writer)
	}
	return out
}

// contents is a script that writes a word and the claim's name into each volume.
func contents(word string, claims []*corev1.PersistentVolumeClaim) string {
	var b strings.Builder
	for i, c := range claims {
		fmt.Fprintf(&b, "echo %s %s > /data%d/file; ", word, c.Name, i)
	}
	return b.String() + "sync; "
}
