//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// limitReady is how long a Cluster may take in the lab before a test gives up on it.
const limitReady = time.Minute

// v1alpha1State shortens tables of member states.
type v1alpha1State = v1alpha1.MemberState

func memberStates(ctx context.Context, name string, want map[string]v1alpha1State) error {
	members, err := membersOf(ctx, name)
	if err != nil {
		return err
	}
	for _, m := range members {
		if m.Status.State != want[string(m.Spec.Node)] {
			return fmt.Errorf("%s is %s: %s", m.Spec.Node, m.Status.State, m.Status.Message)
		}
	}
	if len(members) != len(want) {
		return fmt.Errorf("members: %s", describeMembers(members))
	}
	return nil
}

// TestWipeNeedsApproval: a disk with a filesystem is listed under devices.wipe. It is wiped only after the plan was approved, and an
// approval given for another disk at the same place counts for nothing.
func TestWipeNeedsApproval(t *testing.T) {
	const name = "with-wipe"
	first := newImage(t, "first", 1<<30)
	onHost(t, "mkfs.ext4", "-q", "-F", "-L", "first", first)
	second := newImage(t, "second", 1<<30)
	onHost(t, "mkfs.ext4", "-q", "-F", "-L", "second", second)

	d := plug(t, "n2", first, "ubd")
	path := stablePath(t, d)
	c := newCluster(name, "n2")
	c.Spec.Devices = &v1alpha1.DeviceSelector{
		MaxSize: resource.NewQuantity(1<<30, resource.BinarySI),
		Wipe:    []v1alpha1.WipeConsent{{Host: "n2", Path: v1alpha1.DevicePath(path)}},
	}
	create(t, c)
	stale := waitPlan(t, name, "")
	if got := checksumOnNode(t, d); got == "" {
		t.Fatal("no checksum")
	}

	d.unplug(t)
	d = plug(t, "n2", second, "ubd")
	if again := stablePath(t, d); again != path {
		t.Fatalf("the second disk is at %s, the first was at %s", again, path)
	}
	digest := waitPlan(t, name, stale)
	before := checksumOnNode(t, d)
	approve(t, name, stale)
	eventually(t, 30*time.Second, "the approval is dropped and the plan still waits", func(ctx context.Context) error {
		c, err := getCluster(ctx, name)
		if err != nil {
			return err
		}
		if c.Status.Plan == nil || c.Status.Plan.Approved || c.Annotations[v1alpha1.AnnotationApprove] != "" {
			return fmt.Errorf("plan %+v", c.Status.Plan)
		}
		return nil
	})
	time.Sleep(3 * time.Second) // Nothing may happen: there is no event to wait for.
	if after := checksumOnNode(t, d); after != before {
		t.Fatal("the second disk was changed by the approval of the first")
	}

	approve(t, name, digest)
	c = waitReady(t, name, limitReady)
	if got := devicesOf(t, name)["n2"]; len(got) != 1 || got[0] != path || c.Status.DeviceCount != 1 {
		t.Errorf("devices %v, want %s", got, path)
	}
}

func stablePath(t *testing.T, d *disk) string {
	t.Helper()
	var path string
	eventually(t, 15*time.Second, d.device+" is listed", func(ctx context.Context) error {
		n, err := getNode(ctx, d.node)
		if err != nil {
			return err
		}
		found := deviceOf(n, d.kernelName())
		if found == nil || !strings.HasPrefix(found.Path, "/dev/disk/") {
			return fmt.Errorf("device %+v", found)
		}
		path = found.Path
		return nil
	})
	return path
}

// waitPlan waits for a plan that waits for approval, other than one seen before, and returns its digest.
func waitPlan(t *testing.T, name, seen string) string {
	t.Helper()
	var digest string
	eventually(t, 30*time.Second, "a plan waits for approval", func(ctx context.Context) error {
		c, err := getCluster(ctx, name)
		if err != nil {
			return err
		}
		if c.Status.Plan == nil || c.Status.Plan.Digest == seen || c.Status.Plan.Approved {
			return fmt.Errorf("plan %+v, message %s", c.Status.Plan, c.Status.Message)
		}
		if step := c.Status.Plan.Steps[0]; step.Action != "WipeDevice" || step.Host != "n2" {
			return fmt.Errorf("first step %+v", step)
		}
		digest = c.Status.Plan.Digest
		return nil
	})
	return digest
}

func approve(t *testing.T, name, digest string) {
	t.Helper()
	lab(t, "kubectl", "annotate", "--overwrite", "cluster.quarry.storage", name, v1alpha1.AnnotationApprove+"="+digest)
}
