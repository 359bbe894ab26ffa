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

// keepWriting has a pod on a node write to a volume of a Cluster. Each line that it prints is about a file that is written through to the disks, with the seconds since the one before.
// Another node reads.
func keepWriting(t *testing.T, c *v1alpha1.Cluster, node, reader string) *writer {
	t.Helper()
	w := &writer{claim: claim(t, c.Name+"-written", c.Name, "128Mi", shared), reader: reader}
	bound(t, w.claim)
	w.pod = waitPod(t, pod(t, c.Name+"-writer", node, `cd /data0; put() { dd if=/dev/urandom of=$1 bs=65536 count=1 conv=fsync 2>/dev/null; md5sum $1 > $1.sum; }
		for i in $(seq 20); do put kept$i; done; touch begun; i=0; before=$(date +%s)
		while [ ! -e stop ]; do i=$((i+1)); put $((i % 20)); now=$(date +%s); echo "done $i took $((now - before))"; before=$now; sleep 1; done`, w.claim), corev1.PodRunning)
	w.check(t)
	return w
}

// check waits until the pod has written three times more, and reads on the other node what it wrote at first.
func (w *writer) check(t *testing.T) {
	t.Helper()
	goesOn(t, w.pod, "writing", 3)
	w.read(t, "cat kept*.sum")
}

// goesOn waits until a pod that works in turns has ended so many more of them.
func goesOn(t *testing.T, p *corev1.Pod, what string, more int) {
	t.Helper()
	_, before := slowest(logs(p))
	eventually(t, 4*time.Minute, what+" goes on", func(context.Context) error {
		said := logs(p)
		if _, n := slowest(said); n < before+more {
			return fmt.Errorf("%d times, and %d before; the pod said last %q", n, before, lastLine(said))
		}
		return nil
	})
}

// read compares files of the volume with the sums that a script prints, and lists what the reader sees.
func (w *writer) read(t *testing.T, sums string) {
	t.Helper()
	p := pod(t, w.pod.Name+"-reader", w.reader, "cd /data0; ls -l --full-time; "+sums+" | md5sum -c -", w.claim)
	out := logs(waitPod(t, p, corev1.PodSucceeded))
	if n := strings.Count(out, ": OK"); n < 20 {
		t.Errorf("%d files read as they were written:\n%s", n, out)
	}
	remove(t, p)
}

// slowest returns how many seconds the slowest turn took of those that a log tells of, and how many these are.
func slowest(log string) (most, times int) {
	for line := range strings.Lines(log) {
		var i, seconds int
		if _, err := fmt.Sscanf(line, "done %d took %d", &i, &seconds); err == nil {
			most, times = max(most, seconds), times+1
		}
	}
	return most, times
}

// end stops the writing, compares all files, and removes the volume.
func (w *writer) end(t *testing.T) {
	t.Helper()
	p := pod(t, w.pod.Name+"-stops", w.reader, "touch /data0/stop", w.claim)
	remove(t, waitPod(t, p, corev1.PodSucceeded))
	waitPod(t, w.pod, corev1.PodSucceeded)
	w.read(t, "cat *.sum")
	most, times := slowest(logs(w.pod))
	t.Logf("%d writes, of which the slowest took %d s", times, most)
	remove(t, w.pod)
	remove(t, w.claim)
}
