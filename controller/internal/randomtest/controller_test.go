package randomtest

import (
	"context"
	"crypto/tls"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"quarry.storage/quarry/agent/agenttest"
	"quarry.storage/quarry/controller/internal/agentpod"
	"quarry.storage/quarry/controller/internal/agents"
	"quarry.storage/quarry/controller/internal/backend/lvm"
	"quarry.storage/quarry/controller/internal/csi/frame"
	csilvm "quarry.storage/quarry/controller/internal/csi/lvm"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/reconcile/cluster"
	"quarry.storage/quarry/controller/internal/reconcile/member"
	"quarry.storage/quarry/controller/internal/reconcile/storage"
	"quarry.storage/quarry/controller/internal/reconcile/storage/work"
	"quarry.storage/quarry/controller/internal/reconcile/storagenode"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

const (
	namespace = "quarry-system"
	agentPort = 7443
	// lastRetry is the longest pause of a reconciler that fails, firstRetry the first one; as in package kube.
	firstRetry, lastRetry = 5 * time.Millisecond, 30 * time.Second
)

func init() { logf.SetLogger(logr.Discard()) }

// silent takes the events that nobody reads.
type silent struct{}

// Eventf implements events.EventRecorder.
func (silent) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}

// drivers says of the CSI driver that it exists as long as a Cluster does, and serves.
type drivers struct{ api *api }

// State implements storage.Drivers.
func (d drivers) State(ctx context.Context, _ string) (backend.DriverState, error) {
	var list v1alpha1.ClusterList
	err := d.api.List(ctx, &list)
	wanted := slices.ContainsFunc(list.Items, func(c v1alpha1.Cluster) bool { return c.DeletionTimestamp.IsZero() })
	return backend.DriverState{Exists: wanted, Ready: wanted}, err
}

// request is what a reconciler is asked to look at.
type request struct{ kind, name string }

// nodes is what the controller knows of nodes and does there. The pool of agents does that.
type nodes interface {
	lvm.Agents
	lvm.Changer
	csilvm.Agents
}

// controller is one life of the controller and of the CSI controller service.
type controller struct {
	api        *api
	cache      *cached
	pool       *agents.Pool
	nodes      nodes
	work       *work.Work
	changed    <-chan string
	reconciler map[string]func(context.Context, ctrl.Request) (ctrl.Result, error)
	csi        csi.ControllerClient
	sweeper    frame.Sweeper
	conn       *grpc.ClientConn
	services   *grpc.Server
	seen       int
	// due are the requests by the time at which they are looked at; failures counts how often each failed in a row.
	due      map[request]time.Time
	failures map[request]int
	// behind are the requests of which not all could be written, as the cache was old.
	behind map[request]bool
	// lagging keeps the cache as it is.
	lagging bool
}

// newController starts the controller, as after a change of the leader: it remembers nothing.
func newController(t *testing.T, a *api, network *agenttest.Network, certificates func(node string) *tls.Config, wrap func(nodes) nodes) *controller {
	t.Helper()
	ctx := t.Context()
	c := &controller{
		api: a, cache: &cached{api: a, at: a.now()}, due: map[request]time.Time{}, failures: map[request]int{}, behind: map[request]bool{},
		seen: len(a.changes),
	}
	c.pool = agents.New(ctx, agents.Config{
		TLS:    func(node string) (*tls.Config, error) { return certificates(node), nil },
		Jitter: -1,
		Dial: func(ctx context.Context, address string) (net.Conn, error) {
			node, _, _ := strings.Cut(address, ":")
			return network.Dial(ctx, node)
		},
	})
	c.changed = c.pool.Changes()
	c.work = work.New(ctx, time.Now)
	c.nodes = wrap(c.pool)
	local := &lvm.Backend{Agents: c.nodes, Changer: c.nodes, Records: lvm.Recorder{Client: a, Live: a}, Client: a}
	clusters := cluster.New(storage.Config{
		Client: c.cache, Live: a, Records: a, Recorded: a, Work: c.work, Drivers: drivers{a}, Events: silent{}, Now: time.Now,
		Profiles: func(v1alpha1.Storage) (backend.Profile, bool) { return local.Profile(), true },
	}, cluster.Backends{v1alpha1.StorageTypeLVM: local})
	storageNodes := &storagenode.Reconciler{Client: c.cache, Pool: c.pool, Namespaces: []string{namespace}, Port: agentPort}
	members := &member.Reconciler{Client: c.cache, Live: a, Events: silent{}}
	c.reconciler = map[string]func(context.Context, ctrl.Request) (ctrl.Result, error){
		"cluster": clusters.Reconcile, "node": storageNodes.Reconcile, "member": members.Reconcile,
	}
	c.serveCSI(t)
	for kind, all := range a.now() {
		for key := range all {
			c.ask(kind.Kind, key.Name)
		}
	}
	return c
}

// index adds the indexes that caches have.
func index(t *testing.T, a *api) {
	t.Helper()
	must(t, agentpod.Index(t.Context(), a))
	must(t, frame.IndexPersistentVolumes(t.Context(), a))
	must(t, a.IndexField(t.Context(), &v1alpha1.Member{}, storage.IndexMemberNode, func(o client.Object) []string {
		m, _ := o.(*v1alpha1.Member)
		return []string{string(m.Spec.Node)}
	}))
}

func (c *controller) serveCSI(t *testing.T) {
	t.Helper()
	driver := &csilvm.Backend{Reader: c.cache, Live: c.api, Agents: c.nodes}
	c.sweeper = driver
	server := frame.New(frame.Config{Version: "test", Reader: c.cache, Live: c.api}, csilvm.Driver(), driver)
	c.services = server.Services()
	listener := bufconn.Listen(1 << 16)
	go func() { _ = c.services.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:///csi", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	must(t, err)
	c.conn, c.csi = conn, csi.NewControllerClient(conn)
}

// stop ends this life of the controller.
func (c *controller) stop() {
	c.conn.Close()
	c.services.Stop()
	c.work.Close()
	c.pool.Close()
	for range c.changed {
		// The pool closed it.
		continue
	}
}

// ask has an object looked at now.
func (c *controller) ask(kind, name string) {
	switch kind {
	case "Cluster":
		c.due[request{"cluster", name}] = time.Now()
	case "Node", "StorageNode":
		c.due[request{"node", name}] = time.Now()
	case "Member":
		c.due[request{"member", name}] = time.Now()
	}
}

// askAll has all objects of a kind looked at now.
func (c *controller) askAll(kind string) {
	for k, all := range c.api.now() {
		for key := range all {
			if k.Kind == kind {
				c.ask(kind, key.Name)
			}
		}
	}
}

// watch turns what happened into requests, as the watches of the manager do.
func (c *controller) watch() {
	synctest.Wait()
	for open := true; open; {
		select {
		case node := <-c.changed:
			c.ask("Node", node)
			c.askAll("Cluster")
			synctest.Wait()
		case o := <-c.work.Late():
			c.ask("Cluster", o.Name)
			synctest.Wait()
		default:
			open = false
		}
	}
	if c.lagging {
		// What the cache does not know yet, the watches do not tell.
		return
	}
	c.api.mu.Lock()
	changes := c.api.changes[c.seen:]
	c.seen = len(c.api.changes)
	c.api.mu.Unlock()
	for _, ch := range changes {
		c.take(ch)
	}
}

// take asks for what has to be looked at because of one change.
func (c *controller) take(ch change) {
	comesOrGoes := ch.before == nil || ch.after == nil
	o := ch.after
	if o == nil {
		o = ch.before
	}
	switch ch.kind {
	case "Cluster":
		if comesOrGoes {
			c.askAll("StorageNode")
			c.askAll("Member")
		}
		if touched(ch) {
			c.askAll("Cluster")
			c.ask("Cluster", o.GetName())
		}
	case "Member":
		if comesOrGoes || touched(ch) {
			c.ask("Member", o.GetName())
			c.askAll("Cluster")
		}
	case "StorageNode":
		if touched(ch) {
			c.ask("Node", o.GetName())
			c.askAll("Cluster")
		}
	case "Node":
		if comesOrGoes {
			c.ask("Node", o.GetName())
		}
		c.askAll("Cluster")
	case "Pod":
		p, _ := o.(*corev1.Pod)
		c.ask("Node", p.Spec.NodeName)
	default:
		c.askAll("Cluster")
	}
}

// touched reports whether a change is more than one of the status.
func touched(ch change) bool {
	if ch.before == nil || ch.after == nil {
		return true
	}
	b, a := ch.before, ch.after
	return b.GetGeneration() != a.GetGeneration() || !maps.Equal(b.GetAnnotations(), a.GetAnnotations()) ||
		!slices.Equal(b.GetFinalizers(), a.GetFinalizers()) || !equality.Semantic.DeepEqual(b.GetDeletionTimestamp(), a.GetDeletionTimestamp())
}

// next returns the requests that are due now, ordered, and when the first of the others is.
func (c *controller) next() (due []request, later time.Time) {
	now := time.Now()
	for r, at := range c.due {
		switch {
		case !at.After(now):
			due = append(due, r)
		case later.IsZero() || at.Before(later):
			later = at
		}
	}
	slices.SortFunc(due, func(a, b request) int { return strings.Compare(a.kind+a.name, b.kind+b.name) })
	return due, later
}

// settled reports whether everything that is known was looked at, and went well.
func (c *controller) settled() bool {
	if c.lagging {
		return false
	}
	c.watch()
	due, _ := c.next()
	return len(due) == 0 && len(c.failures) == 0 && len(c.behind) == 0
}

// reconcile has one of the requests that are due looked at, and reports whether there was one.
func (c *controller) reconcile(ctx context.Context, r *rand.Rand) bool {
	c.watch()
	due, _ := c.next()
	if len(due) == 0 {
		return false
	}
	q := due[r.IntN(len(due))]
	delete(c.due, q)
	if !c.lagging {
		c.cache.at = c.api.now()
	}
	result, err := c.reconciler[q.kind](ctx, ctrl.Request{NamespacedName: client.ObjectKey{Name: q.name}})
	again := result.RequeueAfter
	// With an old cache a write meets a newer object, and is made a second later: at the first look with a new cache.
	if delete(c.behind, q); c.lagging && again > 0 && again <= time.Second {
		c.behind[q] = true
	}
	if err != nil {
		again = min(firstRetry<<min(c.failures[q], 20), lastRetry)
		c.failures[q]++
	} else {
		delete(c.failures, q)
	}
	if again > 0 {
		at := time.Now().Add(again)
		if old, ok := c.due[q]; !ok || at.Before(old) {
			c.due[q] = at
		}
	}
	return true
}

// run lets the controller work for a while.
func (c *controller) run(ctx context.Context, d time.Duration, r *rand.Rand) {
	end := time.Now().Add(d)
	for {
		for c.reconcile(ctx, r) {
			if time.Now().After(end) {
				return
			}
		}
		wait := time.Until(end)
		if wait <= 0 {
			return
		}
		if _, later := c.next(); !later.IsZero() {
			wait = min(wait, time.Until(later))
		}
		timer := time.NewTimer(wait)
		select {
		case node := <-c.changed:
			c.ask("Node", node)
			c.askAll("Cluster")
		case o := <-c.work.Late():
			c.ask("Cluster", o.Name)
		case <-timer.C:
		}
		timer.Stop()
	}
}
