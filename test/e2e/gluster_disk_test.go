//go:build e2e

package e2e

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// takesDisk gives a disk of a machine to a server of its own. While a program has the disk open it does not go on record. Then the server gets it, and is told of it although its own pod has
// it mounted. After the end of the node the disk is there for others: the stand-in for glusterd2 writes nothing on it.
func (j *glusterJourney) takesDisk(t *testing.T) {
	d := plug(t, nodes[0], newImage(t, "server", 1<<30), "scsi")
	seen := awaitDevice(t, d, func(d *v1alpha1.NodeDevice) bool {
		return d.Available && strings.HasPrefix(string(d.Path), "/dev/disk/by-id/")
	})
	closes := holdOpen(t, d)

	n := j.onDisk(v1alpha1.DevicePath(seen.Path))
	if err := kube.Create(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	gone := false
	t.Cleanup(func() {
		if !gone {
			removeGlusterNode(t, *n)
		}
	})
	waitNode(t, *n, "the disk that a program has open is refused", func(n *v1alpha1.GlusterNode) bool {
		c := meta.FindStatusCondition(n.Status.Conditions, v1alpha1.ConditionDevicesAllocated)
		return c != nil && c.Reason == v1alpha1.ReasonDeviceRefused && strings.Contains(c.Message, "in use by process sleep") && len(n.Spec.Devices) == 0
	})
	closes()
	waitNode(t, *n, "the server has the disk, and glusterd2 is told", func(n *v1alpha1.GlusterNode) bool {
		c := meta.FindStatusCondition(n.Status.Conditions, v1alpha1.ConditionReady)
		return c != nil && c.Status == metav1.ConditionTrue && len(n.Spec.Devices) == 1 && n.Spec.Devices[0].Allocated
	})
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(n), n); err != nil {
		t.Fatal(err)
	}
	p := glusterPods(t)["disk-0"]
	if p.Spec.NodeName != nodes[0] || !slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
		return v.HostPath != nil && v.HostPath.Path == string(n.Spec.Devices[0].Path)
	}) {
		t.Errorf("the pod on %q does not have the disk: %+v", p.Spec.NodeName, p.Spec.Volumes)
	}
	awaitDevice(t, d, func(d *v1alpha1.NodeDevice) bool {
		return !d.Available && d.InUseBy == "GlusterNode "+glusterNamespace+"/disk"
	})

	removeGlusterNode(t, *n)
	waitRemoved(t, *n, func(*v1alpha1.GlusterNode) {})
	gone = true
	eventually(t, limitPool, "the pool runs without it", poolRuns(j.c))
	noClaims(t, "disk")
	awaitDevice(t, d, func(d *v1alpha1.NodeDevice) bool { return d.InUseBy == "" })
}

// onDisk is a GlusterNode that stores on a disk of the first machine.
func (j *glusterJourney) onDisk(path v1alpha1.DevicePath) *v1alpha1.GlusterNode {
	n := &v1alpha1.GlusterNode{ObjectMeta: metav1.ObjectMeta{Namespace: glusterNamespace, Name: "disk"}}
	n.Spec.Cluster, n.Spec.Zone, n.Spec.Storage = j.c.Name, "disk", []v1alpha1.GlusterStorage{{Device: path}}
	n.Spec.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: nodes[:1]},
		}}},
	}}
	return n
}

// holdOpen has a program keep a disk open on its machine, after the agent found nobody who uses the disk, until the function that it returns is called.
func holdOpen(t *testing.T, d *disk) (closes func()) {
	t.Helper()
	pid := lastLine(onNode(t, d.node, "sleep 3600 < "+d.device+" > /dev/null 2>&1 & echo $!"))
	done := false
	closes = func() {
		if !done {
			done = true
			onNode(t, d.node, "kill "+pid)
		}
	}
	t.Cleanup(closes)
	return closes
}
