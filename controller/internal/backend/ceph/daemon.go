package ceph

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/ceph/cephpod"
	"quarry.storage/quarry/controller/internal/decide/ceph/view"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
)

// apply brings an object to what is wanted.
func (b *Backend) apply(ctx context.Context, o client.Object) error {
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return fmt.Errorf("convert %T %s: %w", o, o.GetName(), err)
	}
	u := &unstructured.Unstructured{Object: raw}
	unstructured.RemoveNestedField(u.Object, "status")
	return kube.Apply(ctx, b.Client, strings.ToLower(u.GetKind())+" "+o.GetName(), client.ApplyConfigurationFromUnstructured(u))
}

// deploy brings the Deployment of a daemon to what is wanted, and how many of its kind may be away at once.
func (b *Backend) deploy(ctx context.Context, s view.Step) error {
	c, err := b.cluster(ctx, s)
	if err != nil {
		return err
	}
	p := cephpod.Of(c)
	if err := b.mine(ctx, cephname.Workload(c.Name, s.Daemon.Kind, s.Daemon.ID), s, &appsv1.Deployment{}); err != nil {
		return err
	}
	if s.Daemon.Kind != cephname.DaemonTools {
		if err := b.apply(ctx, p.Budget(s.Daemon.Kind, 1)); err != nil {
			return err
		}
	}
	if s.Does == v1alpha1.ActionReplaceDaemon || s.Does == v1alpha1.ActionStartOSD {
		defer b.memory.changed(types.UID(s.UID))
	}
	return b.apply(ctx, p.Deployment(s.Daemon))
}

// mine returns an error if an object of that name is of another Ceph cluster: a Cluster of the name that was deleted before is not over yet.
func (b *Backend) mine(ctx context.Context, name string, s view.Step, o client.Object) error {
	there, err := b.get(ctx, name, o)
	if err != nil {
		return err
	}
	if there && (o.GetLabels()[cephname.LabelFSID] != s.UID || !o.GetDeletionTimestamp().IsZero()) {
		return passing("%T %s in namespace %s is of another Ceph cluster, or is being deleted", o, name, cephname.Namespace)
	}
	return nil
}

// removeDaemon takes a daemon away, or the data of a monitor that is gone.
func (b *Backend) removeDaemon(ctx context.Context, s view.Step) error {
	if s.Daemon.Kind == cephname.DaemonSweep {
		return b.sweep(ctx, s)
	}
	if s.Does == v1alpha1.ActionStopOSD {
		defer b.memory.changed(types.UID(s.UID))
	}
	return b.remove(ctx, s, cephname.Workload(s.Cluster, s.Daemon.Kind, s.Daemon.ID), &appsv1.Deployment{})
}

// remove deletes an object of the Ceph cluster, with its pods.
func (b *Backend) remove(ctx context.Context, s view.Step, name string, o client.Object) error {
	there, err := b.get(ctx, name, o)
	if err != nil || !there {
		return err
	}
	if o.GetLabels()[cephname.LabelFSID] != s.UID {
		return passing("%T %s in namespace %s is of another Ceph cluster", o, name, cephname.Namespace)
	}
	how := metav1.DeletePropagationBackground
	if _, workload := o.(*appsv1.Deployment); workload {
		// It counts as deployed until its pods have ended.
		how = metav1.DeletePropagationForeground
	}
	return client.IgnoreNotFound(b.Client.Delete(ctx, o, client.PropagationPolicy(how), client.Preconditions{UID: new(o.GetUID())}))
}

// sweep has a pod remove the data of a monitor from its node, and takes the monitor off the record once that is over.
func (b *Backend) sweep(ctx context.Context, s view.Step) error {
	c, err := b.cluster(ctx, s)
	if err != nil {
		return err
	}
	want, have := cephpod.Of(c).Sweep(s.Daemon), &corev1.Pod{}
	there, err := b.get(ctx, want.Name, have)
	switch {
	case err != nil:
		return err
	case !there:
		return b.apply(ctx, want)
	case have.Labels[cephname.LabelFSID] != s.UID:
		return passing("pod %s is of another Ceph cluster", want.Name)
	case have.Status.Phase != corev1.PodSucceeded:
		return nil
	}
	// The pod goes first: the record is what finds it again. Sweeping once more removes nothing more.
	if err := b.Client.Delete(ctx, have, client.Preconditions{UID: new(have.UID)}); client.IgnoreNotFound(err) != nil {
		return err
	}
	return b.member(ctx, s, func(r *v1alpha1.MemberCeph) error {
		r.Swept = slices.DeleteFunc(r.Swept, func(name string) bool { return name == s.Daemon.ID })
		if r.Monitor != nil && r.Monitor.Name == s.Daemon.ID {
			r.Monitor = nil
		}
		return nil
	})
}
