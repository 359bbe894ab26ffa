// Package storagenode keeps one StorageNode for every Kubernetes node that runs an agent. It fills it with what the agent reports, as far as
// people know it, and tells the pool of agents where each of them listens.
package storagenode

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/agentpod"
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// +kubebuilder:rbac:groups=quarry.storage,resources=storagenodes,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=quarry.storage,resources=storagenodes/status,verbs=patch
// +kubebuilder:rbac:groups=quarry.storage,resources=glusternodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=quarry.storage,resources=members,verbs=get;list;watch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups="",namespace=quarry-system,resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups="",namespace=quarry-agents,resources=pods,verbs=get;list;watch

// Pool is what the reconciler knows of agents.
type Pool interface {
	// Recall says what a node saw when it was last heard; before the first SetAddress.
	Recall(node string, devices []decide.Device)
	// SetAddress says where the agent of a node listens.
	SetAddress(node, address, podUID string)
	// Remove says that no agent runs on a node.
	Remove(node string)
	// Complete says that the pool was told of every node.
	Complete()
	// Forget drops a node that does not exist.
	Forget(node string)
	// Node returns what is known about a node.
	Node(name string) decide.Node
}

// Reconciler reconciles StorageNodes; a request's name is the name of a node.
type Reconciler struct {
	Client client.Client
	// Records reads GlusterNodes and their definition from the API server itself (kube.NewGlusterNodeAPI), which SetupWithManager needs. Recorded reads them from a cache; SetupWithManager sets it.
	Records, Recorded client.Reader
	Pool              Pool
	// Iscsi names the Iscsi whose Members have a device on record as its LUN, as "Iscsi san"; empty for any other device. Nil if there is none.
	Iscsi func(decide.Device) string
	// Namespaces that agents run in, and the Port they listen on.
	Namespaces []string
	Port       int

	// introducing is held while the pool is told of all nodes; introduced is true after that.
	introducing sync.Mutex
	introduced  bool

	// glusterNodes reads which devices are on record as those of GlusterNodes.
	glusterNodes kube.GlusterNodeReader
}

// Reconcile brings one StorageNode up to date.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	// A StorageNode that exists already is one that the cache does not have yet.
	return kube.Retry(ctx, ctrl.Result{}, r.reconcile(ctx, req.Name), apierrors.IsAlreadyExists)
}

func (r *Reconciler) reconcile(ctx context.Context, name string) error {
	if err := r.introduce(ctx); err != nil {
		return err
	}
	node := &metav1.PartialObjectMetadata{}
	node.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	err := r.Client.Get(ctx, types.NamespacedName{Name: name}, node)
	if apierrors.IsNotFound(err) {
		return r.forget(ctx, name)
	}
	if err != nil {
		return fmt.Errorf("get node %s: %w", name, err)
	}
	pod, err := r.tell(ctx, name)
	if err != nil {
		return err
	}
	sn := &v1alpha1.StorageNode{}
	err = r.Client.Get(ctx, types.NamespacedName{Name: name}, sn)
	switch {
	case apierrors.IsNotFound(err) && pod == nil:
		return nil
	case apierrors.IsNotFound(err):
		sn = &v1alpha1.StorageNode{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := r.Client.Create(ctx, sn, kube.FieldOwner); err != nil {
			return fmt.Errorf("create storagenode %s: %w", name, err)
		}
	case err != nil:
		return fmt.Errorf("get storagenode %s: %w", name, err)
	case !sn.DeletionTimestamp.IsZero():
		return nil
	}
	return r.writeStatus(ctx, sn, r.Pool.Node(name))
}

// introduce tells the pool of all nodes before the first of them is brought up to date. Nobody told it anything until this process led, and
// what it was told nothing of must not look like a node without an agent.
func (r *Reconciler) introduce(ctx context.Context) error {
	r.introducing.Lock()
	defer r.introducing.Unlock()
	if r.introduced {
		return nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	if err := r.Client.List(ctx, list); err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	for i := range list.Items {
		if err := r.recall(ctx, list.Items[i].Name); err != nil {
			return err
		}
	}
	for i := range list.Items {
		if _, err := r.tell(ctx, list.Items[i].Name); err != nil {
			return err
		}
	}
	r.Pool.Complete()
	r.introduced = true
	return nil
}

// recall tells the pool what the StorageNode of a node lists. The agent of that node may be silent for long, and another node may see its disks.
func (r *Reconciler) recall(ctx context.Context, node string) error {
	sn := &v1alpha1.StorageNode{}
	err := r.Client.Get(ctx, types.NamespacedName{Name: node}, sn)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	devices := make([]decide.Device, 0, len(sn.Status.Devices))
	for _, d := range sn.Status.Devices {
		devices = append(devices, decide.Device{Path: d.Path, WWN: d.WWN, Serial: d.Serial, SizeBytes: d.Size.Value(), Transport: d.Transport})
	}
	r.Pool.Recall(node, devices)
	return nil
}

// tell tells the pool where the agent of a node listens, and returns the agent's pod; nil when there is none.
func (r *Reconciler) tell(ctx context.Context, node string) (*corev1.Pod, error) {
	pod, err := agentpod.Newest(ctx, r.Client, r.Namespaces, node)
	if err != nil {
		return nil, err
	}
	if pod != nil {
		r.Pool.SetAddress(node, net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(r.Port)), string(pod.UID))
	} else {
		r.Pool.Remove(node)
	}
	return pod, nil
}

// forget removes what belongs to a node that does not exist any more. A StorageNode with maintenance stays: the node may be reinstalled at
// that very moment, and maintenance ends when a person says so.
func (r *Reconciler) forget(ctx context.Context, name string) error {
	r.Pool.Forget(name)
	forgetMetrics(name)
	sn := &v1alpha1.StorageNode{}
	err := r.Client.Get(ctx, types.NamespacedName{Name: name}, sn)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	if sn.Spec.Maintenance && sn.DeletionTimestamp.IsZero() {
		return r.writeStatus(ctx, sn, decide.Node{Name: name, Agent: decide.AgentMissing, Problem: noNode})
	}
	// The one that was read: maintenance may be asked for meanwhile.
	err = r.Client.Delete(ctx, sn, client.Preconditions{UID: &sn.UID, ResourceVersion: &sn.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete storagenode %s: %w", name, err)
	}
	return nil
}

const noNode = "no Node of this name exists. This object is kept for its maintenance, which holds when the Node comes back. " +
	"Set spec.maintenance to false to have it removed"
