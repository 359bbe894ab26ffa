package frame

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"quarry.storage/quarry/controller/internal/agentpod"
)

// Book is told where agents listen.
type Book interface {
	// SetAddress says where the agent of a node listens, and which pod it is.
	SetAddress(node, address, podUID string)
	// Remove says that no agent runs on a node.
	Remove(node string)
	// Complete says that the Book was told of every node that runs an agent.
	Complete()
}

// Addresses keeps a Book up to date with the pods of the agents; a request's name is the name of a node. It writes nothing.
type Addresses struct {
	// Reader reads from the cache.
	Reader client.Reader
	Book   Book
	// Namespaces that agents run in, and the Port they listen on.
	Namespaces []string
	Port       int

	// telling keeps what was read later from being told first.
	telling sync.Mutex
}

// Reconcile looks which pod is the agent of a node.
func (a *Addresses) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return ctrl.Result{}, a.tell(ctx, req.Name)
}

// Introduce tells the Book of all nodes that run an agent. It runs once, at the start: a cluster without a single agent causes no request.
func (a *Addresses) Introduce(ctx context.Context) error {
	nodes, err := agentpod.Nodes(ctx, a.Reader, a.Namespaces)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if err := a.tell(ctx, n); err != nil {
			return err
		}
	}
	a.Book.Complete()
	return nil
}

func (a *Addresses) tell(ctx context.Context, node string) error {
	a.telling.Lock()
	defer a.telling.Unlock()
	newest, err := agentpod.Newest(ctx, a.Reader, a.Namespaces, node)
	if err != nil {
		return err
	}
	if newest == nil {
		a.Book.Remove(node)
		return nil
	}
	a.Book.SetAddress(node, net.JoinHostPort(newest.Status.PodIP, strconv.Itoa(a.Port)), string(newest.UID))
	return nil
}

// SetupWithManager registers the watch on pods, and what tells of all of them at the start.
func (a *Addresses) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	if err := agentpod.Index(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	if err := mgr.Add(manager.RunnableFunc(a.Introduce)); err != nil {
		return fmt.Errorf("add introduction of agents: %w", err)
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
