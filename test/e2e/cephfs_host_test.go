//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestLvmAndCephfsNeverShareAHost: whichever of two Clusters has a host first keeps it, and the other one makes nothing there and says why. No daemon of Ceph has to run for that, and nobody has the image. That keeps no Cluster from going: what a monitor may have left is removed with the agent's image.
func TestLvmAndCephfsNeverShareAHost(t *testing.T) {
	turn(t, 1, 20)
	create(t, newCluster("local", nodes[0]))
	waitReady(t, "local", limitReady)
	shared := smallCeph("shared", nodes[0], nodes[1])
	shared.Spec.Ceph.Image = imageNone
	create(t, shared)
	waitConflict(t, shared.Name, nodes[0], "Cluster local")
	checkLabel(t, nodes[0], "lvm")

	eventually(t, limitReady, "the Cluster of type cephfs has the other host", func(ctx context.Context) error {
		all, err := membersOf(ctx, shared.Name)
		if err == nil && (len(all) != 1 || string(all[0].Spec.Node) != nodes[1]) {
			err = fmt.Errorf("%d Members: %+v", len(all), all)
		}
		return err
	})
	checkLabel(t, nodes[1], "cephfs")
	create(t, newCluster("late", nodes[1]))
	waitConflict(t, "late", nodes[1], "Cluster shared")
	// Whoever takes a host does so within a few passes.
	time.Sleep(20 * time.Second)
	waitConflict(t, "late", nodes[1], "Cluster shared")
	waitConflict(t, shared.Name, nodes[0], "Cluster local")
	if groups := onNode(t, nodes[1], "vgs --noheadings"); strings.TrimSpace(groups) != "" {
		t.Errorf("volume groups on a host of Ceph: %s", groups)
	}
}

// waitConflict waits until a Cluster says that another one has a host, and looks that it has no Member there.
func waitConflict(t *testing.T, cluster, node, owner string) {
	t.Helper()
	eventually(t, limitReady, "Cluster "+cluster+" says that "+node+" is "+owner+"'s", func(ctx context.Context) error {
		c, err := getCluster(ctx, cluster)
		if err != nil {
			return err
		}
		said := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionHostsValid)
		if said == nil || said.Reason != v1alpha1.ReasonHostConflict || !strings.Contains(said.Message, node+": ") || !strings.Contains(said.Message, owner) {
			return fmt.Errorf("%+v", said)
		}
		return nil
	})
	all, err := membersOf(t.Context(), cluster)
	if err != nil || slices.ContainsFunc(all, func(m v1alpha1.Member) bool { return string(m.Spec.Node) == node }) {
		t.Errorf("Cluster %s has %s as well: %+v, %v", cluster, node, all, err)
	}
}
