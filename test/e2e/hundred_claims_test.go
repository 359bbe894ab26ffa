//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// annotationSelectedNode is what the scheduler writes when it has chosen a node for a pod's claim.
const annotationSelectedNode = "volume.kubernetes.io/selected-node"

// TestHundredClaims makes a hundred claims at once, spread over the nodes as a scheduler would, and prints how long they take to be
// Bound; then it deletes them at once.
func TestHundredClaims(t *testing.T) {
	turn(t, 10, 20)
	const count = 100
	labels := client.MatchingLabels{"test": "hundred"}
	create(t, newCluster("hundred", nodes...))
	waitReady(t, "hundred", limitPod)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	t.Cleanup(func() {
		if err := kube.DeleteAllOf(context.Background(), &corev1.PersistentVolumeClaim{}, client.InNamespace(namespace), labels); err != nil {
			t.Error(err)
		}
	})

	started := time.Now()
	asked := map[string]time.Time{}
	for i := range count {
		c := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: fmt.Sprintf("hundred-%d", i), Labels: labels,
				Annotations: map[string]string{annotationSelectedNode: nodes[i%len(nodes)]},
			},
			Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: ptr.To("hundred"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("16Mi")}},
			},
		}
		asked[c.Name] = time.Now()
		if err := kube.Create(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	took := waitBound(ctx, t, labels, asked)
	t.Logf("HundredClaims: last Bound after %.1f s, per claim median %.1f s, p99 %.1f s",
		time.Since(started).Seconds(), took[len(took)/2].Seconds(), took[len(took)*99/100-1].Seconds())
	for _, node := range nodes {
		want := 0
		for i := range count {
			if nodes[i%len(nodes)] == node {
				want++
			}
		}
		if out := onNode(t, node, "lvs --foreign --noheadings -o lv_name quarry-hundred | wc -l"); strings.TrimSpace(out) != fmt.Sprint(want) {
			t.Errorf("%s has %s volumes, want %d", node, strings.TrimSpace(out), want)
		}
	}

	started = time.Now()
	if err := kube.DeleteAllOf(ctx, &corev1.PersistentVolumeClaim{}, client.InNamespace(namespace), labels); err != nil {
		t.Fatal(err)
	}
	eventually(t, limitPod, "all volumes are gone", func(ctx context.Context) error {
		var volumes corev1.PersistentVolumeList
		if err := kube.List(ctx, &volumes); err != nil {
			return err
		}
		left := slices.DeleteFunc(volumes.Items, func(v corev1.PersistentVolume) bool { return v.Spec.StorageClassName != "hundred" })
		if len(left) > 0 {
			return fmt.Errorf("%d volumes are left", len(left))
		}
		return nil
	})
	t.Logf("HundredClaims: all deleted after %.1f s", time.Since(started).Seconds())
	for _, node := range nodes {
		if out := onNode(t, node, "lvs --foreign --noheadings -o lv_name quarry-hundred"); strings.TrimSpace(out) != "" {
			t.Errorf("%s still has %s", node, out)
		}
	}
}

// waitBound returns how long each claim took, the fastest first. It lists the claims again and again: the lab's etcd does not tell the
// API server how far it is, and a watch of a quiet kind may be refused for that.
func waitBound(ctx context.Context, t *testing.T, labels client.MatchingLabels, asked map[string]time.Time) []time.Duration {
	t.Helper()
	took := map[string]time.Duration{}
	for len(took) < len(asked) {
		select {
		case <-ctx.Done():
			t.Fatalf("%d of %d claims are Bound: %v", len(took), len(asked), ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
		var list corev1.PersistentVolumeClaimList
		if err := kube.List(ctx, &list, client.InNamespace(namespace), labels); err != nil {
			t.Fatal(err)
		}
		for _, c := range list.Items {
			if c.Status.Phase == corev1.ClaimBound && took[c.Name] == 0 {
				took[c.Name] = time.Since(asked[c.Name])
			}
		}
	}
	return slices.Sorted(maps.Values(took))
}
