package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// MemberOwner is the field by which the API server chooses Members of one owner. A cache needs an index of that name.
const MemberOwner = "spec.of.uid"

// MemberNode is the field by which Members on one node are chosen. A cache needs an index of that name.
const MemberNode = "spec.node"

// MembersOf returns the Members of one storage, by its UID. Those of all others are not sent.
func MembersOf(ctx context.Context, r client.Reader, owner types.UID) ([]v1alpha1.Member, error) {
	var list v1alpha1.MemberList
	if err := r.List(ctx, &list, client.MatchingFields{MemberOwner: string(owner)}); err != nil {
		return nil, fmt.Errorf("list members: %w", err)
	}
	// What something between here and the API server sends beside is another storage's.
	return slices.DeleteFunc(list.Items, func(m v1alpha1.Member) bool { return m.Spec.Of.UID != owner }), nil
}

// NewGlusterNodeAPI returns a reader of GlusterNodes, and of the metadata of definitions, that asks the API server itself. It knows where these are, so that it never asks which kinds there are: that question
// has no limit, and keeps all other reads of a client waiting. Each request of it has one.
func NewGlusterNodeAPI(rc *rest.Config, s *runtime.Scheme) (client.Reader, error) {
	return newGlusterNodeAPI(rc, s, liveLimit)
}

func newGlusterNodeAPI(rc *rest.Config, s *runtime.Scheme, limit time.Duration) (client.Reader, error) {
	rc = rest.CopyConfig(rc)
	rc.Timeout = limit
	return client.New(rc, client.Options{Scheme: s, Mapper: glusterNodeMapper()})
}

// NewGlusterNodeCache returns a cache for GlusterNodes alone. A controller waits for all that the cache of its manager began with, and ends if that never comes: one GlusterNode that cannot be decoded would
// stop all of them. Nobody waits for this one.
func NewGlusterNodeCache(rc *rest.Config, s *runtime.Scheme) (cache.Cache, error) {
	return cache.New(rc, cache.Options{Scheme: s, Mapper: glusterNodeMapper(), DefaultTransform: cache.TransformStripManagedFields()})
}

// glusterNodeMapper knows where GlusterNodes and definitions are.
func glusterNodeMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(v1alpha1.GroupVersion.WithKind("GlusterNode"), meta.RESTScopeNamespace)
	mapper.Add(Definition().GroupVersionKind(), meta.RESTScopeRoot)
	return mapper
}

// definedGlusterNodes returns all GlusterNodes, which are to Gluster what Members are to storages, and whether there is no such kind: an installation may do without Gluster. Only the definition says so: a
// list that is not found may be one that is not served at this moment. Whatever else keeps them from being read is an error: then nobody knows. api is one of NewGlusterNodeAPI.
func definedGlusterNodes(ctx context.Context, api client.Reader) (nodes []v1alpha1.GlusterNode, undefined bool, err error) {
	if api == nil {
		return nil, false, errors.New("nobody can ask the API server for glusternodes")
	}
	if undefined, err = noGlusterNodes(ctx, api); undefined || err != nil {
		return nil, undefined, err
	}
	nodes, err = ListGlusterNodes(ctx, api)
	return nodes, false, err
}

// noGlusterNodes reports whether the API server has no definition of GlusterNodes.
func noGlusterNodes(ctx context.Context, api client.Reader) (bool, error) {
	err := api.Get(ctx, client.ObjectKey{Name: "glusternodes." + v1alpha1.Group}, Definition())
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, unread("read the definition of", err)
	}
	return false, nil
}

// ListGlusterNodes returns all GlusterNodes to who knows that there is such a kind. Whatever keeps them from being read is an error. They must not be changed.
func ListGlusterNodes(ctx context.Context, r client.Reader) ([]v1alpha1.GlusterNode, error) {
	var list v1alpha1.GlusterNodeList
	if err := r.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, unread("list", err)
	}
	return list.Items, nil
}

// Unread says in words that stay the same why GlusterNodes cannot be read.
func Unread(err error) string {
	if u, ok := errors.AsType[*unreadError](err); ok && apierrors.IsForbidden(u.err) {
		return "the controller has no right to " + u.what + " glusternodes, apply deploy/base again"
	}
	return "glusternodes, of deploy/crd, cannot be read: the log of the controller says why"
}

// unreadError is why GlusterNodes cannot be read.
type unreadError struct {
	what string
	err  error
}

func (e *unreadError) Error() string {
	if apierrors.IsForbidden(e.err) {
		return Unread(e) + ": " + e.err.Error()
	}
	return e.what + " glusternodes, of deploy/crd: " + e.err.Error()
}

func (e *unreadError) Unwrap() error { return e.err }

func unread(what string, err error) error { return &unreadError{what, err} }

const (
	// patience is how long a cache of GlusterNodes may take that is not there yet, and liveLimit how long the API server may.
	patience, liveLimit = time.Second, 5 * time.Second
	// UntilBlind is how long nobody asks again after an error. Who could not read GlusterNodes looks again after that.
	UntilBlind = 5 * time.Second
)

// GlusterNodeReader reads GlusterNodes for whoever goes on without them. A cache of a kind that is not defined, that may not be read or that cannot be decoded never comes to an end. So the cache is asked
// only once the API server itself has listed the kind, and what came of a question is remembered for a while. The zero value is ready.
type GlusterNodeReader struct {
	mu sync.Mutex
	// until is until when the last result counts: nodes, none as there is no such kind, or nobody knows.
	until time.Time
	nodes []v1alpha1.GlusterNode
	err   error
	// direct is until when the API server itself is asked, as the cache is not there. listed: it has listed them.
	direct time.Time
	listed bool
	// defined is when the definition was asked for last.
	defined time.Time
	// running is the question that the API server is asked now, next the one after that.
	running, next *question
}

// question is one to the API server, of all who wait for it.
type question struct {
	done      chan struct{}
	nodes     []v1alpha1.GlusterNode
	undefined bool
	err       error
}

// List returns all GlusterNodes within seconds; there are none where their definition is not found. It asks cached, and api, the API server itself, as long as the cache is not there. Either may be nil.
func (g *GlusterNodeReader) List(ctx context.Context, cached, api client.Reader) ([]v1alpha1.GlusterNode, error) {
	nodes, known, direct, err := g.recall(api != nil)
	if known {
		return nodes, err
	}
	if direct || cached == nil {
		return g.ask(ctx, api, false)
	}
	patient, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	nodes, err = ListGlusterNodes(patient, cached)
	switch {
	case err != nil && api != nil:
		return g.ask(ctx, api, true)
	case err != nil:
		g.remember(UntilBlind, err)
	case api != nil && g.outlived(ctx, api, nodes):
		return nil, nil
	}
	return nodes, err
}

// Fresh returns all GlusterNodes as the API server has them at a moment after the call. All who ask before it is asked share what it says.
func (g *GlusterNodeReader) Fresh(ctx context.Context, api client.Reader) ([]v1alpha1.GlusterNode, error) {
	q, err := g.fresh(ctx, api)
	if err != nil {
		return nil, err
	}
	return slices.Clone(q.nodes), q.err
}

func (g *GlusterNodeReader) fresh(ctx context.Context, api client.Reader) (*question, error) {
	g.mu.Lock()
	q := g.next
	if q == nil {
		q = &question{done: make(chan struct{})}
		if g.next = q; g.running == nil {
			g.running, g.next = q, nil
			go g.pose(context.WithoutCancel(ctx), api, q)
		}
	}
	g.mu.Unlock()
	select {
	case <-q.done:
		return q, nil
	case <-ctx.Done():
		return nil, unread("list", ctx.Err())
	}
}

// pose asks the API server until nobody waits.
func (g *GlusterNodeReader) pose(ctx context.Context, api client.Reader, q *question) {
	for q != nil {
		limited, cancel := context.WithTimeout(ctx, liveLimit)
		q.nodes, q.undefined, q.err = definedGlusterNodes(limited, api)
		cancel()
		g.mu.Lock()
		close(q.done)
		q, g.running, g.next = g.next, g.next, nil
		g.mu.Unlock()
	}
}

// recall returns what came of an earlier question, if that counts. Otherwise direct says whether the API server itself is asked.
func (g *GlusterNodeReader) recall(asks bool) (nodes []v1alpha1.GlusterNode, known, direct bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if now.Before(g.until) {
		return slices.Clone(g.nodes), true, false, g.err
	}
	return nil, false, asks && (!g.listed || now.Before(g.direct)), nil
}

// ask asks the API server itself; slow: the cache is not there.
func (g *GlusterNodeReader) ask(ctx context.Context, api client.Reader, slow bool) ([]v1alpha1.GlusterNode, error) {
	q, err := g.fresh(ctx, api)
	switch {
	case err != nil:
		return nil, err
	case q.err != nil:
		logf.FromContext(ctx).Error(q.err, "Failed to read GlusterNodes, trying again", "after", UntilBlind)
		g.remember(UntilBlind, q.err)
		return nil, q.err
	case q.undefined:
		g.remember(untilServed, nil)
		return nil, nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if slow {
		g.direct = now.Add(untilServed)
	}
	if now.Before(g.direct) {
		g.until, g.nodes, g.err = now.Add(UntilBlind), q.nodes, nil
	}
	g.listed, g.defined = true, now
	return slices.Clone(q.nodes), nil
}

// outlived reports whether what a cache has is of a definition that is gone: whoever deletes that deletes all GlusterNodes, and the cache may not see it. What the API server does not say changes nothing.
func (g *GlusterNodeReader) outlived(ctx context.Context, api client.Reader, nodes []v1alpha1.GlusterNode) bool {
	g.mu.Lock()
	due := len(nodes) > 0 && time.Since(g.defined) >= untilServed
	if due {
		g.defined = time.Now()
	}
	g.mu.Unlock()
	if !due {
		return false
	}
	limited, cancel := context.WithTimeout(ctx, liveLimit)
	defer cancel()
	undefined, err := noGlusterNodes(limited, api)
	if undefined && err == nil {
		g.remember(untilServed, nil)
		return true
	}
	return false
}

// Forget drops what is remembered: somebody saw a GlusterNode, so that the kind is there and may be read.
func (g *GlusterNodeReader) Forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.until, g.direct = time.Time{}, time.Time{}
}

// remember has it that there are none, or that nobody knows, for a while.
func (g *GlusterNodeReader) remember(d time.Duration, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.until, g.nodes, g.err = time.Now().Add(d), nil, err
}
