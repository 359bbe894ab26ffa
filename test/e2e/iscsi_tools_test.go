//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// counting appends to /data0/log, prints each number once it is synced, and begins where the log ends. It leaves its node time for others: to start a program takes
// a node of the lab long.
const counting = `n=$(wc -l 2>/dev/null < /data0/log || echo 0); while true; do
	n=$((n + 1)); echo $n | dd of=/data0/log oflag=append conv=notrunc,fsync 2>/dev/null; echo $n; sleep 0.2; done`

// checkCounted reads the log of a volume on a node: no line is missing, none is there twice, and all that were synced are there.
func checkCounted(t *testing.T, c *corev1.PersistentVolumeClaim, node string, synced int) {
	t.Helper()
	reader := waitPod(t, pod(t, c.Name+"-reader", node, "seq $(wc -l < /data0/log) | cmp - /data0/log; wc -l < /data0/log", c), corev1.PodSucceeded)
	count := 0
	if _, err := fmt.Sscan(logs(reader), &count); err != nil || count < synced {
		t.Errorf("%d lines are there, %d were synced; %v", count, synced, err)
	}
	remove(t, reader)
}

// mappedAs are the devices of an Iscsi's volumes that the kernels of all nodes have, as "node name uuid"; v is one of the volumes. Nodes without power
// are not looked at.
func mappedAs(t *testing.T, v *corev1.PersistentVolume, dead ...string) (out []string) {
	t.Helper()
	group, _, _ := strings.Cut(v.Spec.CSI.VolumeHandle, "/")
	for _, n := range nodes {
		if slices.Contains(dead, n) {
			continue
		}
		for line := range strings.Lines(onNode(t, n, "dmsetup info -c --noheadings --separator ' ' -o name,uuid | grep -F '"+group+"' || true")) {
			out = append(out, n+" "+strings.TrimSpace(line))
		}
	}
	return out
}

// otherThan returns another node.
func otherThan(node string) string {
	return nodes[(slices.Index(nodes, node)+1)%len(nodes)]
}

// attachedTo returns the nodes that a volume counts as attached to.
func attachedTo(ctx context.Context, v *corev1.PersistentVolume) (out []string, err error) {
	all, err := attachments(ctx)
	for _, a := range all {
		if a.Spec.Source.PersistentVolumeName != nil && *a.Spec.Source.PersistentVolumeName == v.Name && a.Status.Attached {
			out = append(out, a.Spec.NodeName)
		}
	}
	return out, err
}

// waitPhase waits until a storage is in a phase, with a message that has all texts.
func waitPhase(t *testing.T, o v1alpha1.Storage, want v1alpha1.Phase, texts ...string) {
	t.Helper()
	eventually(t, limitPod, o.GetName()+" is "+string(want), func(ctx context.Context) error {
		if err := kube.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		s := o.StorageStatus()
		if s.Phase != want {
			return fmt.Errorf("phase %s: %s", s.Phase, s.Message)
		}
		for _, text := range texts {
			if !strings.Contains(s.Message, text) {
				return fmt.Errorf("%q is not in the message %q", text, s.Message)
			}
		}
		return nil
	})
}

// secretOf makes the Secret with the credentials of an Iscsi, or replaces them.
func secretOf(t *testing.T, i *v1alpha1.Iscsi, username, password string) {
	t.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: i.Name + "-iscsi-secret", Namespace: controllerNamespace}}
	s.StringData = map[string]string{"username": username, "password": password}
	err := kube.Create(t.Context(), s)
	if apierrors.IsAlreadyExists(err) {
		err = kube.Update(t.Context(), s)
	} else {
		t.Cleanup(func() { remove(t, s) })
	}
	if err != nil {
		t.Fatal(err)
	}
}

// followAttachments logs when attachments of a volume come, are being deleted, are attached and are gone, and when Kubernetes tells the kubelets, counted from now, until the test ends: between a wish of
// Kubernetes and what the driver makes of it lies the back-off of its controllers.
func followAttachments(t *testing.T, v *corev1.PersistentVolume) {
	t.Helper()
	follow(t, "IscsiAttachment", func(ctx context.Context) (map[string]string, error) {
		all, err := attachments(ctx)
		now := map[string]string{}
		for _, a := range all {
			if a.Spec.Source.PersistentVolumeName == nil || *a.Spec.Source.PersistentVolumeName != v.Name {
				continue
			}
			state := fmt.Sprintf("attached: %t, being deleted: %t", a.Status.Attached, a.DeletionTimestamp != nil)
			if e := a.Status.DetachError; e != nil {
				state += ", not detached: " + e.Message
			}
			if e := a.Status.AttachError; e != nil {
				state += ", not attached: " + e.Message
			}
			now["on "+a.Spec.NodeName] = state
		}
		for _, node := range toldAttached(ctx, v) {
			now["on kubelet of "+node] = "told that it is attached"
		}
		return now, err
	})
}

// followFence logs when the controller knows that the agent of a node is silent, when the node's Member says that it is fenced, and where the controller and the driver run that do it, counted from
// now, until the test ends: a controller that begins to lead has to find out first who is silent, and a driver that was on the node is made again elsewhere.
func followFence(t *testing.T, i *v1alpha1.Iscsi, node string) {
	t.Helper()
	follow(t, "IscsiFence", func(ctx context.Context) (map[string]string, error) {
		m, err := memberOf(ctx, i.Name, node)
		if err != nil {
			return nil, err
		}
		lease := &coordinationv1.Lease{}
		if err := kube.Get(ctx, client.ObjectKey{Namespace: controllerNamespace, Name: "quarry-controller"}, lease); err != nil {
			return nil, err
		}
		now := map[string]string{"the Member of " + node: fmt.Sprintf("%s, fenced: %t", m.Status.State, m.Spec.Reservation != nil && m.Spec.Reservation.Fenced)}
		leader := &corev1.Pod{}
		name, _, _ := strings.Cut(ptr.Deref(lease.Spec.HolderIdentity, ""), "_")
		if err := kube.Get(ctx, client.ObjectKey{Namespace: controllerNamespace, Name: name}, leader); err == nil {
			now["the controller"] = "leads on " + leader.Spec.NodeName
		}
		drivers := &corev1.PodList{}
		if err := kube.List(ctx, drivers, client.InNamespace(controllerNamespace), client.MatchingLabels{v1alpha1.LabelDriver: v1alpha1.DriverISCSI}); err != nil {
			return nil, err
		}
		for _, d := range drivers.Items {
			ready := slices.ContainsFunc(d.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
			now["the driver "+d.Name] = fmt.Sprintf("on %s, ready: %t, being deleted: %t", d.Spec.NodeName, ready, d.DeletionTimestamp != nil)
		}
		return now, nil
	})
}

// follow logs each change of what is seen, counted from now, until the test ends.
func follow(t *testing.T, what string, see func(context.Context) (map[string]string, error)) {
	t.Helper()
	begin, ctx, done := time.Now(), t.Context(), make(chan struct{})
	t.Cleanup(func() { <-done })
	go func() {
		defer close(done)
		was := map[string]string{}
		for {
			if now, err := see(ctx); err == nil {
				for one := range was {
					if now[one] == "" {
						now[one] = "gone"
					}
				}
				for one, state := range now {
					if was[one] != state {
						t.Logf("%s: after %.1f s %s: %s", what, time.Since(begin).Seconds(), one, state)
					}
				}
				was = now
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(500 * time.Millisecond):
			}
		}
	}()
}

// toldAttached are the nodes whose kubelets are told that a volume is attached there: they mount nothing before.
func toldAttached(ctx context.Context, v *corev1.PersistentVolume) (out []string) {
	list := &corev1.NodeList{}
	if err := kube.List(ctx, list); err != nil {
		return nil
	}
	for _, n := range list.Items {
		for _, a := range n.Status.VolumesAttached {
			if strings.HasSuffix(string(a.Name), "^"+v.Spec.CSI.VolumeHandle) {
				out = append(out, n.Name)
			}
		}
	}
	return out
}

// logStart logs when a pod that runs came how far, counted from a moment: its volumes are mounted before its sandbox is ready to start containers.
func logStart(t *testing.T, p *corev1.Pod, begin time.Time) {
	t.Helper()
	for _, c := range p.Status.Conditions {
		t.Logf("IscsiStart: after %.0f s: %s is %s", c.LastTransitionTime.Sub(begin).Seconds(), c.Type, c.Status)
	}
	for _, c := range p.Status.ContainerStatuses {
		if c.State.Running != nil {
			t.Logf("IscsiStart: after %.0f s: its container runs", c.State.Running.StartedAt.Sub(begin).Seconds())
		}
	}
}
