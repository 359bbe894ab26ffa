//go:build e2e

package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// target makes a target with one LUN on the storage node, with the arguments of `lab storage target`, and returns an Iscsi of its name on all nodes.
func target(t *testing.T, name string, args ...string) *v1alpha1.Iscsi {
	t.Helper()
	lines := strings.Fields(lab(t, append([]string{"storage", "target", name}, args...)...))
	t.Cleanup(func() { lab(t, "storage", "target-remove", name) })
	i := &v1alpha1.Iscsi{ObjectMeta: metav1.ObjectMeta{Name: name}}
	i.Spec.IQN = lines[0]
	for _, portal := range lines[1:] {
		address, _, ok := strings.Cut(portal, ":")
		if !ok {
			t.Fatalf("the target is %q", lines)
		}
		i.Spec.Targets = append(i.Spec.Targets, v1alpha1.PortalAddress(address))
	}
	for _, n := range nodes {
		i.Spec.Initiators = append(i.Spec.Initiators, v1alpha1.HostName(n))
	}
	return i
}

// lun makes a target and an Iscsi on it, and waits until volumes can be made.
func lun(t *testing.T, name string, args ...string) *v1alpha1.Iscsi {
	t.Helper()
	i := target(t, name, args...)
	create(t, i)
	waitRunning(t, i, 2*limitPod)
	return i
}

func block(c *corev1.PersistentVolumeClaim) {
	mode := corev1.PersistentVolumeBlock
	c.Spec.VolumeMode = &mode
}

// mappedOn are the devices of a node that stand for volumes on the LUN of an Iscsi: other journeys have volumes on theirs meanwhile. Devices of a Cluster's volumes begin with quarry--.
func mappedOn(t *testing.T, i *v1alpha1.Iscsi, node string) string {
	t.Helper()
	out := onNode(t, node, `for link in /dev/disk/by-path/*-iscsi-`+i.Spec.IQN+`-lun-*; do [ ! -e "$link" ] || basename "$(readlink -f "$link")"; done | sort -u > /run/lun-`+i.Name+`
		[ -s /run/lun-`+i.Name+` ] || echo "no LUN of `+i.Name+` is seen"
		for map in $(dmsetup ls | cut -f1 | grep ^quarry-[0-9A-Za-z]); do dmsetup deps -o devname "$map" | grep -qwFf /run/lun-`+i.Name+` && echo "$map"; done; true`)
	return strings.TrimSpace(out)
}

// TestIscsiVolumeMoves follows a filesystem and a raw device from their claims to their end: several pods of one node use them at the same time, they
// grow while they are used, and move to another node with what was written. This is the short journey that is made every time; TestIscsiPodMovesBetweenNodes moves a
// filesystem many times, under load.
func TestIscsiVolumeMoves(t *testing.T) {
	turn(t, 0, 2)
	useServer(t)
	i := lun(t, "moves")
	c, r := claim(t, "moving", i.Name, "32Mi"), claim(t, "moving-raw", i.Name, "16Mi", block)
	volumes := []*corev1.PersistentVolume{bound(t, c), bound(t, r)}
	for _, v := range volumes {
		if v.Spec.NodeAffinity == nil || v.Spec.CSI.Driver != v1alpha1.DriverISCSI {
			t.Errorf("volume %+v", v.Spec)
		}
	}
	const write = "echo kept > /data0/file; echo raw-data | dd of=/dev/data1 bs=512 seek=100 conv=fsync 2>/dev/null; sync; echo written; sleep 3600"
	first := waitPod(t, pod(t, "moves-first", "n2", write, c, r), corev1.PodRunning)
	beside := waitPod(t, pod(t, "moves-beside", "n2", "until grep kept /data0/file; do sleep 0.2; done", c), corev1.PodSucceeded)
	if out := logs(beside); strings.TrimSpace(out) != "kept" {
		t.Errorf("the second pod of the node reads %q", out)
	}
	size := func(p *corev1.Pod) string { return strings.Fields(inPod(t, p, "df -P -m /data0 | tail -n 1"))[1] }
	before := size(first)
	expand(t, c, first, "64Mi")
	if after := size(first); after == before {
		t.Errorf("the pod sees %s MiB before and after", after)
	}
	remove(t, beside)
	remove(t, first)

	second := waitPod(t, pod(t, "moves-second", "n3", "cat /data0/file; dd if=/dev/data1 bs=512 skip=100 count=1 2>/dev/null | head -c 8", c, r), corev1.PodSucceeded)
	if out := logs(second); out != "kept\nraw-data" {
		t.Errorf("on the other node it reads %q", out)
	}
	if out := mappedOn(t, i, "n2"); out != "" {
		t.Errorf("left on the node that it was moved from: %s", out)
	}
	remove(t, second)
	remove(t, c)
	remove(t, r)
	for _, v := range volumes {
		waitVolumeGone(t, v)
	}
	if out := mappedOn(t, i, "n3"); out != "" {
		t.Errorf("left: %s", out)
	}
}
