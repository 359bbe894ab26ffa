//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

const (
	namespace = "default"
	busybox   = "docker.io/library/busybox:stable"
	// limitPod is how long a pod with a new volume may take in the lab before a test gives up on it.
	limitPod = 2 * time.Minute
)

// free are the nodes that no parallel test works on.
var free = func() chan string {
	c := make(chan string, len(nodes))
	for _, n := range nodes {
		c <- n
	}
	return c
}()

// lease lets the test run beside others, with a node of its own.
func lease(t *testing.T) string {
	t.Helper()
	t.Parallel()
	node := <-free
	// Registered before everything else, and so done last.
	t.Cleanup(func() { free <- node })
	return node
}

// claim makes a PersistentVolumeClaim of a class, and removes it with its volume at the end.
func claim(t *testing.T, name, class, size string, change ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	t.Helper()
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: ptr.To(class),
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
		},
	}
	for _, f := range change {
		f(c)
	}
	createObject(t, c)
	return c
}

// pod runs a shell script on the claims, mounted at /data0, /data1, … or, for raw blocks, as /dev/data0, …
func pod(t *testing.T, name, node, script string, claims ...*corev1.PersistentVolumeClaim) *corev1.Pod {
	t.Helper()
	p := newPod(name, node, script)
	for i, c := range claims {
		mountClaim(p, i, c)
	}
	createObject(t, p)
	return p
}

// mountClaim gives a pod a claim, as /data0, /data1, … or /dev/data0, …
func mountClaim(p *corev1.Pod, i int, c *corev1.PersistentVolumeClaim) {
	volume := fmt.Sprintf("data%d", i)
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: c.Name},
	}})
	main := &p.Spec.Containers[0]
	if c.Spec.VolumeMode != nil && *c.Spec.VolumeMode == corev1.PersistentVolumeBlock {
		main.VolumeDevices = append(main.VolumeDevices, corev1.VolumeDevice{Name: volume, DevicePath: "/dev/" + volume})
	} else {
		main.VolumeMounts = append(main.VolumeMounts, corev1.VolumeMount{Name: volume, MountPath: "/" + volume})
	}
}

// newPod runs a shell script, on a node of its own choice when none is given.
func newPod(name, node, script string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: corev1.PodSpec{
			RestartPolicy:                 corev1.RestartPolicyNever,
			TerminationGracePeriodSeconds: ptr.To[int64](1),
			Containers: []corev1.Container{{
				Name: "main", Image: busybox, ImagePullPolicy: corev1.PullIfNotPresent,
				Command: []string{"sh", "-ec", script},
			}},
		},
	}
	if node != "" {
		p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	}
	return p
}

// createObject creates an object and deletes it at the end, waiting until it is gone.
func createObject(t *testing.T, o client.Object) {
	t.Helper()
	if err := kube.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { remove(t, o) })
}

// remove deletes an object and waits until it is gone.
func remove(t *testing.T, o client.Object) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limitPod*patienceOf(t))
	defer cancel()
	if err := kube.Delete(ctx, o); client.IgnoreNotFound(err) != nil {
		t.Error(err)
	}
	for {
		err := kube.Get(ctx, client.ObjectKeyFromObject(o), o)
		if apierrors.IsNotFound(err) {
			return
		}
		if err := errors.Join(err, ctx.Err()); err != nil {
			t.Errorf("%s %s is still there: %v", o.GetObjectKind().GroupVersionKind().Kind, o.GetName(), err)
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// waitPod waits until a pod is in a phase; a pod that failed while another phase is wanted ends the test with its log.
func waitPod(t *testing.T, p *corev1.Pod, want corev1.PodPhase) *corev1.Pod {
	t.Helper()
	found := &corev1.Pod{}
	eventually(t, limitPod, "pod "+p.Name+" is "+string(want), func(ctx context.Context) error {
		if err := kube.Get(ctx, client.ObjectKeyFromObject(p), found); err != nil {
			return err
		}
		if found.Status.Phase == corev1.PodFailed && want != corev1.PodFailed {
			t.Fatalf("pod %s failed:\n%s", p.Name, logs(p))
		}
		if found.Status.Phase != want {
			return fmt.Errorf("it is %s: %s", found.Status.Phase, podTrouble(found))
		}
		return nil
	})
	return found
}

func podTrouble(p *corev1.Pod) string {
	var trouble []string
	for _, c := range p.Status.Conditions {
		if c.Status != corev1.ConditionTrue && c.Message != "" {
			trouble = append(trouble, c.Message)
		}
	}
	return strings.Join(trouble, "; ")
}

func logs(p *corev1.Pod) string {
	out, err := tryLogs(context.Background(), p, nil)
	if err != nil {
		return err.Error()
	}
	return out
}

// tryLogs reads what a pod printed, its last lines only if a number is given. It starts no program: tests wait for a line by looking again and again.
func tryLogs(ctx context.Context, p *corev1.Pod, tail *int64) (string, error) {
	out, err := core.CoreV1().Pods(p.Namespace).GetLogs(p.Name, &corev1.PodLogOptions{TailLines: tail}).DoRaw(ctx)
	return string(out), err
}

// inPod runs a shell script in a running pod.
func inPod(t *testing.T, p *corev1.Pod, script string) string {
	t.Helper()
	return lab(t, "kubectl", "-n", p.Namespace, "exec", p.Name, "--", "sh", "-ec", script)
}

// volumeOf finds the PersistentVolume of a claim, and with it the node and the logical volume.
func volumeOf(t *testing.T, c *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	t.Helper()
	volume := bound(t, c)
	if volume.Spec.CSI == nil || volume.Spec.CSI.Driver != v1alpha1.DriverLVM {
		t.Fatalf("volume %s is not ours: %+v", volume.Name, volume.Spec.PersistentVolumeSource)
	}
	return volume
}

// bound waits until a claim is bound, and returns its PersistentVolume.
func bound(t *testing.T, c *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	t.Helper()
	volume := &corev1.PersistentVolume{}
	eventually(t, limitPod, "claim "+c.Name+" is bound", func(ctx context.Context) error {
		if err := kube.Get(ctx, client.ObjectKeyFromObject(c), c); err != nil {
			return err
		}
		if c.Status.Phase != corev1.ClaimBound {
			return fmt.Errorf("it is %s", c.Status.Phase)
		}
		return kube.Get(ctx, client.ObjectKey{Name: c.Spec.VolumeName}, volume)
	})
	return volume
}

// handle splits a volume's handle into node, group and logical volume.
func handle(t *testing.T, v *corev1.PersistentVolume) (node, group, name string) {
	t.Helper()
	parts := strings.Split(v.Spec.CSI.VolumeHandle, "/")
	if len(parts) != 3 {
		t.Fatalf("handle %q", v.Spec.CSI.VolumeHandle)
	}
	return parts[0], parts[1], parts[2]
}
