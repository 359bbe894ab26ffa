// Package pods looks at the pods of a pool of glusterd2 servers, and replaces them. Which one is decided in decide/gluster/rollout.
package pods

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/gluster"
	"quarry.storage/quarry/controller/internal/decide/gluster/device"
	"quarry.storage/quarry/controller/internal/decide/gluster/rollout"
	"quarry.storage/quarry/controller/internal/decide/gluster/workload"
)

// Look returns what is known of the pod of a workload. Both may be nil. Claims are those of the namespace by name.
func Look(name, node string, set *appsv1.StatefulSet, p *corev1.Pod, claims map[string]*corev1.PersistentVolumeClaim) rollout.Pod {
	out := rollout.Pod{Name: workload.Pod(name), Node: node, Missing: p == nil}
	if p == nil {
		return out
	}
	out.Current, out.Made, out.Claims, out.Idle = current(set, p), p.CreationTimestamp.Time, stay(claims, p.Spec.Volumes), idle(p)
	if set != nil {
		// The pod in its place has claims that this one may not have.
		out.Claims = out.Claims && stay(claims, set.Spec.Template.Spec.Volumes)
	}
	if at := p.DeletionTimestamp; at != nil {
		// What it says is when its grace is over.
		out.Ended = at.Time
		if grace := p.DeletionGracePeriodSeconds; grace != nil {
			out.Ended = at.Add(-time.Duration(*grace) * time.Second)
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			out.Ready = c.LastTransitionTime.Time
		}
	}
	return out
}

// current says whether a workload would make the same pod. Kubernetes knows it once it has looked at the workload as it is now: the revision of its template is on every pod.
func current(set *appsv1.StatefulSet, p *corev1.Pod) gluster.Answer {
	if set == nil || !metav1.IsControlledBy(p, set) || set.Status.ObservedGeneration < set.Generation || set.Status.UpdateRevision == "" || p.Labels[appsv1.StatefulSetRevisionLabel] == "" {
		return gluster.Unknown
	}
	return gluster.Of(p.Labels[appsv1.StatefulSetRevisionLabel] == set.Status.UpdateRevision)
}

// idle reports whether no container of a pod runs: it is on no machine, or the kubelet says so of each.
func idle(p *corev1.Pod) bool {
	if p.Spec.NodeName == "" {
		return p.Status.Phase == corev1.PodPending && len(p.Status.ContainerStatuses) == 0
	}
	if len(p.Status.ContainerStatuses) < len(p.Spec.Containers) {
		return false
	}
	for _, c := range p.Status.ContainerStatuses {
		if c.State.Running != nil || c.State.Waiting == nil && c.State.Terminated == nil {
			return false
		}
	}
	return true
}

// Server is what is known of the workload and the pod of a server, for who decides about its disks. Both may be nil.
func Server(set *appsv1.StatefulSet, p *corev1.Pod) device.Pod {
	out := device.Pod{Workload: set != nil, Has: workload.Hosted(set)}
	if p == nil || p.DeletionTimestamp != nil {
		return out
	}
	for _, c := range p.Status.ContainerStatuses {
		if c.Name == workload.PartServer && c.State.Running != nil {
			out.Started = c.State.Running.StartedAt.Time
		}
	}
	if idle(p) {
		out.Idle = p.CreationTimestamp.Time
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady && c.LastTransitionTime.After(out.Idle) {
				out.Idle = c.LastTransitionTime.Time
			}
		}
	}
	return out
}

// Container tells the container of a server that runs from all others of its pod, before and after; empty while none does.
func Container(p *corev1.Pod) string {
	for _, c := range p.Status.ContainerStatuses {
		if c.Name == workload.PartServer && c.State.Running != nil {
			return fmt.Sprintf("%s/%s/%d/%s", p.UID, c.ContainerID, c.RestartCount, c.State.Running.StartedAt)
		}
	}
	return ""
}

// stay reports whether the claims of a pod are there, and stay when it goes.
func stay(claims map[string]*corev1.PersistentVolumeClaim, volumes []corev1.Volume) bool {
	for _, v := range volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		c := claims[v.PersistentVolumeClaim.ClaimName]
		if c == nil || !c.DeletionTimestamp.IsZero() || c.Status.Phase == corev1.ClaimLost {
			return false
		}
	}
	return true
}

// Has splits devices into those that are in a pod and those that are not, as it was made before they were declared.
func Has(p *corev1.Pod, devices []string) (here, missing []string) {
	in := map[string]bool{}
	if p != nil {
		for _, c := range p.Spec.Containers {
			for _, d := range c.VolumeDevices {
				in[d.DevicePath] = true
			}
			for _, d := range c.VolumeMounts {
				in[d.MountPath] = true
			}
		}
	}
	for _, path := range devices {
		if in[path] {
			here = append(here, path)
		} else {
			missing = append(missing, path)
		}
	}
	return here, missing
}
