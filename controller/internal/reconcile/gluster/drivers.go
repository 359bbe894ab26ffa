package gluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"quarry.storage/quarry/controller/internal/decide/gluster"
	"quarry.storage/quarry/controller/internal/decide/gluster/csi"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// drivers deploys the CSI drivers of a cluster. A driver has one name in the whole Kubernetes cluster, so the second GlusterCluster that wants it is told of the first.
func (r *Reconciler) drivers(ctx context.Context, s *scope) error {
	c := s.cluster
	s.drivers = metav1.Condition{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonCSIReady, Message: "All drivers run."}
	var errs []error
	var waits, taken, stale []string
	refused := csi.Refused(c)
	for _, d := range c.Spec.Drivers {
		if refused != "" {
			break
		}
		holder, err := r.holder(ctx, d)
		switch {
		case err != nil:
			errs = append(errs, err)
			continue
		case holder != "" && holder != c.Namespace+"/"+c.Name:
			taken = append(taken, fmt.Sprintf("Driver %s is of GlusterCluster %s. Kubernetes has one driver of a name.", csi.Name(d), holder))
			continue
		}
		ready, old, err := r.deploy(ctx, s, d, holder == "")
		if errs = append(errs, err); !ready {
			waits = append(waits, string(d))
		}
		if old != "" {
			stale = append(stale, old)
		}
	}
	err := errors.Join(errs...)
	switch {
	case refused != "":
		s.drivers.Status, s.drivers.Reason, s.drivers.Message = metav1.ConditionFalse, v1alpha1.ReasonInvalidSpec, refused
	case err != nil:
		s.drivers.Status, s.drivers.Reason, s.drivers.Message = metav1.ConditionFalse, v1alpha1.ReasonCSIFailed, err.Error()
	case len(taken) > 0:
		s.drivers.Status, s.drivers.Reason, s.drivers.Message = metav1.ConditionFalse, v1alpha1.ReasonNameConflict, strings.Join(taken, " ")
	case len(waits) > 0:
		s.drivers.Status, s.drivers.Reason, s.drivers.Message = metav1.ConditionFalse, v1alpha1.ReasonCSIDeploying, "These drivers do not run yet: "+strings.Join(waits, ", ")+"."
	}
	s.drivers.Message = strings.Join(append([]string{s.drivers.Message}, stale...), " ")
	// Those that the spec does not have any more stay while there is a volume of theirs.
	for _, d := range csi.Known {
		if !slices.Contains(c.Spec.Drivers, d) {
			err = errors.Join(err, r.retire(ctx, s, d))
		}
	}
	return err
}

// holder is the GlusterCluster that a driver is of, as namespace/name; empty when nobody has it. One that is none of ours is an error.
func (r *Reconciler) holder(ctx context.Context, d v1alpha1.GlusterDriver) (string, error) {
	o := &storagev1.CSIDriver{}
	switch err := r.Live.Get(ctx, types.NamespacedName{Name: csi.Name(d)}, o); {
	case apierrors.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("get csidriver %s: %w", csi.Name(d), err)
	}
	if csi.Nobodys(o) {
		return "", fmt.Errorf("csidriver %s was not made by Quarry: remove it with what belongs to it, or take the driver off spec.drivers", o.Name)
	}
	namespace, name := csi.Holder(o)
	return namespace + "/" + name, nil
}

// deploy makes the objects of a driver. It reports whether it runs, and says which of its pods a person has to replace. The CSIDriver comes first: it is what says whose the driver is.
func (r *Reconciler) deploy(ctx context.Context, s *scope, d v1alpha1.GlusterDriver, first bool) (ready bool, stale string, err error) {
	if first {
		if err := r.Client.Create(ctx, csi.Driver(s.cluster, d), kube.FieldOwner); err != nil {
			return false, "", fmt.Errorf("create csidriver %s: %w", csi.Name(d), err)
		}
	}
	for _, o := range csi.Workloads(s.cluster, d, r.Sidecars) {
		if err := r.apply(ctx, o); err != nil {
			return false, "", err
		}
	}
	deployment, daemons := &appsv1.Deployment{}, &appsv1.DaemonSet{}
	for i, o := range csi.Empty(s.cluster, d) {
		if err := r.Live.Get(ctx, client.ObjectKeyFromObject(o), []client.Object{deployment, daemons}[i]); err != nil {
			return false, "", fmt.Errorf("get %T %s: %w", o, o.GetName(), err)
		}
	}
	ready = deployment.Status.ReadyReplicas > 0 && deployment.Status.ObservedGeneration >= deployment.Generation &&
		daemons.Status.ObservedGeneration >= daemons.Generation && daemons.Status.NumberReady >= daemons.Status.DesiredNumberScheduled
	return ready, csi.Stale(d, daemons), nil
}

// retire removes a driver that the spec does not have, if it is of this cluster and no volume is.
func (r *Reconciler) retire(ctx context.Context, s *scope, d v1alpha1.GlusterDriver) error {
	there, err := r.deployed(ctx, s, d)
	if err != nil || there != gluster.Yes {
		return err
	}
	if n, _ := csi.Count(s.pool.Named, d); n != 0 {
		s.drivers.Message += fmt.Sprintf(" Driver %s stays, since there are volumes of it.", d)
		return nil
	}
	return r.undeploy(ctx, s, d)
}

// deployed says whether anything of a driver is there that is of this cluster.
func (r *Reconciler) deployed(ctx context.Context, s *scope, d v1alpha1.GlusterDriver) (gluster.Answer, error) {
	o := &storagev1.CSIDriver{}
	err := r.Live.Get(ctx, types.NamespacedName{Name: csi.Name(d)}, o)
	if client.IgnoreNotFound(err) != nil {
		return gluster.Unknown, fmt.Errorf("get csidriver %s: %w", csi.Name(d), err)
	}
	if err == nil && csi.Holds(o, s.key.Namespace, s.key.Name) {
		return gluster.Yes, nil
	}
	for _, o := range csi.Empty(s.cluster, d) {
		err := r.Live.Get(ctx, client.ObjectKeyFromObject(o), o)
		if client.IgnoreNotFound(err) != nil {
			return gluster.Unknown, fmt.Errorf("get %T %s: %w", o, o.GetName(), err)
		}
		if err == nil && o.GetLabels()[v1alpha1.LabelGlusterCluster] == s.key.Name {
			return gluster.Yes, nil
		}
	}
	return gluster.No, nil
}

// undeploy removes what was made for a driver. What says whose it is goes last.
func (r *Reconciler) undeploy(ctx context.Context, s *scope, d v1alpha1.GlusterDriver) error {
	for _, o := range csi.Empty(s.cluster, d) {
		err := r.Live.Get(ctx, client.ObjectKeyFromObject(o), o)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("get %T %s: %w", o, o.GetName(), err)
		}
		if err == nil && o.GetLabels()[v1alpha1.LabelGlusterCluster] == s.key.Name {
			if err := kube.Delete(ctx, r.Client, o, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
				return err
			}
		}
	}
	o := &storagev1.CSIDriver{}
	if err := r.Live.Get(ctx, types.NamespacedName{Name: csi.Name(d)}, o); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !csi.Holds(o, s.key.Namespace, s.key.Name) {
		return nil
	}
	return kube.Delete(ctx, r.Client, o)
}

// csiDrivers are the CSIDrivers of Gluster that there are.
func (r *Reconciler) csiDrivers(ctx context.Context) (map[v1alpha1.GlusterDriver]*storagev1.CSIDriver, error) {
	all := map[v1alpha1.GlusterDriver]*storagev1.CSIDriver{}
	for _, d := range csi.Known {
		o := &storagev1.CSIDriver{}
		switch err := r.Live.Get(ctx, types.NamespacedName{Name: csi.Name(d)}, o); {
		case err == nil:
			all[d] = o
		case !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("get csidriver %s: %w", csi.Name(d), err)
		}
	}
	return all, nil
}

// named are the PersistentVolumes of the pool; nil when nobody could list them. They are read once in a pass: whatever asks for them gets the same answer. Before
// something is removed the API server itself is asked.
func (r *Reconciler) named(ctx context.Context, s *scope) *[]gluster.Named {
	drivers, err := r.csiDrivers(ctx)
	if err != nil {
		logf.FromContext(ctx).Error(err, "Cannot read the CSIDrivers")
		return nil
	}
	var from client.Reader = r.Client
	if s.removes() || s.retires(drivers) {
		from = r.Live
	}
	var list corev1.PersistentVolumeList
	if err := from.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		logf.FromContext(ctx).Error(err, "Cannot list PersistentVolumes")
		return nil
	}
	return new(csi.Volumes(s.key.Namespace, s.key.Name, drivers, list.Items))
}

// retires reports whether a driver of the cluster is not in its spec any more.
func (s *scope) retires(drivers map[v1alpha1.GlusterDriver]*storagev1.CSIDriver) bool {
	for d, o := range drivers {
		if csi.Holds(o, s.key.Namespace, s.key.Name) && (s.cluster == nil || !slices.Contains(s.cluster.Spec.Drivers, d)) {
			return true
		}
	}
	return false
}
