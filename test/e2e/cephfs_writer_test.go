//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// writer is a pod that writes to a claim all the time. What it wrote at first stays as it is.
type writer struct {
	pod    *corev1.Pod
	claim  *corev1.PersistentVolumeClaim
	reader string
}

// keepWriting has a pod on a node write to a volume of a Cluster. Each line that it prints is about a file that is written through to the disks, with the seconds that this took.
// Another node reads.
func keepWriting(t *testing.T, c *v1alpha1.Cluster, node, reader string) *writer {
	t.Helper()
	w := &writer{claim: claim(t, c.Name+"-written", c.Name, "128Mi", shared), reader: reader}
	bound(t, w.claim)
	w.pod = waitPod(t, pod(t, c.Name+"-writer", node, `cd /data0; put() { dd if=/dev/urandom of=$1 bs=65536 count=1 conv=fsync 2>/dev/null; md5sum $1 > $1.sum; }
		for i in $(seq 20); do put kept$i; done; touch begun; i=0
		while [ ! -e stop ]; do i=$((i+1)); s=$(date +%s); put $((i % 20)); echo "done $i took $(($(date +%s) - s))"; sleep 1; done`, w.claim), corev1.PodRunning)
	w.check(t)
	return w
}

// check waits until the pod has written three times more, and reads on the other node what it wrote at first.
func (w *writer) check(t *testing.T) {
	t.Helper()
	lines := func() int { return strings.Count(logs(w.pod), "done ") }
	before := lines()
	eventually(t, 4*time.Minute, "writing goes on", func(context.Context) error {
		if n := lines(); n < before+3 {
			return fmt.Errorf("%d times, and %d before", n, before)
		}
		return nil
	})
	w.read(t, "cat kept*.sum")
}

// read compares files of the volume with the sums that a script prints.
func (w *writer) read(t *testing.T, sums string) {
	t.Helper()
	p := pod(t, w.pod.Name+"-reader", w.reader, "cd /data0; "+sums+" | md5sum -c -", w.claim)
	out := logs(waitPod(t, p, corev1.PodSucceeded))
	if n := strings.Count(out, ": OK"); n < 20 {
		t.Errorf("%d files read as they were written:\n%s", n, out)
	}
	remove(t, p)
}

// slowest returns how many seconds the slowest write took so far, of how many.
func (w *writer) slowest() (slowest, times int) {
	for line := range strings.Lines(logs(w.pod)) {
		var i, seconds int
		if _, err := fmt.Sscanf(line, "done %d took %d", &i, &seconds); err == nil {
			slowest, times = max(slowest, seconds), times+1
		}
	}
	return slowest, times
}

// end stops the writing, compares all files, and removes the volume.
func (w *writer) end(t *testing.T) {
	t.Helper()
	p := pod(t, w.pod.Name+"-stops", w.reader, "touch /data0/stop", w.claim)
	remove(t, waitPod(t, p, corev1.PodSucceeded))
	waitPod(t, w.pod, corev1.PodSucceeded)
	w.read(t, "cat *.sum")
	slowest, times := w.slowest()
	t.Logf("%d writes, of which the slowest took %d s", times, slowest)
	remove(t, w.pod)
	remove(t, w.claim)
}
