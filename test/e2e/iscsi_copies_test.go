//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestIscsiSnapshotAndClone: a snapshot of a volume in use waits, and says for what; once the pod has ended, it is made, and so is a clone. Both have what was there at their
// moments, go their own ways, move between nodes, and outlive their volume. Nothing is left on the nodes, and on the LUN.
func TestIscsiSnapshotAndClone(t *testing.T) {
	turn(t, 8, 20)
	useServer(t)
	i := lun(t, "copied", "--size", "512M")
	origin, raw := claim(t, "copied-origin", i.Name, "48Mi"), claim(t, "copied-raw", i.Name, "16Mi", block)
	volumes := []*corev1.PersistentVolume{bound(t, origin), bound(t, raw)}
	const first = "echo first > /data0/file; echo first | dd of=/dev/data1 bs=512 seek=1000 conv=fsync 2>/dev/null; sync; echo written; sleep 3600"
	writer := waitPod(t, pod(t, "copied-writer", "n1", first, origin, raw), corev1.PodRunning)
	eventually(t, limitPod, "the first content is written", func(context.Context) error {
		if out := logs(writer); !strings.Contains(out, "written") {
			return fmt.Errorf("log %q", out)
		}
		return nil
	})

	early := snapshotObject("copied-early", i.Name, origin.Name)
	createObject(t, early)
	waitsFor(t, early, "is attached to node n1")
	if out := inPod(t, writer, "cat /data0/file"); strings.TrimSpace(out) != "first" {
		t.Errorf("the pod reads %q", out)
	}
	remove(t, writer)
	waitSnapshot(t, early)
	keptRaw := snapshot(t, "copied-raw-kept", i.Name, raw)

	second := waitPod(t, pod(t, "copied-second", "n2", "cat /data0/file; echo second > /data0/file; echo third | dd of=/dev/data1 bs=512 seek=1000 conv=fsync 2>/dev/null; sync",
		origin, raw), corev1.PodSucceeded)
	if out := logs(second); strings.TrimSpace(out) != "first" {
		t.Errorf("after the snapshot the volume holds %q", out)
	}
	remove(t, second)
	// The clone is larger than its source: its filesystem grows.
	cloned := claim(t, "copied-clone", i.Name, "96Mi", from("PersistentVolumeClaim", origin.Name))
	restored := claim(t, "copied-restored", i.Name, "48Mi", from(snapshotKind.Kind, early.GetName()))
	restoredRaw := claim(t, "copied-raw-restored", i.Name, "32Mi", block, from(snapshotKind.Kind, keptRaw.GetName()))
	const read = "cat /data0/file /data1/file; dd if=/dev/data2 bs=512 skip=1000 count=1 2>/dev/null | head -c 5; echo; " +
		"dd if=/dev/data2 bs=1M skip=16 2>/dev/null | tr -d '\\0' | wc -c; df -P -m /data1 | tail -n 1"
	reader := waitPod(t, pod(t, "copied-reader", "n3", read, restored, cloned, restoredRaw), corev1.PodSucceeded)
	checkCopies(t, strings.Split(strings.TrimSpace(logs(reader)), "\n"))
	remove(t, reader)

	// The origin goes; its snapshot can be restored all the same, and on another node.
	remove(t, origin)
	waitVolumeGone(t, volumes[0])
	again := claim(t, "copied-again", i.Name, "48Mi", from(snapshotKind.Kind, early.GetName()))
	last := waitPod(t, pod(t, "copied-last", "n2", "cat /data0/file", again), corev1.PodSucceeded)
	if out := logs(last); strings.TrimSpace(out) != "first" {
		t.Errorf("without its origin the snapshot holds %q", out)
	}
	remove(t, last)
	gone := []*corev1.PersistentVolume{volumes[1]}
	for _, c := range []*corev1.PersistentVolumeClaim{cloned, restored, restoredRaw, again} {
		gone = append(gone, bound(t, c))
		remove(t, c)
	}
	remove(t, raw)
	remove(t, early)
	remove(t, keptRaw)
	for _, v := range gone {
		waitVolumeGone(t, v)
	}
	for _, n := range nodes {
		if out := mappedOn(t, i, n); out != "" {
			t.Errorf("left on %s: %s", n, out)
		}
	}
	// It goes only if no volume and no snapshot is left on the LUN.
	remove(t, i)
}

// waitsFor waits until a snapshot says what it waits for.
func waitsFor(t *testing.T, s *unstructured.Unstructured, text string) {
	t.Helper()
	eventually(t, limitPod, "snapshot "+s.GetName()+" says what it waits for", func(ctx context.Context) error {
		if err := kube.Get(ctx, client.ObjectKeyFromObject(s), s); err != nil {
			return err
		}
		message, _, _ := unstructured.NestedString(s.Object, "status", "error", "message")
		if ready, _, _ := unstructured.NestedBool(s.Object, "status", "readyToUse"); ready || !strings.Contains(message, text) {
			return fmt.Errorf("status %v", s.Object["status"])
		}
		return nil
	})
}

// checkCopies looks at what a pod has read of a restored filesystem, a clone, and a restored raw device.
func checkCopies(t *testing.T, lines []string) {
	t.Helper()
	if len(lines) != 5 || lines[0] != "first" || lines[1] != "second" || lines[2] != "first" || strings.TrimSpace(lines[3]) != "0" {
		t.Fatalf("the snapshot, the clone and the raw device hold %q", lines)
	}
	var device string
	var size int
	if _, err := fmt.Sscan(lines[4], &device, &size); err != nil || size < 70 {
		t.Errorf("the clone's filesystem is %q", lines[4])
	}
}

// snapshotObject is a VolumeSnapshot of a claim.
func snapshotObject(name, class, of string) *unstructured.Unstructured {
	s := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"volumeSnapshotClassName": class, "source": map[string]any{"persistentVolumeClaimName": of},
	}}}
	s.SetGroupVersionKind(snapshotKind)
	s.SetNamespace(namespace)
	s.SetName(name)
	return s
}

// waitSnapshot waits until a snapshot can be used.
func waitSnapshot(t *testing.T, s *unstructured.Unstructured) {
	t.Helper()
	// The sidecar waits longer after each attempt that failed.
	eventually(t, 3*limitPod, "snapshot "+s.GetName()+" is ready", func(ctx context.Context) error {
		if err := kube.Get(ctx, client.ObjectKeyFromObject(s), s); err != nil {
			return err
		}
		if ready, _, _ := unstructured.NestedBool(s.Object, "status", "readyToUse"); !ready {
			return errors.New(fmt.Sprint(s.Object["status"]))
		}
		return nil
	})
}
