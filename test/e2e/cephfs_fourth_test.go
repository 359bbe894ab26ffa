//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// fourth is the node beside those that each lab has.
const fourth = "n4"

// TestCephFSRemoveHost has a fourth host come to a Cluster of three copies and three monitors, and one of the first three leave, with its monitor, while a pod writes. The copies and the monitor of the one that leaves are
// on the fourth then, what is mounted goes on, and what is mounted later finds the monitors. The host that left carries nothing of the Cluster any more, and in the end nobody does.
func TestCephFSRemoveHost(t *testing.T) {
	needCeph(t)
	if err := kube.Get(t.Context(), client.ObjectKey{Name: fourth}, &corev1.Node{}); apierrors.IsNotFound(err) {
		t.Skip("it takes a fourth node: make e2e-ceph LAB_NODES=4 RUN=" + t.Name())
	} else if err != nil {
		t.Fatal(err)
	}
	patient(t, 2)
	c := newCephCluster(t, "four", nodes...)
	runCeph(t, c)
	leaves := nodes[2]
	if hosts := waitQuorum(t, c, len(nodes)); !slices.Contains(hosts, leaves) {
		t.Fatalf("the monitors are on %v", hosts)
	}
	w := keepWriting(t, c, nodes[0], nodes[1])
	if !t.Run("Comes", func(t *testing.T) { hostComes(t, c, w, fourth, 2) }) {
		return
	}
	if t.Run("Leaves", func(t *testing.T) { hostLeaves(t, c, w, leaves) }) {
		t.Run("MonitorMoved", func(t *testing.T) { monitorMovedTo(t, c, w, leaves, fourth) })
	}
	w.end(t)
	t.Run("Deleted", func(t *testing.T) { deletedClean(t, c, nodes[0], nodes[1], fourth) })
}

// monitorMovedTo wants the monitor of a host that left on another one, and each of the three where the Cluster says that they are. A node that is none of its hosts any more mounts the volume anew.
func monitorMovedTo(t *testing.T, c *v1alpha1.Cluster, w *writer, from, to string) {
	want := []string{nodes[0], nodes[1], to}
	if hosts := waitQuorum(t, c, len(want)); !slices.Equal(hosts, want) {
		t.Errorf("monitors are on %v, want %v", hosts, want)
	}
	noStore(t, c, from)
	var addresses []string
	for _, node := range want {
		addresses = append(addresses, addressOf(t, node))
	}
	eventually(t, limitReady, "the Cluster tells where the monitors are", func(ctx context.Context) error {
		now, err := getCluster(ctx, c.Name)
		if err != nil {
			return err
		}
		said := now.Status.Ceph.Monitors
		if len(said) != len(want) || slices.ContainsFunc(addresses, func(a string) bool { return !strings.Contains(strings.Join(said, " ")+" ", a+":") }) {
			err = fmt.Errorf("monitors %v, and the hosts are %v", said, addresses)
		}
		return err
	})
	w.reader = from
	w.check(t)
	shareVolume(t, c)
}

// addressOf is the address of a node in the lab's network.
func addressOf(t *testing.T, node string) string {
	t.Helper()
	n := &corev1.Node{}
	if err := kube.Get(t.Context(), client.ObjectKey{Name: node}, n); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(n.Status.Addresses, func(a corev1.NodeAddress) bool { return a.Type == corev1.NodeInternalIP })
	if i < 0 {
		t.Fatalf("%s has no address", node)
	}
	return n.Status.Addresses[i].Address
}
