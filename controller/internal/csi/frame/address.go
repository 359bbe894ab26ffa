package frame

import (
	"context"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"quarry.storage/quarry/controller/internal/agentpod"
)

// Book is told where agents listen.
type Book interface {
	// SetAddress says where the agent of a node listens, and which pod it is.
	SetAddress(node, address, podUID string)
	// Remove says that no agent runs on a node.
	Remove(node string)
}

// Addresses keeps a Book up to date with the pods of the agents; a request's name is the name of a node. It writes nothing.
type Addresses struct {
	// Reader answers from the cache.
	Reader client.Reader
	Book   Book
	// Namespace that the agents run in, and the Port they listen on.
	Namespace string
	Port      int
}

// Reconcile looks which pod is the agent of a node.
func (a *Addresses) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	newest, err := agentpod.Newest(ctx, a.Reader, a.Namespace, req.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	if newest == nil {
		a.Book.Remove(req.Name)
		return ctrl.Result{}, nil
	}
	a.Book.SetAddress(req.Name, net.JoinHostPort(newest.Status.PodIP, strconv.Itoa(a.Port)), string(newest.UID))
	return ctrl.Result{}, nil
}

// SetupWithManager registers the watch on pods.
func (a *Addresses) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	if err := agentpod.Index(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).Named("agent-address").
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
			var out []reconcile.Request
			for _, n := range agentpod.NodesOf(o) {
				out = append(out, reconcile.Request{NamespacedName: client.ObjectKey{Name: n}})
			}
			return out
		})).
		Complete(a)
}
