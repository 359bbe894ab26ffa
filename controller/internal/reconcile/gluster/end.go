package gluster

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/gluster"
	"quarry.storage/quarry/controller/internal/decide/gluster/cluster"
	"quarry.storage/quarry/controller/internal/decide/gluster/csi"
	"quarry.storage/quarry/controller/internal/decide/gluster/workload"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// end takes the next step of the deletion of a cluster.
func (r *Reconciler) end(ctx context.Context, s *scope) error {
	f := cluster.Deletion{Pool: s.pool, Nodes: s.nodes(), Etcd: s.etcdThere(), Drivers: gluster.No, NeverBegan: s.neverBegan()}
	f.Ending = s.ending(s.etcdClaims(), s.etcdMembers()...)
	for _, d := range csi.Known {
		there, err := r.deployed(ctx, s, d)
		if err != nil {
			return err
		}
		if there != gluster.Yes {
			continue
		}
		f.Drivers = gluster.Yes
		if n, _ := csi.Count(s.pool.Named, d); n < 0 || f.Claimed < 0 {
			f.Claimed = -1
		} else {
			f.Claimed += n
		}
	}
	d := f.Delete()
	s.deleting = &d
	if d.Step == cluster.Hold || s.acted {
		return nil
	}
	s.acted = true
	s.tell(corev1.EventTypeNormal, d.Reason, "Delete", d.Message)
	switch d.Step {
	case cluster.DeleteDrivers:
		var errs []error
		for _, one := range csi.Known {
			errs = append(errs, r.undeploy(ctx, s, one))
		}
		return errors.Join(append(errs, r.drop(ctx, s, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: csi.Account(s.key.Name)}}))...)
	case cluster.DeleteNode:
		return kube.DeleteUnchanged(ctx, r.Client, s.named(d.Node).node)
	case cluster.DeleteEtcd:
		return r.deleteEtcd(ctx, s)
	case cluster.DropFinalizer:
		if err := r.deleteCommon(ctx, s); err != nil {
			return err
		}
		return kube.RemoveFinalizer(ctx, r.Client, s.cluster, v1alpha1.FinalizerGlusterCluster)
	}
	return nil
}

// neverBegan reports whether it is known that no server of any node ever ran, or that those that did have left.
func (s *scope) neverBegan() bool {
	for _, m := range s.members {
		if m.ours() && !m.neverRan && !gluster.Left(m.node) {
			return false
		}
	}
	return true
}

// etcdThere says whether a workload, a pod or a claim of etcd exists.
func (s *scope) etcdThere() gluster.Answer {
	return gluster.Of(s.etcdRuns() || len(s.etcdClaims()) > 0)
}

// etcdRuns reports whether a workload or a pod of etcd exists.
func (s *scope) etcdRuns() bool {
	return slices.ContainsFunc(s.etcdMembers(), func(name string) bool { return s.workloads[name] != nil || s.pods[workload.Pod(name)] != nil })
}

// etcdMembers are the names of the workloads of etcd, and of their claims.
func (s *scope) etcdMembers() []string {
	var all []string
	for i := range workload.Members {
		all = append(all, workload.Member(s.key.Name, i))
	}
	return all
}

// etcdClaims are the claims of etcd that are of this cluster.
func (s *scope) etcdClaims() []*corev1.PersistentVolumeClaim {
	var all []*corev1.PersistentVolumeClaim
	for _, name := range s.etcdMembers() {
		if c := s.claims[name]; c != nil && c.Labels[v1alpha1.LabelGlusterCluster] == s.key.Name && c.Labels[v1alpha1.LabelGlusterPart] == workload.PartEtcd {
			all = append(all, c)
		}
	}
	return all
}

// deleteEtcd deletes the workloads of etcd, and its claims once no pod is left.
func (r *Reconciler) deleteEtcd(ctx context.Context, s *scope) error {
	var errs []error
	for _, name := range s.etcdMembers() {
		if w := s.workloads[name]; w != nil {
			errs = append(errs, kube.Delete(ctx, r.Client, w, client.PropagationPolicy(metav1.DeletePropagationForeground)))
		}
	}
	if s.etcdRuns() {
		return errors.Join(errs...)
	}
	for _, c := range s.etcdClaims() {
		errs = append(errs, kube.Delete(ctx, r.Client, c))
	}
	return errors.Join(errs...)
}

// deleteCommon deletes what all servers had in common.
func (r *Reconciler) deleteCommon(ctx context.Context, s *scope) error {
	var errs []error
	for _, o := range workload.Shared(s.cluster) {
		errs = append(errs, r.drop(ctx, s, o))
	}
	for _, name := range []string{workload.Auth(s.key.Name), workload.TLS(s.key.Name), workload.EtcdTLS(s.key.Name)} {
		errs = append(errs, r.drop(ctx, s, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	return errors.Join(errs...)
}

// drop deletes an object if it is of this cluster.
func (r *Reconciler) drop(ctx context.Context, s *scope, o client.Object) error {
	var have client.Object
	switch o.(type) {
	case *corev1.Service:
		have = &corev1.Service{}
	case *corev1.Secret:
		have = &corev1.Secret{}
	case *corev1.ServiceAccount:
		have = &corev1.ServiceAccount{}
	case *networkingv1.NetworkPolicy:
		have = &networkingv1.NetworkPolicy{}
	case *policyv1.PodDisruptionBudget:
		have = &policyv1.PodDisruptionBudget{}
	default:
		return fmt.Errorf("delete %T %s: it is not known how", o, o.GetName())
	}
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: s.key.Namespace, Name: o.GetName()}, have)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("get %T %s: %w", o, o.GetName(), err)
	case err != nil || have.GetLabels()[v1alpha1.LabelGlusterCluster] != s.key.Name:
		return nil
	}
	return kube.Delete(ctx, r.Client, have)
}

// namespaceEnds reports whether the namespace itself is being deleted.
func (r *Reconciler) namespaceEnds(ctx context.Context, s *scope) (bool, error) {
	n := &corev1.Namespace{}
	if err := r.Live.Get(ctx, types.NamespacedName{Name: s.key.Namespace}, n); err != nil {
		return false, fmt.Errorf("get namespace %s: %w", s.key.Namespace, err)
	}
	return n.DeletionTimestamp != nil, nil
}

// perish lets nodes and cluster go with their namespace, which takes all that was made for them. They stay while there are PersistentVolumes of their drivers, so that a
// person learns what is lost. One that was deleted is held by csi-attacher alone, whose pods may have gone first, and holds up nothing. The CSIDrivers, which are in no namespace, go as well.
func (r *Reconciler) perish(ctx context.Context, s *scope) error {
	drivers, err := r.csiDrivers(ctx)
	if err != nil {
		return err
	}
	named, staying := r.named(ctx, s), 0
	for d, o := range drivers {
		if !csi.Holds(o, s.key.Namespace, s.key.Name) {
			delete(drivers, d)
		} else if _, n := csi.Count(named, d); n < 0 || staying < 0 {
			staying = -1
		} else {
			staying += n
		}
	}
	if staying != 0 {
		return r.mourn(ctx, s, staying)
	}
	var errs []error
	for _, o := range drivers {
		if s.cluster == nil || !s.cluster.DeletionTimestamp.IsZero() {
			errs = append(errs, kube.Delete(ctx, r.Client, o))
		}
	}
	for _, m := range s.members {
		if m.condemned() {
			errs = append(errs, kube.RemoveFinalizer(ctx, r.Client, m.node, v1alpha1.FinalizerGlusterNode))
		}
	}
	if err := errors.Join(errs...); err != nil || s.cluster == nil || s.cluster.DeletionTimestamp.IsZero() {
		return err
	}
	return kube.RemoveFinalizer(ctx, r.Client, s.cluster, v1alpha1.FinalizerGlusterCluster)
}

// mourn tells what keeps nodes and cluster in a namespace that is being deleted.
func (r *Reconciler) mourn(ctx context.Context, s *scope, claimed int) error {
	why := "The namespace is being deleted. Whether there are PersistentVolumes of the drivers of the cluster is not known."
	if claimed > 0 {
		why = fmt.Sprintf("The namespace is being deleted, and with it the bricks of the pool. There are %d PersistentVolumes of its drivers: delete them, and the cluster goes.", claimed)
	}
	var errs []error
	for _, m := range s.members {
		if m.condemned() {
			m.node.Status.Message = why
			_, err := kube.WriteStatus(ctx, r.Client, m.before, m.node)
			errs = append(errs, err)
		}
	}
	if s.cluster != nil {
		meta.SetStatusCondition(&s.cluster.Status.Conditions, metav1.Condition{
			Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonVolumesExist, Message: why, ObservedGeneration: s.cluster.Generation,
		})
		_, err := kube.WriteStatus(ctx, r.Client, s.before, s.cluster)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
