package setup

import (
	"context"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	runtimecluster "sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"quarry.storage/quarry/controller/internal/reconcile/statefulcluster"
	"quarry.storage/quarry/controller/internal/reconcile/storage/told"
	"quarry.storage/quarry/controller/internal/setup/rights"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// tellings are the Members of which the storages wrote how they are, and those of them whose hosts said how their devices are.
type tellings struct{ told, watched told.Members }

// statefulClusters adds the reconciler of StatefulClusters, with a cache of its own: of pods the manager's cache holds the agents' only. It believes what the
// storages tell of their members.
func statefulClusters(ctx context.Context, mgr manager.Manager, cfg Config, members *tellings) error {
	role := rights.Role{Name: "quarry-statefulcluster-view", Controller: controllerStateful, Reads: []rights.Resource{{Name: "pods"}, {Name: "persistentvolumeclaims"}}}
	if err := rights.Check(ctx, mgr.GetClient(), role, rights.Patience); err != nil {
		return fmt.Errorf("add reconciler of statefulclusters: %w", err)
	}
	owned, err := labels.NewRequirement(v1alpha1.LabelStatefulCluster, selection.Exists, nil)
	if err != nil {
		return fmt.Errorf("select pods of statefulclusters: %w", err)
	}
	workloads, err := runtimecluster.New(mgr.GetConfig(), func(o *runtimecluster.Options) {
		o.Scheme = mgr.GetScheme()
		o.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mgr.GetRESTMapper(), nil }
		o.Cache = workloadCache(labels.NewSelector().Add(*owned))
	})
	if err != nil {
		return fmt.Errorf("make cache of statefulclusters: %w", err)
	}
	if err := mgr.Add(workloads); err != nil {
		return fmt.Errorf("add cache of statefulclusters: %w", err)
	}
	r := &statefulcluster.Reconciler{
		Client: mgr.GetClient(), Workloads: workloads.GetCache(), Live: mgr.GetAPIReader(),
		Events: mgr.GetEventRecorder("quarry-controller"), Now: time.Now, Identity: statefulcluster.NewIdentity,
		Runs: cfg.runsKind, Told: func() func(types.UID) bool { return members.told.Until(time.Now()) },
		Watched: func() func(types.UID) bool { return members.watched.Until(time.Now()) },
	}
	if err := r.SetupWithManager(mgr, workloads.GetCache()); err != nil {
		return fmt.Errorf("add reconciler of statefulclusters: %w", err)
	}
	return nil
}

// workloadCache keeps in memory what is looked at of pods and claims of StatefulClusters, and of nodes.
func workloadCache(owned labels.Selector) cache.Options {
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}:                   {Label: owned, Transform: stripReplica},
			&corev1.PersistentVolumeClaim{}: {Label: owned},
			&corev1.Node{}:                  {Transform: stripNode},
		},
	}
}

// stripReplica keeps whose a pod is, what is on record of it, which claims it uses, where it runs and how it is.
func stripReplica(o any) (any, error) {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
	meta := stripMeta(p.ObjectMeta)
	for _, key := range []string{v1alpha1.AnnotationReplicaState, v1alpha1.AnnotationTemplateBase, v1alpha1.AnnotationUpdated, corev1.PodDeletionCost} {
		if value, ok := p.Annotations[key]; ok {
			if meta.Annotations == nil {
				meta.Annotations = map[string]string{}
			}
			meta.Annotations[key] = value
		}
	}
	var volumes []corev1.Volume
	for _, v := range p.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			volumes = append(volumes, v)
		}
	}
	return &corev1.Pod{
		TypeMeta: p.TypeMeta, ObjectMeta: meta,
		Spec: corev1.PodSpec{NodeName: p.Spec.NodeName, Volumes: volumes},
		Status: corev1.PodStatus{
			Phase: p.Status.Phase, Conditions: p.Status.Conditions, ContainerStatuses: p.Status.ContainerStatuses,
			InitContainerStatuses: p.Status.InitContainerStatuses,
		},
	}, nil
}

// stripNode keeps the labels, whether the node is ready, whether it takes pods, and what these can have there.
func stripNode(o any) (any, error) {
	n, ok := o.(*corev1.Node)
	if !ok {
		return o, nil
	}
	out := &corev1.Node{
		TypeMeta: n.TypeMeta, ObjectMeta: stripMeta(n.ObjectMeta), Spec: corev1.NodeSpec{Taints: n.Spec.Taints, Unschedulable: n.Spec.Unschedulable},
	}
	out.Status.Allocatable = n.Status.Allocatable
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			out.Status.Conditions = append(out.Status.Conditions, c)
		}
	}
	return out, nil
}
