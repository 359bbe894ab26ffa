//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestNothingReadableOfOthers: one tenant writes all over a raw block volume of a linear class and deletes it. The next one, whose volume
// stands on the same extents and grows over more of them while it is read without a pause, reads nothing but zeroes.
func TestNothingReadableOfOthers(t *testing.T) {
	turn(t, 13, 20)
	const written, first = 160, 60 // MiB, of whole extents
	create(t, newCluster("others", lease(t)))
	waitReady(t, "others", limitPod)
	raw := func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) }

	one := claim(t, "tenant-one", "others", fmt.Sprintf("%dMi", written), raw)
	writer := pod(t, "tenant-one", "", fmt.Sprintf(
		"yes tenant-one-was-here | dd of=/dev/data0 bs=1M count=%d iflag=fullblock conv=fsync 2>/dev/null", written), one)
	waitPod(t, writer, corev1.PodSucceeded)
	left := volumeOf(t, one)
	remove(t, writer)
	remove(t, one)
	eventually(t, limitPod, "the first tenant's volume is gone", func(ctx context.Context) error {
		if err := kube.Get(ctx, client.ObjectKeyFromObject(left), left); !apierrors.IsNotFound(err) {
			return fmt.Errorf("volume %s is still there: %w", left.Name, err)
		}
		return nil
	})

	two := claim(t, "tenant-two", "others", fmt.Sprintf("%dMi", first), raw)
	const bytes = `tr -d '\000' </dev/data0 | wc -c`
	reader := pod(t, "tenant-two", "", `while :; do n=$(`+bytes+`); [ "$n" = 0 ] || echo "read $n bytes of others"; done`, two)
	waitPod(t, reader, corev1.PodRunning)
	if n := strings.TrimSpace(inPod(t, reader, bytes)); n != "0" {
		t.Errorf("a new volume holds %s bytes of others", n)
	}
	grow(t, two, resource.MustParse(fmt.Sprintf("%dMi", written)))
	if n := strings.TrimSpace(inPod(t, reader, `wc -c </dev/data0; `+bytes)); n != fmt.Sprintf("%d\n0", written<<20) {
		t.Errorf("size and bytes of others of a volume that grew: %q", n)
	}
	if said := logs(reader); said != "" {
		t.Errorf("while it grew: %s", said)
	}
}

// grow asks for a larger volume, and waits until it is there.
func grow(t *testing.T, c *corev1.PersistentVolumeClaim, size resource.Quantity) {
	t.Helper()
	before := client.MergeFrom(c.DeepCopy())
	c.Spec.Resources.Requests[corev1.ResourceStorage] = size
	if err := kube.Patch(t.Context(), c, before); err != nil {
		t.Fatal(err)
	}
	eventually(t, limitPod, "claim "+c.Name+" has "+size.String(), func(ctx context.Context) error {
		if err := kube.Get(ctx, client.ObjectKeyFromObject(c), c); err != nil {
			return err
		}
		if got := c.Status.Capacity[corev1.ResourceStorage]; got.Cmp(size) < 0 {
			return fmt.Errorf("it has %s, conditions %v", got.String(), c.Status.Conditions)
		}
		return nil
	})
}
