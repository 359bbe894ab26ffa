//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestClusterDeleteLeavesDisksClean deletes a Cluster and looks at what stays: nothing, on the disks as in the API.
func TestClusterDeleteLeavesDisksClean(t *testing.T) {
	turn(t, 1, 2)
	const name = "short-lived"
	create(t, newCluster(name, nodes...))
	c := waitReady(t, name, time.Minute)
	devices := devicesOf(t, name)

	if err := kube.Delete(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	waitGone(t, name)
	for _, node := range nodes {
		if len(devices[node]) == 0 {
			t.Errorf("no device was recorded for %s", node)
		}
		for _, device := range devices[node] {
			checkClean(t, node, device)
		}
		checkLabel(t, node, "")
	}
	err := kube.Get(t.Context(), client.ObjectKey{Name: name}, &storagev1.StorageClass{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the StorageClass is still there (%v)", err)
	}
}

// TestDeleteWaitsForLogicalVolumes: a group that holds a volume is not removed, whoever made the volume, and deletion goes on by
// itself when it is gone.
func TestDeleteWaitsForLogicalVolumes(t *testing.T) {
	turn(t, 1, 2)
	const name = "holds-data"
	create(t, newCluster(name, "n1", "n2"))
	c := waitReady(t, name, time.Minute)
	group := v1alpha1.DefaultVolumeGroupPrefix + name
	onNode(t, "n1", "lvcreate "+asNode("n1")+"--yes --quiet --size 64M --name precious "+group)
	t.Cleanup(func() {
		_, _ = tryOnNode("n1", "lvremove "+asNode("n1")+"--yes --quiet "+group+"/precious 2>/dev/null || true") // Gone already when the test passed.
	})

	if err := kube.Delete(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	eventually(t, 30*time.Second, "the Cluster names the volume that it waits for", func(ctx context.Context) error {
		m, err := memberOf(ctx, name, "n1")
		if err != nil {
			return err
		}
		if m.Status.State == "failed" && strings.Contains(m.Status.Message, "precious") {
			return nil
		}
		return fmt.Errorf("n1 is %s: %s", m.Status.State, m.Status.Message)
	})
	if out := onNode(t, "n1", "lvs --foreign --noheadings -o lv_name "+group); strings.TrimSpace(out) != "precious" {
		t.Fatalf("the volume is gone: %q", out)
	}
	onNode(t, "n1", "lvremove "+asNode("n1")+"--yes --quiet "+group+"/precious")
	waitGone(t, name)
}

func waitGone(t *testing.T, name string) {
	t.Helper()
	eventually(t, time.Minute, "Cluster "+name+" is gone", func(ctx context.Context) error {
		c, err := getCluster(ctx, name)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		return fmt.Errorf("phase %s: %s", c.Status.Phase, c.Status.Message)
	})
}

// checkClean asks libblkid and looks at the bytes, on the node itself.
func checkClean(t *testing.T, node, device string) {
	t.Helper()
	if out := onNode(t, node, "wipefs --no-act --noheadings "+device); strings.TrimSpace(out) != "" {
		t.Errorf("%s on %s still carries: %s", device, node, out)
	}
	onNode(t, node, fmt.Sprintf("cmp --bytes=1048576 %s /dev/zero", device))
	eventually(t, 20*time.Second, device+" on "+node+" is available again", func(ctx context.Context) error {
		n, err := getNode(ctx, node)
		if err != nil {
			return err
		}
		for _, d := range n.Status.Devices {
			if d.Path == device {
				if d.Available {
					return nil
				}
				return fmt.Errorf("refused: %v", d.Refusals)
			}
		}
		return fmt.Errorf("not listed")
	})
}
