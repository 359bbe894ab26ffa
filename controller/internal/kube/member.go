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
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(v1alpha1.GroupVersion.WithKind("GlusterNode"), meta.RESTScopeNamespace)
	mapper.Add(Definition().GroupVersionKind(), meta.RESTScopeRoot)
	rc = rest.CopyConfig(rc)
	rc.Timeout = limit
	return client.New(rc, client.Options{Scheme: s, Mapper: mapper})
}

// GlusterNodes returns all GlusterNodes, which are to Gluster what Members are to storages. api is one of NewGlusterNodeAPI. There are none where their definition is not found: an installation may do
// without Gluster. Whatever else keeps them from being read is an error: then nobody knows. They must not be changed.
func GlusterNodes(ctx context.Context, api client.Reader) ([]v1alpha1.GlusterNode, error) {
	nodes, _, err := definedGlusterNodes(ctx, api)
	return nodes, err
}

// definedGlusterNodes returns GlusterNodes, and whether there is no such kind. Only the definition says so: a list that is not found may be one that is not served at this moment.
func definedGlusterNodes(ctx context.Context, api client.Reader) (nodes []v1alpha1.GlusterNode, undefined bool, err error) {
	if api == nil {
		return nil, false, errors.New("nobody can ask the API server for glusternodes")
	}
	err = api.Get(ctx, client.ObjectKey{Name: "glusternodes." + v1alpha1.Group}, Definition())
	switch {
	case apierrors.IsNotFound(err):
		return nil, true, nil
	case err != nil:
		return nil, false, unread("read the definition of", err)
	}
	nodes, err = ListGlusterNodes(ctx, api)
	return nodes, false, err
}

// ListGlusterNodes returns all GlusterNodes to who knows that there is such a kind. Whatever keeps them from being read is an error. They must not be changed.
func ListGlusterNodes(ctx context.Context, r client.Reader) ([]v1alpha1.GlusterNode, error) {
	var list v1alpha1.GlusterNodeList
	if err := r.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, unread("list", err)
	}
	return list.Items, nil
}

// unread says what is missing where GlusterNodes cannot be read.
func unread(what string, err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("the controller has no right to %s glusternodes, apply deploy/base again: %w", what, err)
	}
	return fmt.Errorf("%s glusternodes, of deploy/crd: %w", what, err)
}

const (
	// patience is how long a cache of GlusterNodes may take that is not there yet, and liveLimit how long the API server may.
	patience, liveLimit = time.Second, 5 * time.Second
	// UntilBlind is how long nobody asks again after an error. Who could not read GlusterNodes looks again after that.
	UntilBlind = 5 * time.Second
)

// GlusterNodeReader reads GlusterNodes for whoever goes on without them. A cache of a kind that is not defined asks the API server each time, while all other reads wait; one of a kind that may not
// be read never comes to an end, and no controller starts that waits for it. So the cache is asked only once the API server itself has listed the kind, and what came of an error is remembered for a
// while. The zero value is ready.
type GlusterNodeReader struct {
	mu sync.Mutex
	// until is until when the last result counts: there is no such kind, the cache is not there so that the API server itself is asked, or nobody knows.
	until             time.Time
	undefined, direct bool
	err               error
	// listed: the API server has listed them.
	listed bool
}

// List returns all GlusterNodes as GlusterNodes does, within seconds. It asks a cache, and api, the API server itself, as long as the cache is not there. api may be nil.
func (g *GlusterNodeReader) List(ctx context.Context, cached, api client.Reader) ([]v1alpha1.GlusterNode, error) {
	known, direct, err := g.recall(api != nil)
	if known {
		return nil, err
	}
	if direct {
		return g.ask(ctx, api, false)
	}
	patient, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	nodes, err := ListGlusterNodes(patient, cached)
	switch {
	case err != nil && api != nil:
		return g.ask(ctx, api, true)
	case err != nil:
		g.remember(UntilBlind, false, false, err)
	}
	return nodes, err
}

// recall returns what came of an earlier question, if that counts: there is none, as nobody knows them or the kind is not defined. Otherwise direct says whether the API server itself is asked.
func (g *GlusterNodeReader) recall(asks bool) (known, direct bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if counts := time.Now().Before(g.until); counts && (g.undefined || g.err != nil) {
		return true, false, g.err
	} else if counts && g.direct {
		return false, true, nil
	}
	return false, asks && !g.listed, nil
}

// ask asks the API server itself; slow: the cache is not there.
func (g *GlusterNodeReader) ask(ctx context.Context, api client.Reader, slow bool) ([]v1alpha1.GlusterNode, error) {
	limited, cancel := context.WithTimeout(ctx, liveLimit)
	defer cancel()
	nodes, undefined, err := definedGlusterNodes(limited, api)
	switch {
	case err != nil && ctx.Err() == nil:
		g.remember(UntilBlind, false, false, err)
	case err == nil && (undefined || slow):
		g.remember(untilServed, undefined, !undefined, nil)
	}
	if err == nil && !undefined {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.listed = true
	}
	return nodes, err
}

// Forget drops what is remembered: somebody saw a GlusterNode, so that the kind is there and may be read.
func (g *GlusterNodeReader) Forget() { g.remember(0, false, false, nil) }

func (g *GlusterNodeReader) remember(d time.Duration, undefined, direct bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.until, g.undefined, g.direct, g.err = time.Now().Add(d), undefined, direct, err
}
