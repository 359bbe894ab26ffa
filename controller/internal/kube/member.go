package kube

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
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

// GlusterNodes returns all GlusterNodes, which are to Gluster what Members are to storages. There are none where the API server knows no such kind: an installation may do without Gluster. What
// else keeps them from being read is an error: then nobody knows. They must not be changed.
func GlusterNodes(ctx context.Context, r client.Reader) ([]v1alpha1.GlusterNode, error) {
	nodes, _, err := glusterNodes(ctx, r)
	return nodes, err
}

// glusterNodes returns GlusterNodes, and whether there is no such kind.
func glusterNodes(ctx context.Context, r client.Reader) (nodes []v1alpha1.GlusterNode, undefined bool, err error) {
	var list v1alpha1.GlusterNodeList
	err = r.List(ctx, &list, client.UnsafeDisableDeepCopy)
	switch {
	case err == nil:
		return list.Items, false, nil
	case meta.IsNoMatchError(err):
		return nil, true, nil
	case apierrors.IsForbidden(err):
		return nil, false, fmt.Errorf("the controller has no right to list glusternodes, apply deploy/base again: %w", err)
	case apierrors.IsNotFound(err):
		// The kind was known to this process before. Only the API server says whether its definition is gone, or is not served at this moment.
		if gone := r.Get(ctx, client.ObjectKey{Name: "glusternodes." + v1alpha1.Group}, Definition()); apierrors.IsNotFound(gone) {
			return nil, true, nil
		}
	}
	return nil, false, fmt.Errorf("list glusternodes, whose definition is in deploy/crd: %w", err)
}

const (
	// patience is how long a cache of GlusterNodes may take that is not there yet, and liveLimit how long the API server may.
	patience, liveLimit = time.Second, 5 * time.Second
	// untilBlind is how long nobody asks again after an error.
	untilBlind = 5 * time.Second
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

// List returns all GlusterNodes as GlusterNodes does, within seconds. It asks a cache, and live, the API server itself, as long as the cache is not there. live may be nil.
func (g *GlusterNodeReader) List(ctx context.Context, cached, live client.Reader) ([]v1alpha1.GlusterNode, error) {
	known, direct, err := g.recall(live != nil)
	if known {
		return nil, err
	}
	if direct {
		return g.ask(ctx, live, false)
	}
	nodes, undefined, err := glusterNodesWithin(ctx, patience, cached)
	switch {
	case err == nil && undefined:
		g.remember(untilServed, true, false, nil)
	case err != nil && live != nil:
		return g.ask(ctx, live, true)
	case err != nil:
		g.remember(untilBlind, false, false, err)
	}
	return nodes, err
}

// recall returns what came of an earlier question, if that counts: there is none, as nobody knows them or the kind is not defined. Otherwise direct says whether the API server itself is asked.
func (g *GlusterNodeReader) recall(live bool) (known, direct bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if counts := time.Now().Before(g.until); counts && (g.undefined || g.err != nil) {
		return true, false, g.err
	} else if counts && g.direct {
		return false, true, nil
	}
	return false, live && !g.listed, nil
}

// ask asks the API server itself; slow: the cache is not there.
func (g *GlusterNodeReader) ask(ctx context.Context, live client.Reader, slow bool) ([]v1alpha1.GlusterNode, error) {
	nodes, undefined, err := glusterNodesWithin(ctx, liveLimit, live)
	switch {
	case err != nil && ctx.Err() == nil:
		g.remember(untilBlind, false, false, err)
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

func glusterNodesWithin(ctx context.Context, d time.Duration, r client.Reader) ([]v1alpha1.GlusterNode, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return glusterNodes(ctx, r)
}
