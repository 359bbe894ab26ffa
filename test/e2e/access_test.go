//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestEphemeralVolume: a volume that lives as long as its pod, written by a user without rights through the pod's group.
func TestEphemeralVolume(t *testing.T) {
	turn(t, 1, 2)
	create(t, newCluster("short", lease(t)))
	waitReady(t, "short", limitPod)
	p := newPod("scratch", "", "echo mine > /scratch/file; stat -c 'group %g' /scratch/file; id -u")
	p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](1000), RunAsGroup: ptr.To[int64](1000), FSGroup: ptr.To[int64](2000)}
	p.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
		VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: ptr.To("short"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("64Mi")}},
		}},
	}}}}
	p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}}
	createObject(t, p)
	waitPod(t, p, corev1.PodSucceeded)
	if out := logs(p); out != "group 2000\n1000\n" {
		t.Errorf("the pod says %q", out)
	}
	remove(t, p)
	eventually(t, limitPod, "its volume is gone", func(ctx context.Context) error {
		var volumes corev1.PersistentVolumeList
		if err := kube.List(ctx, &volumes); err != nil {
			return err
		}
		for _, v := range volumes.Items {
			if v.Spec.StorageClassName == "short" {
				return fmt.Errorf("volume %s is %s", v.Name, v.Status.Phase)
			}
		}
		return nil
	})
}

// TestReadWriteOncePod: the second pod waits until the first is gone.
func TestReadWriteOncePod(t *testing.T) {
	turn(t, 0, 2)
	create(t, newCluster("single", lease(t)))
	waitReady(t, "single", limitPod)
	c := claim(t, "single", "single", "64Mi", func(c *corev1.PersistentVolumeClaim) {
		c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	})
	first := waitPod(t, pod(t, "single-first", "", "echo first > /data0/file; sync; sleep 3600", c), corev1.PodRunning)
	second := pod(t, "single-second", "", "cat /data0/file", c)
	eventually(t, limitPod, "the second pod is told why it waits", func(ctx context.Context) error {
		found := &corev1.Pod{}
		if err := kube.Get(ctx, client.ObjectKeyFromObject(second), found); err != nil {
			return err
		}
		if trouble := podTrouble(found); found.Status.Phase != corev1.PodPending || !strings.Contains(trouble, "ReadWriteOncePod") {
			return fmt.Errorf("it is %s: %s", found.Status.Phase, trouble)
		}
		return nil
	})
	remove(t, first)
	waitPod(t, second, corev1.PodSucceeded)
	if out := logs(second); out != "first\n" {
		t.Errorf("the second pod reads %q", out)
	}
}

// TestAgentRestartDuringWrites: the agent of the node is replaced while a pod writes, as in an upgrade. The pod does not notice, and the
// new agent finds the volume as it is: it expands it, and takes it away in the end.
func TestAgentRestartDuringWrites(t *testing.T) {
	turn(t, 0, 20)
	node := lease(t)
	create(t, newCluster("steady", node))
	waitReady(t, "steady", limitPod)
	c := claim(t, "steady", "steady", "200Mi")
	p := waitPod(t, pod(t, "steady", "", "i=0; while true; do i=$((i+1)); echo $i >> /data0/log; sync; done", c), corev1.PodRunning)
	written := func() int {
		lines := strings.Fields(inPod(t, p, "cat /data0/log"))
		for i, line := range lines {
			if line != strconv.Itoa(i+1) {
				t.Fatalf("line %d of the log is %q", i+1, line)
			}
		}
		return len(lines)
	}
	agents := &corev1.PodList{}
	if err := kube.List(t.Context(), agents, client.InNamespace(agentNamespace), client.MatchingLabels{"app.kubernetes.io/name": "quarry-agent"}); err != nil {
		t.Fatal(err)
	}
	for i := range agents.Items {
		if agents.Items[i].Spec.NodeName == node {
			remove(t, &agents.Items[i])
		}
	}
	before := written()
	expand(t, c, p, "300Mi")
	found := &corev1.Pod{}
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(p), found); err != nil {
		t.Fatal(err)
	}
	if restarts := found.Status.ContainerStatuses[0].RestartCount; restarts != 0 || found.Status.Phase != corev1.PodRunning {
		t.Errorf("the pod is %s after %d restarts", found.Status.Phase, restarts)
	}
	if after := written(); after <= before {
		t.Errorf("the pod wrote %d lines before, %d after", before, after)
	}
	waitReady(t, "steady", limitPod)
	if n, err := getCluster(t.Context(), "steady"); err != nil || n.Status.Phase != v1alpha1.PhaseRunning {
		t.Errorf("the Cluster is %v %v", n.Status.Phase, err)
	}
}
