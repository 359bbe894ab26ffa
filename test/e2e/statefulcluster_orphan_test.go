//go:build e2e

package e2e

import (
	"context"
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestStatefulClusterAdoptsItsPods: a StatefulCluster is deleted and its pods stay, as somebody does to make it anew with what cannot be changed. Kubernetes' own garbage
// collector orphans them. The new one takes them over with their claims, none is started again, and it looks after them from then on.
func TestStatefulClusterAdoptsItsPods(t *testing.T) {
	turn(t, 7, 20)
	create(t, newCluster("kept", nodes...))
	waitReady(t, "kept", limitPod)
	waitCapacities(t, "kept")
	waitReplicas(t, stateful(t, "keeping", "kept", 3), 3)
	before := replicas(t, "keeping")

	lab(t, "kubectl", "delete", "statefulcluster.quarry.storage/keeping", "--cascade=orphan", "--timeout=60s")
	for name, p := range replicas(t, "keeping") {
		if owner := metav1.GetControllerOf(&p); owner != nil || p.UID != before[name].UID {
			t.Fatalf("pod %s is controlled by %+v", name, owner)
		}
	}
	c := stateful(t, "keeping", "kept", 3)
	waitReplicas(t, c, 3)
	waitClaims(t, c, 3)
	after := replicas(t, "keeping")
	if len(after) != 3 {
		t.Fatalf("%d pods, of 3 that were there", len(after))
	}
	for name, p := range after {
		undisturbed(t, before[name], p)
		if owner := metav1.GetControllerOf(&p); owner == nil || owner.UID != c.UID {
			t.Errorf("pod %s is controlled by %+v", name, owner)
		}
		claimOf(t, c, p)
	}

	// One that is adopted is one as any other: when it goes, it comes back on its claim.
	for name, p := range after {
		lab(t, "kubectl", "delete", "pod", name, "--wait=false")
		eventually(t, limitReplicas, "pod "+name+" is made again", func(context.Context) error {
			if now, there := replicas(t, "keeping")[name]; !there || now.UID == p.UID {
				return errors.New("not yet")
			}
			return nil
		})
		waitReplicas(t, c, 3)
		again := replicas(t, "keeping")[name]
		if out := inPod(t, &again, "cat /data/who"); strings.TrimSpace(out) != name {
			t.Errorf("the volume of %s was written by %q", name, out)
		}
		break
	}
	waitClaims(t, c, 3)
}
